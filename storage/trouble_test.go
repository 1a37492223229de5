package storage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/testutil/miniotest"
)

// troubled lets the first n requests that match fail: with an answer of the store, or with its answer lost on the way.
func troubled(n int64, matches func(*http.Request) bool, trouble func(next http.RoundTripper, r *http.Request) (*http.Response, error)) func(http.RoundTripper) http.RoundTripper {
	var seen counter
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if matches(r) && seen.Add(1) <= n {
				return trouble(next, r)
			}
			return next.RoundTrip(r)
		})
	}
}

func isPart(r *http.Request) bool { return r.URL.Query().Has("partNumber") }
func isCreate(r *http.Request) bool {
	return r.URL.Query().Has("uploads") && r.Method == http.MethodPost
}
func isComplete(r *http.Request) bool {
	return r.URL.Query().Has("uploadId") && r.Method == http.MethodPost
}
func isAny(*http.Request) bool { return true }

func slowDown(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
	return answerOf(r, http.StatusServiceUnavailable, "SlowDown", "Please reduce your request rate."), nil
}

// answerOf a store that does not do what it is asked for.
func answerOf(r *http.Request, status int, code, message string) *http.Response {
	text := fmt.Sprintf(`<?xml version="1.0"?><Error><Code>%s</Code><Message>%s</Message></Error>`, code, message)
	return &http.Response{Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), StatusCode: status, Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"application/xml"}},
		Body: io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text))}
}

func answerLost(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	answer, err := next.RoundTrip(r)
	if err == nil {
		_ = answer.Body.Close()
		err = errors.New("connection reset by peer")
	}
	return nil, err
}

func TestTroubleThatPasses(t *testing.T) {
	requests := map[string]func(*http.Request) bool{"part": isPart, "create": isCreate, "complete": isComplete, "any": isAny}
	for name, matches := range requests {
		t.Run(name+" told to slow down", func(t *testing.T) {
			eachProvider(t, func(f *fixture) { f.putThrough(troubled(3, matches, slowDown)) })
		})
		t.Run(name+" of lost answer", func(t *testing.T) {
			eachProvider(t, func(f *fixture) { f.putThrough(troubled(2, matches, answerLost)) })
		})
	}
}

// putThrough uploads parts through a troubled transport.
func (f *fixture) putThrough(trouble func(http.RoundTripper) http.RoundTripper) {
	f.tune.wrap = trouble
	want := content(3*testPart + 3)
	info, err := f.open().Put(f.Context(), testKey, bytes.NewReader(want), int64(len(want)))
	f.tune = smallParts()
	f.assertStored(f.T, info, err, want)
}

func TestTroubleThatLasts(t *testing.T) {
	for name, matches := range map[string]func(*http.Request) bool{"part": isPart, "create": isCreate, "complete": isComplete} {
		t.Run(name, func(t *testing.T) {
			eachProvider(t, func(f *fixture) {
				f.tune.wrap = troubled(1000, matches, slowDown)
				_, err := f.open().PutStream(f.Context(), testKey, bytes.NewReader(content(3*testPart)))
				assertKind(f.T, err, ErrUnreachable)
				if !strings.Contains(err.Error(), "SlowDown: Please reduce your request rate") {
					f.Error(err)
				}
				f.assertNothing()
			})
		})
	}
}

// An upload whose parts cannot be removed says so.
func TestAbortThatFails(t *testing.T) {
	eachProvider(t, func(f *fixture) {
		f.tune.wrap = troubled(1000, func(r *http.Request) bool { return isPart(r) || r.Method == http.MethodDelete }, slowDown)
		_, err := f.open().Put(f.Context(), testKey, bytes.NewReader(content(2*testPart)), 2*testPart)
		assertKind(f.T, err, ErrUnreachable)
		if !strings.Contains(err.Error(), "parts stay in the store") {
			f.Error(err)
		}
		f.tune = smallParts()
		if err := f.open().AbortUploads(f.Context(), testKey); err != nil {
			f.Error(err)
		}
		f.assertNothing()
	})
}

func TestServerKilledMidUpload(t *testing.T) {
	server := miniotest.Start(t)
	whole := content(8 * testPart)
	for _, provider := range []Provider{ProviderAWS, ProviderS3Compatible} {
		t.Run(string(provider), func(t *testing.T) {
			f := newFixture(t, server, provider)
			restarted := make(chan error, 1)
			f.tune.wrap = cancelAtPart(4, func() {
				server.Kill()
				go func() { restarted <- server.Restart() }()
			})
			f.tune.attempts, f.tune.delay = defaultTuning.attempts, backoff
			info, err := f.open().Put(t.Context(), testKey, bytes.NewReader(whole), int64(len(whole)))
			if startErr := <-restarted; startErr != nil {
				t.Fatal(startErr)
			}
			if err == nil {
				f.assertStored(t, info, nil, whole)
				return
			}
			assertKind(t, err, ErrUnreachable)
			if err := f.open().AbortUploads(t.Context(), testKey); err != nil {
				t.Error(err)
			}
			f.assertNothing()
		})
	}
}
