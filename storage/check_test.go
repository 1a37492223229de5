package storage

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
)

func TestCheckWriteLeavesNothing(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		f.config.CredentialsDir = f.server.LimitedCredentialsDir(f.T,
			policyOf([]string{"s3:PutObject", "s3:AbortMultipartUpload"}, f.config.Bucket))
		var requests counter
		f.tune.wrap = func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				requests.Add(1)
				return next.RoundTrip(r)
			})
		}
		if note, err := f.open().CheckWrite(f.Context(), testKey); note != "" || err != nil {
			f.Errorf("%q, %v", note, err)
		}
		if n := requests.Load(); n != 2 {
			f.Errorf("it took %d requests", n)
		}
		f.assertNothing()
	})
}

// Who may read all of a bucket, and write to another one, may not write to it.
func TestCheckWriteWithoutTheRightToWrite(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		f.config.CredentialsDir = f.server.LimitedCredentialsDir(f.T,
			policyOf([]string{"s3:GetObject", "s3:ListBucket", "s3:AbortMultipartUpload"}, f.config.Bucket))
		_, err := f.open().CheckWrite(f.Context(), testKey)
		assertKind(f.T, err, ErrAccessDenied)
		assertForPeople(f.T, f, err)
		f.assertNothing()
	})
}

// An upload would succeed with these rights, so it is not kept from it.
func TestCheckWriteWithoutTheRightToAbort(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		f.tune.wrap = troubled(1, func(r *http.Request) bool { return r.Method == http.MethodDelete }, accessDenied)
		note, err := f.open().CheckWrite(f.Context(), testKey)
		if err != nil || !strings.Contains(note, URL(f.config.Bucket, testKey)) || !strings.Contains(note, "policy") {
			f.Errorf("%q, %v", note, err)
		}
		if err := f.open().AbortUploads(f.Context(), testKey); err != nil {
			f.Error(err)
		}
		f.assertNothing()
	})
}

func accessDenied(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
	return answerOf(r, http.StatusForbidden, "AccessDenied", "Access Denied."), nil
}

func TestCheckWriteThroughTroubleThatPasses(t *testing.T) {
	for name, trouble := range map[string]func(http.RoundTripper, *http.Request) (*http.Response, error){"slow down": slowDown, "lost answer": answerLost} {
		t.Run(name, func(t *testing.T) {
			eachProvider(t, func(f *fixture) {
				f.tune.wrap = troubled(3, isAny, trouble)
				if note, err := f.open().CheckWrite(f.Context(), testKey); note != "" || err != nil {
					f.Errorf("%q, %v", note, err)
				}
				f.assertNothing()
			})
		})
	}
}

// A context that ends when the upload has begun must not keep it from being aborted.
func TestCheckWriteThatIsStoppedMidway(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		ctx, cancel := context.WithCancelCause(f.Context())
		f.tune.wrap = func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				answer, err := next.RoundTrip(r)
				if isCreate(r) {
					cancel(errors.New("told to end"))
				}
				return answer, err
			})
		}
		if _, err := f.open().CheckWrite(ctx, testKey); err != nil && !errors.Is(err, ErrStopped) {
			f.Error(err)
		}
		if ctx.Err() == nil {
			f.Error("no upload was begun")
		}
		f.assertNothing()
	})
}
