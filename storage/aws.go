package storage

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// defaultRegion is what requests to an endpoint of one's own are signed for where no region is set.
const defaultRegion = "us-east-1"

// awsClient speaks to a store through aws-sdk-go-v2.
type awsClient struct {
	api       *s3.Client
	bucket    *string
	checksums bool
}

func (s *store) useAWS(ctx context.Context, c Config, keys accessKeys, transport http.RoundTripper) error {
	shared, err := loadAWS(ctx, c, keys)
	if err != nil {
		return s.credentialsMissing(err)
	}
	if shared.Region == "" && c.Endpoint == "" {
		return &Error{Kind: ErrInvalidConfig, Subject: "object store", Reason: "provider AWS needs a region",
			Advice: "set the region to the bucket's own"}
	}
	value, err := shared.Credentials.Retrieve(ctx)
	if err != nil {
		return s.credentialsMissing(err)
	}
	s.secrets = []string{value.SecretAccessKey, value.SessionToken, value.AccessKeyID}
	if s.endpoint == "" {
		s.endpoint = "S3 in " + shared.Region
	}
	api := s3.NewFromConfig(shared, func(o *s3.Options) { s.setAWS(o, c, transport) })
	s.client = &awsClient{api: api, bucket: aws.String(c.Bucket), checksums: c.PartChecksums}
	return nil
}

func (s *store) credentialsMissing(err error) error {
	return &Error{Kind: ErrCredentialsMissing, Subject: "credentials of the object store", cause: err,
		Reason: "no Secret is named, and the environment gives none: " + innermost(err).Error(),
		Advice: "set credentialsSecretRef, or bind the pod's service account to a cloud identity"}
}

// loadAWS reads what the environment says of region and credentials. The store's own transport is not used for that:
// its CA is not that of the cloud's token service.
func loadAWS(ctx context.Context, c Config, keys accessKeys) (aws.Config, error) {
	options := []func(*config.LoadOptions) error{
		config.WithLogger(logging.Nop{}),
		config.WithRequestChecksumCalculation(aws.RequestChecksumCalculationWhenRequired),
		config.WithResponseChecksumValidation(aws.ResponseChecksumValidationWhenRequired),
	}
	if c.Region != "" {
		options = append(options, config.WithRegion(c.Region))
	}
	if keys.id != "" {
		static := credentials.NewStaticCredentialsProvider(keys.id, keys.secret, keys.token)
		options = append(options, config.WithCredentialsProvider(static))
	}
	return config.LoadDefaultConfig(ctx, options...)
}

// setAWS makes requests plain ones: one try each (the store tries again by itself), and no checksum that the SDK
// would write around the body, which S3's kin refuse or store as content.
func (s *store) setAWS(o *s3.Options, c Config, transport http.RoundTripper) {
	o.Retryer = aws.NopRetryer{}
	o.HTTPClient = &http.Client{Transport: transport, CheckRedirect: noRedirect}
	if c.Endpoint != "" {
		o.BaseEndpoint = aws.String(c.Endpoint)
		o.UsePathStyle = !c.VirtualHostStyle
	}
	if o.Region == "" {
		o.Region = defaultRegion
	}
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// unsigned leaves the body out of the signature where TLS protects it, which saves reading it twice.
func (s *awsClient) unsigned(o *s3.Options) {
	if o.BaseEndpoint == nil || strings.HasPrefix(*o.BaseEndpoint, "https://") {
		o.APIOptions = append(o.APIOptions, v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware)
	}
}

func (s *awsClient) sum(b body) *string {
	if !s.checksums {
		return nil
	}
	return aws.String(base64Of(b.sha256))
}

func (s *awsClient) putObject(ctx context.Context, key string, b body) (part, error) {
	input := &s3.PutObjectInput{Bucket: s.bucket, Key: &key, Body: b.reader(), ContentLength: &b.size,
		ContentType: aws.String(contentType), ChecksumSHA256: s.sum(b)}
	if b.md5 != nil {
		input.ContentMD5 = aws.String(base64Of(b.md5))
	}
	output, err := s.api.PutObject(ctx, input, s.unsigned)
	if err != nil {
		return part{}, err
	}
	return part{etag: bare(output.ETag), sha256: aws.ToString(output.ChecksumSHA256)}, nil
}

func (s *awsClient) createUpload(ctx context.Context, key string) (string, error) {
	input := &s3.CreateMultipartUploadInput{Bucket: s.bucket, Key: &key, ContentType: aws.String(contentType)}
	if s.checksums {
		input.ChecksumAlgorithm = types.ChecksumAlgorithmSha256
	}
	output, err := s.api.CreateMultipartUpload(ctx, input)
	if err != nil {
		return "", err
	}
	return aws.ToString(output.UploadId), nil
}

func (s *awsClient) putPart(ctx context.Context, key, upload string, number int, b body) (part, error) {
	output, err := s.api.UploadPart(ctx, &s3.UploadPartInput{Bucket: s.bucket, Key: &key, UploadId: &upload,
		PartNumber: aws.Int32(int32(number)), Body: b.reader(), ContentLength: &b.size, ChecksumSHA256: s.sum(b)},
		s.unsigned)
	if err != nil {
		return part{}, err
	}
	return part{etag: bare(output.ETag), sha256: aws.ToString(output.ChecksumSHA256)}, nil
}

func (s *awsClient) completeUpload(ctx context.Context, key, upload string, parts []part) error {
	completed := make([]types.CompletedPart, len(parts))
	for i, p := range parts {
		completed[i] = types.CompletedPart{ETag: aws.String(p.etag), PartNumber: aws.Int32(int32(p.number))}
		if p.sha256 != "" {
			completed[i].ChecksumSHA256 = aws.String(p.sha256)
		}
	}
	_, err := s.api.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{Bucket: s.bucket, Key: &key,
		UploadId: &upload, MultipartUpload: &types.CompletedMultipartUpload{Parts: completed}})
	return err
}

func (s *awsClient) abortUpload(ctx context.Context, key, upload string) error {
	_, err := s.api.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: s.bucket, Key: &key, UploadId: &upload})
	return err
}

func (s *awsClient) uploads(ctx context.Context, key string) (ids []string, err error) {
	pages := s3.NewListMultipartUploadsPaginator(s.api, &s3.ListMultipartUploadsInput{Bucket: s.bucket, Prefix: &key})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, found := range page.Uploads {
			if aws.ToString(found.Key) == key {
				ids = append(ids, aws.ToString(found.UploadId))
			}
		}
	}
	return ids, nil
}

func (s *awsClient) get(ctx context.Context, key, byteRange string) (answer, error) {
	input := &s3.GetObjectInput{Bucket: s.bucket, Key: &key}
	if byteRange != "" {
		input.Range = &byteRange
	}
	output, err := s.api.GetObject(ctx, input)
	if err != nil {
		return answer{}, err
	}
	whole, ranged := wholeSize(aws.ToString(output.ContentRange))
	if !ranged {
		whole = aws.ToInt64(output.ContentLength)
	}
	return answer{body: output.Body, info: Info{SizeBytes: whole, ETag: bare(output.ETag)}, ranged: ranged}, nil
}

func (s *awsClient) head(ctx context.Context, key string) (Info, error) {
	output, err := s.api.HeadObject(ctx, &s3.HeadObjectInput{Bucket: s.bucket, Key: &key})
	if err != nil {
		return Info{}, err
	}
	return Info{SizeBytes: aws.ToInt64(output.ContentLength), ETag: bare(output.ETag)}, nil
}

func (s *awsClient) remove(ctx context.Context, key string) error {
	_, err := s.api.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: s.bucket, Key: &key})
	return err
}

func bare(etag *string) string { return strings.Trim(aws.ToString(etag), `"`) }

// awsReply finds what the store said in an error of the SDK. A reply that is no S3 error has a status and no code.
func awsReply(err error) (reply, bool) {
	var (
		response *smithyhttp.ResponseError
		said     smithy.APIError
		result   reply
	)
	if errors.As(err, &response) {
		result.status = response.HTTPStatusCode()
	}
	if errors.As(err, &said) {
		result.code, result.message = said.ErrorCode(), said.ErrorMessage()
	}
	if result.code == "UnknownError" {
		result.code = ""
	}
	return result, result.status >= http.StatusMultipleChoices || result.code != ""
}
