package storage

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

const (
	contentType         = "application/octet-stream"
	headerSHA256        = "x-amz-checksum-sha256"
	headerSHA256Planned = "x-amz-checksum-algorithm"
)

// minioClient speaks to a store through minio-go, in single requests.
type minioClient struct {
	api       minio.Core
	bucket    string
	checksums bool
}

func (s *store) useMinIO(c Config, keys accessKeys, transport http.RoundTripper) error {
	provider := minioCredentials(keys)
	value, err := provider.GetWithContext(nil) // nil: the library's own HTTP client
	if err == nil && value.AccessKeyID == "" {
		err = errors.New("neither variables nor a cloud identity")
	}
	if err != nil {
		return s.credentialsMissing(err)
	}
	s.secrets = []string{value.SecretAccessKey, value.SessionToken, value.AccessKeyID}
	lookup := minio.BucketLookupPath
	if c.VirtualHostStyle {
		lookup = minio.BucketLookupDNS
	}
	scheme, host, _ := strings.Cut(strings.TrimRight(c.Endpoint, "/"), "://")
	api, err := minio.New(host, &minio.Options{Creds: provider, Secure: scheme == "https", Region: c.Region,
		BucketLookup: lookup, Transport: expectContinue{transport}, MaxRetries: 1})
	if err != nil {
		return &Error{Kind: ErrInvalidConfig, Subject: "object store", Reason: s.redact(err.Error()), cause: err}
	}
	s.client = &minioClient{api: minio.Core{Client: api}, bucket: c.Bucket, checksums: c.PartChecksums}
	return nil
}

// minioCredentials looks for a cloud identity with a client of its own: the store's CA is not that of the cloud.
func minioCredentials(keys accessKeys) *credentials.Credentials {
	if keys.id != "" {
		return credentials.NewStaticV4(keys.id, keys.secret, keys.token)
	}
	return credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{}, &credentials.EnvMinio{}, &credentials.IAM{Client: &http.Client{Timeout: dialTimeout}},
	})
}

func (m *minioClient) putObject(ctx context.Context, key string, b body) (part, error) {
	options := m.options()
	md5Sum, sha256Sum := "", ""
	if b.md5 != nil {
		md5Sum = base64Of(b.md5)
	}
	if b.sha256 != nil {
		sha256Sum = hex.EncodeToString(b.sha256)
	}
	if m.checksums {
		options.UserMetadata = map[string]string{headerSHA256: base64Of(b.sha256)}
	}
	stored, err := m.api.PutObject(ctx, m.bucket, key, b.reader(), b.size, md5Sum, sha256Sum, options)
	if err != nil {
		return part{}, err
	}
	return part{etag: stored.ETag, sha256: stored.ChecksumSHA256}, nil
}

// options keep minio-go from framing the body with signatures of its chunks, which it does without TLS.
func (m *minioClient) options() minio.PutObjectOptions {
	return minio.PutObjectOptions{ContentType: contentType, DisableContentSha256: true}
}

func (m *minioClient) createUpload(ctx context.Context, key string) (string, error) {
	options := m.options()
	if m.checksums {
		options.UserMetadata = map[string]string{headerSHA256Planned: "SHA256"}
	}
	return m.api.NewMultipartUpload(ctx, m.bucket, key, options)
}

func (m *minioClient) putPart(ctx context.Context, key, upload string, number int, b body) (part, error) {
	options := minio.PutObjectPartOptions{DisableContentSha256: true}
	if b.sha256 != nil {
		options.Sha256Hex = hex.EncodeToString(b.sha256)
	}
	if m.checksums {
		options.CustomHeader = http.Header{}
		options.CustomHeader.Set(headerSHA256, base64Of(b.sha256))
	}
	stored, err := m.api.PutObjectPart(ctx, m.bucket, key, upload, number, b.reader(), b.size, options)
	if err != nil {
		return part{}, err
	}
	return part{etag: stored.ETag, sha256: stored.ChecksumSHA256}, nil
}

func (m *minioClient) completeUpload(ctx context.Context, key, upload string, parts []part) error {
	completed := make([]minio.CompletePart, len(parts))
	for i, p := range parts {
		completed[i] = minio.CompletePart{PartNumber: p.number, ETag: p.etag, ChecksumSHA256: p.sha256}
	}
	_, err := m.api.CompleteMultipartUpload(ctx, m.bucket, key, upload, completed, m.options())
	return err
}

func (m *minioClient) abortUpload(ctx context.Context, key, upload string) error {
	return m.api.AbortMultipartUpload(ctx, m.bucket, key, upload)
}

func (m *minioClient) uploads(ctx context.Context, key string) (ids []string, err error) {
	keyMarker, idMarker := "", ""
	for {
		page, err := m.api.ListMultipartUploads(ctx, m.bucket, key, keyMarker, idMarker, "", 1000)
		if err != nil {
			return nil, err
		}
		for _, found := range page.Uploads {
			if found.Key == key {
				ids = append(ids, found.UploadID)
			}
		}
		if !page.IsTruncated {
			return ids, nil
		}
		keyMarker, idMarker = page.NextKeyMarker, page.NextUploadIDMarker
	}
}

func (m *minioClient) get(ctx context.Context, key, byteRange string) (answer, error) {
	var options minio.GetObjectOptions
	if byteRange != "" {
		options.Set("Range", byteRange)
	}
	content, info, header, err := m.api.GetObject(ctx, m.bucket, key, options)
	if err != nil {
		return answer{}, err
	}
	whole, ranged := wholeSize(header.Get("Content-Range"))
	if !ranged {
		whole = info.Size
	}
	return answer{body: content, info: Info{SizeBytes: whole, ETag: info.ETag}, ranged: ranged}, nil
}

func (m *minioClient) head(ctx context.Context, key string) (Info, error) {
	info, err := m.api.StatObject(ctx, m.bucket, key, minio.StatObjectOptions{})
	if err != nil {
		return Info{}, err
	}
	return Info{SizeBytes: info.Size, ETag: info.ETag}, nil
}

func (m *minioClient) remove(ctx context.Context, key string) error {
	return m.api.RemoveObject(ctx, m.bucket, key, minio.RemoveObjectOptions{})
}

// minioReply finds what the store said in an error of minio-go. The library makes up NoSuchKey and NoSuchBucket where a
// 404 has no S3 error in it, as that of a web server at a wrong endpoint; such an answer keeps its status alone.
func minioReply(err error) (reply, bool) {
	var said minio.ErrorResponse
	if !errors.As(err, &said) {
		return reply{}, false
	}
	if said.XMLName.Local == "" && said.StatusCode == http.StatusNotFound {
		return reply{status: said.StatusCode}, true
	}
	return reply{status: said.StatusCode, code: said.Code, message: said.Message}, true
}

// wholeSize reads the size of the whole object from a Content-Range header: bytes 5-9/10.
func wholeSize(contentRange string) (size int64, ranged bool) {
	_, total, found := strings.Cut(contentRange, "/")
	size, err := strconv.ParseInt(total, 10, 64)
	return size, found && err == nil
}

// multipartETag is what a store without encryption of its own calls an object of these parts: the MD5 of their MD5s
// and their number.
func multipartETag(parts []part) string {
	hash := md5.New()
	for _, p := range parts {
		sum, err := hex.DecodeString(p.etag)
		if err != nil {
			return ""
		}
		hash.Write(sum)
	}
	return fmt.Sprintf("%x-%d", hash.Sum(nil), len(parts))
}
