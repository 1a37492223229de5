package engine

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestPause(t *testing.T) {
	if err := Pause(t.Context(), time.Microsecond); err != nil {
		t.Error(err)
	}
	cause := errors.New("told to stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	begun := time.Now()
	if err := Pause(ctx, time.Hour); !errors.Is(err, cause) || time.Since(begun) > time.Minute {
		t.Errorf("%v after %s", err, time.Since(begun))
	}
}
