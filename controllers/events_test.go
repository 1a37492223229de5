package controllers

import (
	"context"
	"errors"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
)

// pace lets an event go when the test says so.
type pace struct {
	flowcontrol.RateLimiter
	next chan struct{}
}

func (p pace) Wait(ctx context.Context) error {
	select {
	case <-p.next:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sent counts events that go to the API server.
type sent struct {
	events.EventSink
	events chan *eventsv1.Event
}

func (s sent) Create(_ context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	s.events <- event
	return event, nil
}

func TestEventsAreSentAtTheirPace(t *testing.T) {
	t.Parallel()
	to, at := sent{events: make(chan *eventsv1.Event, 1)}, pace{next: make(chan struct{})}
	sink := pacedSink{EventSink: to, pace: at}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	send := func() {
		_, err := sink.Create(ctx, &eventsv1.Event{Reason: "Expired"})
		done <- err
	}
	go send()
	if len(to.events) != 0 {
		t.Error("it was sent before its time")
	}
	at.next <- struct{}{}
	if err := <-done; err != nil || len(to.events) != 1 {
		t.Errorf("sent are %d, %v", len(to.events), err)
	}
	go send()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("when the manager stops, the error is %v", err)
	}
}
