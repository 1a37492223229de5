package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/engine"
)

const (
	// copyBuffer is what is moved between a process and us at once, and what its pipe holds.
	copyBuffer = 1 << 20
	// killDelay is how long a killed process's pipes are waited for.
	killDelay = 3 * time.Second
)

// inherited are the variables that client programs get of our own.
var inherited = []string{"PATH", "HOME", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"}

// processes runs client programs: without a shell, each in a process group of its own, which is killed when ctx ends
// or when what feeds or takes the program fails.
type processes struct {
	redactor *redactor
	log      *slog.Logger
}

// Look returns the path of a program. Debian puts a wrapper before PostgreSQL's programs that chooses a version by
// its own rules; the newest version that is there is taken in its place.
func (p *processes) Look(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", err
	}
	if !isWrapper(path) {
		return path, nil
	}
	versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + program)
	if len(versions) == 0 {
		return path, nil
	}
	return slices.MaxFunc(versions, func(a, b string) int { return versionOf(a) - versionOf(b) }), nil
}

func isWrapper(path string) bool {
	target, err := filepath.EvalSymlinks(path)
	return err == nil && filepath.Base(target) == "pg_wrapper"
}

func versionOf(path string) int {
	version, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return version
}

// Run runs a command to its end.
func (p *processes) Run(parent context.Context, command engine.Command) error {
	path, err := p.Look(command.Program)
	if err != nil {
		return fmt.Errorf("%s: %w", command.Program, err)
	}
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	stderr := &lastLines{hide: p.redactor}
	cmd := exec.CommandContext(ctx, path, command.Args...)
	cmd.Env = append(environment(), command.Env...)
	cmd.Stderr = stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = killDelay
	run := &running{cmd: cmd, fail: cancel}
	if err := run.start(command); err != nil {
		return fmt.Errorf("start %s: %w", command.Program, err)
	}
	// a program that left its group could hold our end open for ever
	unhang := context.AfterFunc(ctx, func() { time.AfterFunc(killDelay, run.close) })
	defer unhang()
	p.log.Info("started", "program", command.Program, "pid", cmd.Process.Pid)
	return p.outcome(parent, ctx, command.Program, run.wait(), stderr)
}

// outcome says why a process failed: what fed or took it before what became of it.
func (p *processes) outcome(parent, ctx context.Context, program string, exit error, stderr *lastLines) error {
	switch {
	case parent.Err() != nil:
		return context.Cause(parent)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case exit == nil:
		return nil
	}
	return &engine.ToolError{Program: program, Status: exit.Error(), Stderr: stderr.lines()}
}

func environment() []string {
	env := []string{"LC_ALL=C"}
	for _, name := range inherited {
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// running is a process with what is copied to and from it.
type running struct {
	cmd     *exec.Cmd
	fail    context.CancelCauseFunc
	in, out sync.WaitGroup
	files   []*os.File // ours, to be closed at the end
}

func (r *running) start(command engine.Command) error {
	var theirs []*os.File
	defer func() {
		for _, file := range theirs {
			_ = file.Close()
		}
	}()
	var stdin, stdout *os.File
	if command.Stdin != nil {
		reader, writer, err := widePipe()
		if err != nil {
			return err
		}
		r.cmd.Stdin, stdin = reader, writer
		theirs, r.files = append(theirs, reader), append(r.files, writer)
	}
	if command.Stdout != nil {
		reader, writer, err := widePipe()
		if err != nil {
			return err
		}
		r.cmd.Stdout, stdout = writer, reader
		theirs, r.files = append(theirs, writer), append(r.files, reader)
	}
	if err := r.cmd.Start(); err != nil {
		r.close()
		return err
	}
	if stdin != nil {
		r.in.Go(func() { r.feed(stdin, command.Stdin) })
	}
	if stdout != nil {
		r.out.Go(func() { r.take(command.Stdout, stdout) })
	}
	return nil
}

// widePipe is a pipe that holds enough for neither side to wait for the other's every step.
func widePipe() (reader, writer *os.File, err error) {
	if reader, writer, err = os.Pipe(); err != nil {
		return nil, nil, err
	}
	if raw, err := writer.SyscallConn(); err == nil {
		// where the kernel grants no wider one, it is only slower
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, copyBuffer) })
	}
	return reader, writer, nil
}

// feed gives the process its input. When the input fails, the process is killed before it can take the end of the
// pipe for the end of the data. A process that stops reading is judged by its exit status; the input is read to its
// end all the same, so that whoever makes it learns whether it was whole.
func (r *running) feed(stdin *os.File, source io.Reader) {
	_, err := io.CopyBuffer(onlyWriter{stdin}, onlyReader{source}, make([]byte, copyBuffer))
	if errors.Is(err, syscall.EPIPE) {
		_, err = io.CopyBuffer(onlyWriter{io.Discard}, onlyReader{source}, make([]byte, copyBuffer))
	}
	if err != nil {
		r.fail(err)
		_ = r.cmd.Process.Kill() // the context kills the whole group, but perhaps a moment later
	}
	_ = stdin.Close()
}

// take hands on what the process writes. When that fails, the process is killed.
func (r *running) take(target io.Writer, stdout *os.File) {
	if _, err := io.CopyBuffer(onlyWriter{target}, onlyReader{stdout}, make([]byte, copyBuffer)); err != nil {
		r.fail(err)
		_ = r.cmd.Process.Kill() // the context kills the whole group, but perhaps a moment later
	}
	_ = stdout.Close()
}

// wait waits for all output to be taken, and then for the process, so that its exit is the last word.
func (r *running) wait() error {
	r.out.Wait()
	err := r.cmd.Wait()
	r.in.Wait()
	return err
}

func (r *running) close() {
	for _, file := range r.files {
		_ = file.Close()
	}
}

// onlyReader and onlyWriter hide methods by which io.Copy would choose a buffer of its own.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

// lastLines keeps the last lines that a program says.
type lastLines struct {
	mu   sync.Mutex
	hide *redactor
	kept []string
	open []byte // line that is not ended
	// quoting is on while the program quotes a statement, which may hold somebody's password.
	quoting bool
}

// A client program quotes the statement that failed: behind these words up to the next line that it begins with its own
// name, and in lines like «LINE 1: CREATE SUBSCRIPTION …».
var (
	quotePattern   = regexp.MustCompile(`^(.*(?:[Cc]ommand|[Qq]uery) was: (?:\S+ ?){0,3})`)
	excerptPattern = regexp.MustCompile(`^LINE \d+: `)
	programPattern = regexp.MustCompile(`^(?:pg_\w+|psql): `)
)

const (
	keptLines   = 20
	keptLineLen = 400
)

func (l *lastLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range p {
		switch {
		case c == '\n':
			l.end()
		case len(l.open) < 8*keptLineLen: // more than is shown, so that no secret is cut in two
			l.open = append(l.open, c)
		}
	}
	return len(p), nil
}

func (l *lastLines) end() {
	line := strings.TrimSpace(l.hide.redact(string(l.open)))
	l.open = l.open[:0]
	if line = l.unquoted(line); line == "" {
		return
	}
	l.kept = append(l.kept, line[:min(len(line), keptLineLen)])
	if len(l.kept) > keptLines {
		l.kept = l.kept[1:]
	}
}

// unquoted leaves of a quoted statement only what it is: its first three words.
func (l *lastLines) unquoted(line string) string {
	if programPattern.MatchString(line) {
		l.quoting = false
	}
	if begin := quotePattern.FindString(line); begin != "" {
		l.quoting = true
		return strings.TrimSpace(begin) + " …"
	}
	if l.quoting || excerptPattern.MatchString(line) {
		return ""
	}
	return line
}

func (l *lastLines) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end()
	return slices.Clone(l.kept)
}
