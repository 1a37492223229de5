package schedule

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// ChildName returns the name of the backup of a slot: that of the schedule, and the slot in UTC, such as
// nightly-20240331t0100z. Of a schedule's name of at most 200 characters it makes a name that any object may have.
func ChildName(schedule string, slot time.Time) string {
	return schedule + slot.UTC().Format("-20060102t1504z")
}

// RunNowName returns the name of the backup that was asked for by hand with an id, which may hold any characters, such as
// nightly-run-6b86b273ff.
func RunNowName(schedule, id string) string {
	sum := sha256.Sum256([]byte(id))
	return schedule + "-run-" + hex.EncodeToString(sum[:])[:10]
}
