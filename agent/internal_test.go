package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/storage"
)

func TestSecretsAreReadByte(t *testing.T) {
	w := Agent{}.begin(contract.Task{Object: storage.ObjectReference{Namespace: "shop"},
		DatabaseSecret: &contract.SecretNames{Name: "orders-db", Keys: []string{"user", "pass"}}})
	for content, want := range map[string]string{"plain": "plain", "newline\n": "newline", "two\n\n": "two\n", " spaces ": " spaces ", "cr\r\n": "cr\r"} {
		path := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := w.readSecret(path, w.databaseSecret(), 1); err != nil || got != want {
			t.Errorf("%q was read as %q (%v)", content, got, err)
		}
	}
	_, err := w.readSecret(filepath.Join(t.TempDir(), "password"), w.databaseSecret(), 1)
	if err == nil || !strings.HasPrefix(err.Error(), `Secret "orders-db" of namespace "shop" is absent or has no key "pass": create it`) {
		t.Errorf("%v", err)
	}
}

// Of a restore, the reference to correct may stand in the object itself or in the backup that it names.
func TestWhereAStoresSecretIsNamed(t *testing.T) {
	for kind, want := range map[string][]string{
		"DatabaseBackup":  {"(spec.storage.s3.caSecretRef)"},
		"DatabaseRestore": {"(spec.source.s3.caSecretRef, or spec.storage.s3.caSecretRef of the DatabaseBackup", "backupRef"},
	} {
		w := Agent{}.begin(contract.Task{Object: storage.ObjectReference{Kind: kind}})
		for _, words := range want {
			if got := w.storeCA().remedy; !strings.Contains(got, words) {
				t.Errorf("%s: %q lacks %q", kind, got, words)
			}
		}
	}
}

func TestRedaction(t *testing.T) {
	const secret = `p@:/%'" \x`
	r := &redactor{}
	r.hide(secret)
	r.hide("abc") // too short to be told from text
	for _, text := range []string{secret, `p%40%3A%2F%25%27%22+%5Cx`, `p@\:/%\'\" \\x`, `p@:/%''" \x`, `p@:/%'\" \\x`} {
		if got := r.redact("before " + text + " after abc"); got != "before [removed] after abc" {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestLastLines(t *testing.T) {
	r := &redactor{}
	r.hide("sesame")
	l := &lastLines{hide: r}
	for range 50 {
		if _, err := io.WriteString(l, "old\n"); err != nil {
			t.Fatal(err)
		}
	}
	for _, piece := range []string{"is ses", "ame here\n\n", strings.Repeat("x", 10000), "\nlast"} {
		if _, err := io.WriteString(l, piece); err != nil {
			t.Fatal(err)
		}
	}
	lines := l.lines()
	if len(lines) != keptLines || lines[keptLines-3] != "is [removed] here" || len(lines[keptLines-2]) != keptLineLen || lines[keptLines-1] != "last" {
		t.Errorf("%q", lines)
	}
}

func TestCompressions(t *testing.T) {
	content := bytes.Repeat([]byte("some content, and more of it; "), 100000)
	for _, c := range []contract.Compression{{Algorithm: "Zstd", Level: 1}, {Algorithm: "Zstd", Level: 3}, {Algorithm: "Zstd", Level: 9}, {Algorithm: "Zstd", Level: 19},
		{Algorithm: "Gzip", Level: 1}, {Algorithm: "Gzip", Level: 9}, {Algorithm: "None"}} {
		var out bytes.Buffer
		w, err := compressor(&out, c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Write(content)
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		if got := compressionOf(out.Bytes()); got != c.Algorithm {
			t.Errorf("%v is taken for %s", c, got)
		}
		if got, err := decompress(out.Bytes(), c.Algorithm); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%v: %d bytes, %v", c, len(got), err)
		}
		if c.Algorithm == compressionNone {
			continue
		}
		for _, cut := range []int{1, 2, 4, 10, out.Len() / 2} {
			if _, err := decompress(out.Bytes()[:out.Len()-cut], c.Algorithm); err == nil {
				t.Errorf("%v passes without its last %d bytes", c, cut)
			}
		}
		damaged := bytes.Clone(out.Bytes())
		damaged[len(damaged)/2] ^= 4
		if _, err := decompress(damaged, c.Algorithm); err == nil {
			t.Errorf("%v passes with a flipped bit", c)
		}
	}
}

func decompress(raw []byte, compression string) ([]byte, error) {
	r, err := decompressor(bytes.NewReader(raw), compression)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return io.ReadAll(r)
}

func TestCompressionsThatAreNot(t *testing.T) {
	for _, c := range []contract.Compression{{Algorithm: "Zstd", Level: 0}, {Algorithm: "Zstd", Level: 20}, {Algorithm: "Gzip", Level: 10}, {Algorithm: "LZ4", Level: 1}} {
		if _, err := compressor(io.Discard, c); err == nil {
			t.Errorf("%v is taken", c)
		}
	}
}

func TestQuantities(t *testing.T) {
	for n, want := range map[int64]string{1: "1Mi", 1 << 20: "1Mi", 1<<20 + 1: "2Mi", 4 << 30: "4Gi", 4<<30 + 1: "5Gi", 3<<30 + 5: "3073Mi"} {
		if got := quantity(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func (p *processes) sh(ctx context.Context, script string, in io.Reader, out io.Writer) error {
	return p.Run(ctx, engine.Command{Program: "sh", Args: []string{"-c", script}, Stdin: in, Stdout: out})
}

func newProcesses() *processes {
	w := Agent{}.begin(contract.Task{})
	return w.tools()
}

func TestProcessOutcomes(t *testing.T) {
	p := newProcesses()
	var out bytes.Buffer
	if err := p.sh(t.Context(), "cat; echo done", strings.NewReader("in "), &out); err != nil || out.String() != "in done\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	failed, ok := errors.AsType[*engine.ToolError](p.sh(t.Context(), "echo first >&2; echo why >&2; exit 7", nil, nil))
	if !ok || failed.Status != "exit status 7" || strings.Join(failed.Stderr, "|") != "first|why" {
		t.Errorf("%+v", failed)
	}
	if err := p.sh(t.Context(), "exit 0", bytes.NewReader(make([]byte, 8<<20)), nil); err != nil {
		t.Errorf("a program that reads nothing and succeeds: %v", err)
	}
	if _, ok := errors.AsType[*engine.ToolError](p.sh(t.Context(), "exit 3", bytes.NewReader(make([]byte, 8<<20)), nil)); !ok {
		t.Error("a program that reads nothing and fails")
	}
}

// The end of a failing input must never look like the end of the data.
func TestFailingInputKillsTheProcess(t *testing.T) {
	broken := errors.New("broken")
	mark := filepath.Join(t.TempDir(), "mark")
	source := io.MultiReader(strings.NewReader("half of the"), iotest.ErrReader(broken))
	err := newProcesses().sh(t.Context(), "cat >/dev/null; echo the end of the data > "+mark, source, nil)
	if !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the process saw the end of the data")
	}
}

type brokenWriter struct{ err error }

func (b brokenWriter) Write([]byte) (int, error) { return 0, b.err }

func TestFailingOutputKillsTheProcess(t *testing.T) {
	broken := errors.New("disk full")
	begun := time.Now()
	if err := newProcesses().sh(t.Context(), "while :; do echo y; done", nil, brokenWriter{broken}); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestEndOfTheContextKillsTheWholeGroup(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	held := filepath.Join(t.TempDir(), "held")
	if err := syscall.Mkfifo(held, 0o600); err != nil {
		t.Fatal(err)
	}
	// Without waiting for a writer, and so that reads have deadlines.
	holders, err := os.OpenFile(held, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holders.Close() }()
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- newProcesses().sh(ctx, "exec 3>"+held+"; sleep 1000 & echo begun; wait", nil, writer)
	}()
	if _, err := reader.Read(make([]byte, 32)); err != nil {
		t.Fatal(err)
	}
	cancel(ErrTerminated)
	if err := <-done; !errors.Is(err, ErrTerminated) {
		t.Errorf("%v", err)
	}
	// A pipe ends when the last process has gone that holds it.
	if err := holders.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := holders.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("a child of the program is still there: %v", err)
	}
}

// Programs inherit nothing that would change whom they connect to, or as whom.
func TestEnvironmentOfPrograms(t *testing.T) {
	for _, name := range []string{"PGHOST", "PGPASSWORD", "PGSERVICE", "PGOPTIONS", "LC_MESSAGES", "AWS_SECRET_ACCESS_KEY"} {
		t.Setenv(name, "foreign")
	}
	var out bytes.Buffer
	if err := newProcesses().sh(t.Context(), "env", nil, &out); err != nil || strings.Contains(out.String(), "foreign") {
		t.Errorf("%s (%v)", out.String(), err)
	}
}

func TestFailuresOfUnknownKindMayPass(t *testing.T) {
	w := Agent{}.begin(contract.Task{})
	failure := w.failure(t.Context(), errors.New("something odd"))
	if failure.Reason != contract.ReasonInternal || !failure.Retryable || failure.Message != "something odd" {
		t.Errorf("%+v", failure)
	}
	for retryable, want := range map[bool]int{true: contract.ExitRetryable, false: contract.ExitPermanent} {
		if got := ExitCode(contract.Result{Failure: &contract.Failure{Retryable: retryable}}); got != want {
			t.Errorf("retryable %v: exit code %d", retryable, got)
		}
	}
}
