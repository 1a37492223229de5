package agent_test

import (
	"context"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/storage"
	"github.com/holdfast-dev/holdfast/testutil/miniotest"
)

// checking is a job that is told of the store alone.
func (f *fixture) checking() *job {
	j := f.job()
	j.task.Database, j.task.DatabaseSecret, j.task.DatabaseCASecret, j.task.Compression, j.task.Restore = nil, nil, nil, nil, nil
	j.task.Key = "shop/orders/" + j.task.Object.UID
	j.staging = "/nowhere"
	return j
}

// empty fails when a check left something.
func (j *job) empty() {
	j.t.Helper()
	if keys, open := j.keys(), j.minio.Uploads(j.t, j.bucket, j.task.Key); len(keys) > 0 || len(open) > 0 {
		j.t.Errorf("in the store are %q, and the uploads %q", keys, open)
	}
}

func TestCheckLeavesNothing(t *testing.T) {
	for _, provider := range []storage.Provider{storage.ProviderAWS, storage.ProviderS3Compatible} {
		t.Run(string(provider), func(t *testing.T) {
			f := newFixture(t)
			f.store.Provider = provider
			j := f.checking()
			f.minio.StartUpload(t, f.bucket, j.task.Key) // of a check that was killed
			for range 2 {
				if note := j.must(contract.VerbCheck).Note; note != "" {
					t.Errorf("the note is %q", note)
				}
			}
			j.empty()
		})
	}
}

// What an upload needs is enough, and what it lacks is told as the upload tells it.
func TestCheckWithTheRightsOfAnUpload(t *testing.T) {
	const onBucket, onObjects = `"s3:ListBucket", "s3:ListBucketMultipartUploads"`, `"s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"`
	f := newFixture(t)
	for lacks, reason := range map[string]string{
		"nothing": "", "s3:GetObject": contract.ReasonStoreDenied, "s3:PutObject": contract.ReasonStoreDenied,
		"s3:ListBucketMultipartUploads": contract.ReasonStoreDenied,
	} {
		t.Run("without "+lacks, func(t *testing.T) {
			f.t = t
			policy := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":[` + onBucket + `],"Resource":["arn:aws:s3:::` + f.bucket +
				`"]},{"Effect":"Allow","Action":[` + onObjects + `],"Resource":["arn:aws:s3:::` + f.bucket + `/shop/*"]}]}`
			f.store.CredentialsDir = f.minio.LimitedCredentialsDir(t, strings.Replace(policy, lacks, "s3:GetBucketTagging", 1))
			j := f.checking()
			if reason == "" {
				j.must(contract.VerbCheck)
			} else {
				j.mustFail(contract.VerbCheck, reason, false, f.bucket, "policy")
			}
			j.empty()
		})
	}
}

func TestCheckWaitsForTheStore(t *testing.T) {
	f := newFixture(t)
	f.minio = miniotest.Start(t)
	f.store.Endpoint, f.store.CAFile, f.store.CredentialsDir = f.minio.Endpoint, f.minio.CAFile, f.minio.CredentialsDir(t)
	f.bucket = f.minio.Bucket(t)
	f.store.Bucket = f.bucket
	j := f.checking()
	f.minio.Kill()
	done := j.start(t.Context(), contract.VerbCheck)
	eventually(t, "a try in vain", func() bool { return strings.Contains(j.logText(), `trying again","verb":"check"`) })
	if err := f.minio.Restart(); err != nil {
		t.Fatal(err)
	}
	if result := <-done; result.Failure != nil {
		t.Fatalf("%+v", *result.Failure)
	}
	j.empty()
}

func TestCheckIsTerminated(t *testing.T) {
	f := newFixture(t)
	j := f.checking()
	ctx, cancel := context.WithCancelCause(t.Context())
	work := j.agent()
	work.OpenStore = func(ctx context.Context, config storage.Config) (storage.Store, error) {
		store, err := storage.New(ctx, config)
		return endingStore{store, func() { cancel(agent.ErrTerminated) }}, err
	}
	j.task.Verb = contract.VerbCheck
	checkFailure(t, work.Run(ctx, j.task), contract.ReasonTerminated, true)
	j.empty()
}
