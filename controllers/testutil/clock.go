package testutil

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Clock is a time that tests move.
type Clock struct {
	mutex sync.Mutex
	now   time.Time
}

// NewClock returns a clock that stands at Start.
func NewClock() *Clock { return &Clock{now: Start} }

// Now is what the clock shows.
func (c *Clock) Now() time.Time {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.now
}

// Advance moves the clock forward.
func (c *Clock) Advance(by time.Duration) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.now = c.now.Add(by)
}

// Event is one that was sent.
type Event struct{ About, Kind, Reason, Note string }

// Recorder keeps the events that are sent.
type Recorder struct {
	mutex  sync.Mutex
	events []Event
}

// Eventf implements events.EventRecorder.
func (r *Recorder) Eventf(regarding, _ runtime.Object, kind, reason, _, note string, args ...any) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	name := ""
	if object, ok := regarding.(client.Object); ok {
		name = object.GetName()
	}
	r.events = append(r.events, Event{About: name, Kind: kind, Reason: reason, Note: fmt.Sprintf(note, args...)})
}

// Events are those that were sent so far.
func (r *Recorder) Events() []Event {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return append([]Event(nil), r.events...)
}
