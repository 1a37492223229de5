package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// Spread returns the delay of a schedule's runs: whole seconds from 0 to below the given number, the same each time for the
// same namespace and name, and evenly distributed over many of them.
func Spread(namespace, name string, seconds int32) time.Duration {
	if seconds <= 0 {
		return 0
	}
	sum := sha256.Sum256([]byte(namespace + "/" + name))
	return time.Duration(binary.BigEndian.Uint64(sum[:])%uint64(seconds)) * time.Second
}
