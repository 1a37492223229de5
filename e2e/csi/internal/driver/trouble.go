package driver

import (
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Parameters of a VolumeSnapshotClass with which a test asks for trouble that real drivers make by themselves.
const (
	// paramFailFirst is how many of the first attempts at each snapshot fail with Unavailable.
	paramFailFirst = "holdfast.test/failFirst"
	// paramNeverReady, if true, keeps each snapshot not ready to use for ever.
	paramNeverReady = "holdfast.test/neverReady"
)

type trouble struct {
	failFirst  int
	neverReady bool
}

// parseTrouble refuses a parameter of our domain that it does not know: a test with a misspelt one would test nothing.
func parseTrouble(parameters map[string]string) (trouble, error) {
	var t trouble
	for key, value := range parameters {
		var err error
		switch {
		case key == paramFailFirst:
			t.failFirst, err = strconv.Atoi(value)
		case key == paramNeverReady:
			t.neverReady, err = strconv.ParseBool(value)
		case strings.HasPrefix(key, "holdfast.test/"):
			return t, status.Errorf(codes.InvalidArgument, "unknown parameter %s; there are %s and %s", key, paramFailFirst, paramNeverReady)
		}
		if err != nil {
			return t, status.Errorf(codes.InvalidArgument, "parameter %s: %v", key, err)
		}
	}
	return t, nil
}

// failures counts the failed attempts at each snapshot by its name. A restart of the driver starts the count anew.
type failures struct {
	mu    sync.Mutex
	count map[string]int
}

// next fails while fewer than wanted attempts at the name have failed.
func (f *failures) next(name string, wanted int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count[name] >= wanted {
		return nil
	}
	if f.count == nil {
		f.count = map[string]int{}
	}
	f.count[name]++
	return status.Errorf(codes.Unavailable, "attempt %d at snapshot %s fails, as %s: %q asks", f.count[name], name, paramFailFirst, strconv.Itoa(wanted))
}
