package miniotest

import (
	"context"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

const region = "us-east-1"

// Client returns a plain client with root credentials, set up apart from the code under test.
func (s *Server) Client(tb testing.TB) *minio.Client {
	tb.Helper()
	client, err := minio.New(s.address, &minio.Options{Secure: true, Transport: s.transport(), Region: region,
		Creds: credentials.NewStaticV4(s.AccessKey, s.SecretKey, "")})
	if err != nil {
		tb.Fatal(err)
	}
	return client
}

// CredentialsDir writes credentials as the files accessKeyID and secretAccessKey, and sessionToken unless it is
// empty, and returns their folder.
func CredentialsDir(tb testing.TB, accessKey, secretKey, sessionToken string) string {
	tb.Helper()
	dir := tb.TempDir()
	for name, content := range map[string]string{
		"accessKeyID": accessKey, "secretAccessKey": secretKey, "sessionToken": sessionToken} {
		if content == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

// CredentialsDir writes the root credentials as files and returns their folder.
func (s *Server) CredentialsDir(tb testing.TB) string {
	tb.Helper()
	return CredentialsDir(tb, s.AccessKey, s.SecretKey, "")
}

// LimitedCredentialsDir writes temporary credentials, with a session token, that may do only what the given policy
// (IAM JSON) allows.
func (s *Server) LimitedCredentialsDir(tb testing.TB, policy string) string {
	tb.Helper()
	provider := &credentials.STSAssumeRole{STSEndpoint: s.Endpoint, Options: credentials.STSAssumeRoleOptions{
		AccessKey: s.AccessKey, SecretKey: s.SecretKey, Location: region, Policy: policy, DurationSeconds: 3600}}
	value, err := credentials.New(provider).GetWithContext(&credentials.CredContext{
		Client: s.httpClient(), Endpoint: s.Endpoint})
	if err != nil {
		tb.Fatalf("get temporary credentials: %v\n%s", err, s.log)
	}
	return CredentialsDir(tb, value.AccessKeyID, value.SecretAccessKey, value.SessionToken)
}

// Bucket makes a bucket for one test. It is deleted with all that it holds when the test ends, if the server is up.
func (s *Server) Bucket(tb testing.TB) string {
	tb.Helper()
	client := s.Client(tb)
	bucket := "test-" + strings.ToLower(rand.Text())
	if err := client.MakeBucket(tb.Context(), bucket, minio.MakeBucketOptions{Region: region}); err != nil {
		tb.Fatalf("make the bucket %s: %v\n%s", bucket, err, s.log)
	}
	tb.Cleanup(func() { s.removeBucket(tb, client, bucket) })
	return bucket
}

func (s *Server) removeBucket(tb testing.TB, client *minio.Client, bucket string) {
	s.mutex.Lock()
	up := s.process != nil
	s.mutex.Unlock()
	if !up {
		return
	}
	options := minio.RemoveBucketOptions{ForceDelete: true}
	if err := client.RemoveBucketWithOptions(context.Background(), bucket, options); err != nil {
		tb.Errorf("delete the bucket %s: %v", bucket, err)
	}
}

// Object returns the content of an object.
func (s *Server) Object(tb testing.TB, bucket, key string) []byte {
	tb.Helper()
	object, err := s.Client(tb).GetObject(tb.Context(), bucket, key, minio.GetObjectOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	defer object.Close()
	content, err := io.ReadAll(object)
	if err != nil {
		tb.Fatalf("read %s/%s: %v", bucket, key, err)
	}
	return content
}

// Put writes an object.
func (s *Server) Put(tb testing.TB, bucket, key, content string) {
	tb.Helper()
	_, err := s.Client(tb).PutObject(tb.Context(), bucket, key, strings.NewReader(content), int64(len(content)),
		minio.PutObjectOptions{})
	if err != nil {
		tb.Fatalf("write %s/%s: %v", bucket, key, err)
	}
}

// Keys lists the keys of all objects of a bucket.
func (s *Server) Keys(tb testing.TB, bucket string) []string {
	tb.Helper()
	keys := []string{}
	for object := range s.Client(tb).ListObjects(tb.Context(), bucket, minio.ListObjectsOptions{Recursive: true}) {
		if object.Err != nil {
			tb.Fatal(object.Err)
		}
		keys = append(keys, object.Key)
	}
	return keys
}

// StartUpload begins a multipart upload with one part, as a client that crashed leaves it, and returns its ID.
func (s *Server) StartUpload(tb testing.TB, bucket, key string) string {
	tb.Helper()
	core := minio.Core{Client: s.Client(tb)}
	id, err := core.NewMultipartUpload(tb.Context(), bucket, key, minio.PutObjectOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := core.PutObjectPart(tb.Context(), bucket, key, id, 1, strings.NewReader("part"), 4,
		minio.PutObjectPartOptions{}); err != nil {
		tb.Fatal(err)
	}
	return id
}

// Uploads lists the IDs of the unfinished multipart uploads of a key.
func (s *Server) Uploads(tb testing.TB, bucket, key string) []string {
	tb.Helper()
	page, err := minio.Core{Client: s.Client(tb)}.ListMultipartUploads(tb.Context(), bucket, key, "", "", "", 1000)
	if err != nil {
		tb.Fatal(err)
	}
	ids := []string{}
	for _, upload := range page.Uploads {
		if upload.Key == key {
			ids = append(ids, upload.UploadID)
		}
	}
	return ids
}

// UploadsOnDisk counts the unfinished multipart uploads of all buckets in the server's own files.
func (s *Server) UploadsOnDisk(tb testing.TB) int {
	tb.Helper()
	found, err := filepath.Glob(filepath.Join(s.dataDir(), ".minio.sys", "multipart", "*", "*", "xl.meta"))
	if err != nil {
		tb.Fatal(err)
	}
	return len(found)
}
