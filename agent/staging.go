package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/engine"
)

// Names of files in the staging directory.
const (
	artifactFile = "artifact"
	partialFile  = "artifact.partial"
	resultFile   = "result.json"
	loadedFile   = "loaded.json"
	tempSuffix   = ".tmp"
)

// staged is what lies beside a whole artifact: the result that reported it, and what later verbs need to know of it.
type staged struct {
	contract.Result
	ObjectUID string      `json:"objectUID"`
	Engine    engine.Name `json:"engine"`
	Databases []string    `json:"databases,omitempty"`
	StartTime time.Time   `json:"startTime"`
	// UncompressedBytes and ToolVersion of a fetched artifact.
	ToolVersion string `json:"toolVersion,omitempty"`
}

func (w *work) path(name string) string { return filepath.Join(w.StagingDir, name) }

// keep leaves a record beside the artifact, whole or not at all.
func (w *work) keep(name string, record any) error {
	raw, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	temp := w.path(name + tempSuffix)
	if err := writeSynced(temp, raw); err != nil {
		return w.stagingError(err)
	}
	if err := os.Rename(temp, w.path(name)); err != nil {
		return w.stagingError(err)
	}
	return syncDir(w.StagingDir)
}

func writeSynced(path string, raw []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(raw)
	return errors.Join(err, file.Sync(), file.Close())
}

func syncDir(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = file.Sync()
	if errors.Is(err, syscall.EINVAL) { // some network file systems cannot
		err = nil
	}
	return errors.Join(err, file.Close())
}

// readStaged reads the record of this task's object. It is nil when there is none, or that of another object.
func (w *work) readStaged() (*staged, error) {
	raw, err := os.ReadFile(w.path(resultFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the staged result: %w", err)
	}
	var record staged
	readable := json.Unmarshal(raw, &record) == nil
	if readable && record.ObjectUID == w.task.Object.UID && record.Version == contract.Version {
		return &record, nil
	}
	return nil, nil // a leftover, which is made anew
}

// clean removes what earlier runs left unfinished, and with everything also what they finished.
func (w *work) clean(names ...string) error {
	for _, name := range append(names, partialFile, resultFile+tempSuffix, loadedFile+tempSuffix) {
		if err := os.Remove(w.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("clean the staging claim: %w", err)
		}
	}
	return nil
}

// free space of the staging claim for this user, in bytes.
func (w *work) free() (int64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(w.StagingDir, &stat); err != nil {
		return 0, fmt.Errorf("look at the staging claim: %w", err)
	}
	return int64(stat.Bavail) * stat.Bsize, nil
}

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// stagingError names the staging claim where the error does not.
func (w *work) stagingError(err error) error {
	if isFull(err) {
		return w.stagingFull(0, 0)
	}
	return fmt.Errorf("staging claim: %w", err)
}

// stagingFull says how large the claim should be: for a dump, whose size is not known beforehand, half of the
// database more than was written; never less than what is known to be needed.
func (w *work) stagingFull(written, needed int64) error {
	size := w.task.StagingSizeBytes
	wish := max(needed+needed/10, written*2, size*2)
	text := fmt.Sprintf("the staging claim (%s) is too small", bytesText(size))
	if written > 0 {
		text += fmt.Sprintf(": it was full after %s of the artifact", bytesText(written))
	}
	if needed > 0 {
		text += fmt.Sprintf(", and about %s may be needed", bytesText(needed))
	}
	return permanent(contract.ReasonStagingFull, "%s: set spec.staging.size to %s or more", text, quantity(wish))
}

// bytesText writes a size for people.
func bytesText(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", n)
}

// quantity writes a size as Kubernetes reads it, rounded up.
func quantity(n int64) string {
	if n >= 4<<30 {
		return fmt.Sprintf("%dGi", (n+1<<30-1)>>30)
	}
	return fmt.Sprintf("%dMi", max(1, (n+1<<20-1)>>20))
}

// fileSize of a staged file; -1 when it is not there.
func (w *work) fileSize(name string) int64 {
	info, err := os.Stat(w.path(name))
	if err != nil {
		return -1
	}
	return info.Size()
}

// removeOnError removes a file that did not become whole.
func removeOnError(path string, err *error) {
	if *err != nil {
		_ = os.Remove(path)
	}
}

// opened is a reader over a file with what must be closed behind it.
type opened struct {
	io.Reader
	closers []io.Closer
}

func (o *opened) Close() error {
	var failed error
	for _, closer := range o.closers {
		failed = errors.Join(failed, closer.Close())
	}
	return failed
}
