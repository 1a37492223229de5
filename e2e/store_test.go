//go:build e2e

package e2e

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// storeAccess is how the suite itself reaches MinIO. It goes past Holdfast's own storage package, so that a fault there
// cannot hide itself.
type storeAccess struct {
	accessKeyID, secretAccessKey string
	ca                           []byte
}

// hostEndpoint is MinIO as seen from this machine: a NodePort that kind-config.yaml maps.
func hostEndpoint() string {
	if at := os.Getenv("E2E_MINIO_URL"); at != "" {
		return at
	}
	return "https://127.0.0.1:30900"
}

func (a storeAccess) client() (*minio.Client, error) {
	at, err := url.Parse(hostEndpoint())
	if err != nil {
		return nil, fmt.Errorf("E2E_MINIO_URL is no URL: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(a.ca) {
		return nil, errors.New("the Secret minio/minio-ca holds no certificate under ca.crt")
	}
	return minio.New(at.Host, &minio.Options{
		Creds:     credentials.NewStaticV4(a.accessKeyID, a.secretAccessKey, ""),
		Secure:    at.Scheme == "https",
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
	})
}

// object is what the store holds under a key.
type object struct {
	key    string
	bytes  []byte
	sha256 string
}

// splitURL takes s3://bucket/key apart.
func splitURL(t *testing.T, at string) (bucket, key string) {
	t.Helper()
	rest, isS3 := strings.CutPrefix(at, "s3://")
	bucket, key, whole := strings.Cut(rest, "/")
	if !isS3 || !whole || bucket == "" || key == "" {
		t.Fatalf("%q is no URL of an artifact: s3://bucket/key is expected", at)
	}
	return bucket, key
}

func readObject(t *testing.T, bucket, key string) object {
	t.Helper()
	reader, err := env.store.GetObject(t.Context(), bucket, key, minio.GetObjectOptions{})
	if err != nil {
		t.Fatalf("the store does not give %s/%s: %v", bucket, key, err)
	}
	defer reader.Close()
	raw, err := io.ReadAll(reader)
	if err != nil {
		t.Fatalf("the store does not give %s/%s: %v", bucket, key, err)
	}
	sum := sha256.Sum256(raw)
	return object{key: key, bytes: raw, sha256: hex.EncodeToString(sum[:])}
}

// manifest is what the suite reads of a manifest. It is written down again here, so that a change of the format in
// the product shows.
type manifest struct {
	Version   int      `json:"version"`
	Key       string   `json:"key"`
	SizeBytes int64    `json:"sizeBytes"`
	SHA256    string   `json:"sha256"`
	Format    string   `json:"format"`
	Engine    string   `json:"engine"`
	Databases []string `json:"databases"`
	Object    struct {
		Kind, Namespace, Name, UID string
	} `json:"object"`
	Snapshots []struct {
		Name, Claim, Handle string
	} `json:"snapshots"`
}

const manifestSuffix = ".manifest.json"

func readManifest(t *testing.T, bucket, artifactKey string) manifest {
	t.Helper()
	var m manifest
	raw := readObject(t, bucket, artifactKey+manifestSuffix).bytes
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatalf("the manifest of %s is no JSON: %v", artifactKey, err)
	}
	return m
}

// keysOf lists every key of a bucket.
func keysOf(ctx context.Context, bucket string) ([]string, error) {
	var keys []string
	for info := range env.store.ListObjects(ctx, bucket, minio.ListObjectsOptions{Recursive: true}) {
		if info.Err != nil {
			return nil, fmt.Errorf("the bucket %s cannot be listed: %w", bucket, info.Err)
		}
		keys = append(keys, info.Key)
	}
	return keys, nil
}

// halfUploads lists the multipart uploads of a bucket that were begun and not finished.
func halfUploads(ctx context.Context, bucket string) ([]string, error) {
	var keys []string
	for info := range env.store.ListIncompleteUploads(ctx, bucket, "", true) {
		if info.Err != nil {
			return nil, fmt.Errorf("the half uploads of the bucket %s cannot be listed: %w", bucket, info.Err)
		}
		keys = append(keys, info.Key)
	}
	return keys, nil
}

// removeBucket removes a bucket with all that is in it; it is no error that it is gone.
func removeBucket(ctx context.Context, bucket string) error {
	keys, err := halfUploads(ctx, bucket)
	if err != nil {
		return ignoreNoBucket(err)
	}
	for _, key := range keys {
		if err := env.store.RemoveIncompleteUpload(ctx, bucket, key); err != nil {
			return ignoreNoBucket(err)
		}
	}
	return ignoreNoBucket(env.store.RemoveBucketWithOptions(ctx, bucket, minio.RemoveBucketOptions{ForceDelete: true}))
}

func ignoreNoBucket(err error) error {
	var response minio.ErrorResponse
	if errors.As(err, &response) && response.Code == minio.NoSuchBucket {
		return nil
	}
	return err
}
