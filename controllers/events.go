package controllers

import (
	"context"
	"fmt"

	eventsv1 "k8s.io/api/events/v1"
	typedeventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// eventsPerSecond and eventsAtOnce bound how fast events are sent: where a thousand backups are due at once, what is told
// about them waits, and not the backups.
const (
	eventsPerSecond = 25
	eventsAtOnce    = 50
)

// newRecorder returns a recorder of events that are sent for as long as the manager runs, no faster than the bounds above.
func newRecorder(mgr ctrl.Manager, name string) (events.EventRecorder, error) {
	client, err := typedeventsv1.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making the client of events: %w", err)
	}
	broadcaster := events.NewBroadcaster(pacedSink{
		EventSink: &events.EventSinkImpl{Interface: client},
		pace:      flowcontrol.NewTokenBucketRateLimiter(eventsPerSecond, eventsAtOnce),
	})
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
			return fmt.Errorf("beginning to send events: %w", err)
		}
		<-ctx.Done()
		broadcaster.Shutdown()
		return nil
	})); err != nil {
		return nil, fmt.Errorf("adding the sender of events: %w", err)
	}
	return broadcaster.NewRecorder(mgr.GetScheme(), name), nil
}

// pacedSink sends events at a pace.
type pacedSink struct {
	events.EventSink
	pace flowcontrol.RateLimiter
}

// Create waits for the pace, and then sends an event.
func (s pacedSink) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	if err := s.pace.Wait(ctx); err != nil {
		return nil, fmt.Errorf("waiting to send the event %s: %w", event.Reason, err)
	}
	return s.EventSink.Create(ctx, event)
}
