// Package servertest is what the packages that start real servers for tests have in common.
package servertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience is how long a server may take until it serves, on a machine that does much else.
const patience = 60 * time.Second

// ErrFinal is part of an error of a server that will not serve however long it is waited for.
var ErrFinal = errors.New("waiting longer does not help")

// Process is a server's process, which can be ended and started again.
type Process struct {
	mu      sync.Mutex
	command *exec.Cmd
	gone    chan struct{}
	log     Buffer
}

// Prepare gives a command a process group of its own, so that its children end with it, and the process's log. Owner is the user
// that runs it; nil is our own.
func (p *Process) Prepare(cmd *exec.Cmd, owner *syscall.Credential) *exec.Cmd {
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: owner}
	return cmd
}

// Start starts a prepared command and waits until ask, which is asked again and again, has no error.
func (p *Process) Start(cmd *exec.Cmd, ask func(context.Context) error) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(gone)
	}()
	p.mu.Lock()
	p.command, p.gone = cmd, gone
	p.mu.Unlock()
	return await(gone, ask)
}

func await(gone chan struct{}, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil || errors.Is(err, ErrFinal) {
			return err
		}
		select {
		case <-gone:
			return errors.New("the server ended at once")
		case <-ctx.Done():
			return fmt.Errorf("the server does not serve: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Kill ends the process and its children at once, as a crash of the machine would, and waits until it is gone.
func (p *Process) Kill() {
	p.end(func(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) })
}

// Signal sends a signal to the process alone, and waits until it is gone.
func (p *Process) Signal(signal syscall.Signal) {
	p.end(func(pid int) { _ = syscall.Kill(pid, signal) })
}

func (p *Process) end(send func(pid int)) {
	p.mu.Lock()
	cmd, gone := p.command, p.gone
	p.mu.Unlock()
	if cmd == nil {
		return
	}
	send(cmd.Process.Pid)
	<-gone
}

// Log is what the process wrote.
func (p *Process) Log() string { return p.log.String() }

// Buffer is a buffer that several may use at once.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.TrimSpace(b.buf.String())
}

// FreePort of the loopback interface.
func FreePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

// Owner returns the first of some users that there is, and gives it a folder, where we are root, whom some servers refuse to run
// as. It is nil where we are not.
func Owner(dir string, names ...string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // our own user
	}
	for _, name := range names {
		account, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(account.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(account.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, int(uid), int(gid))
	}
	return nil, fmt.Errorf("root needs a user %s to run the server as", strings.Join(names, " or "))
}

// CacheDir is where install scripts put servers that no package of the machine has.
func CacheDir() (string, error) {
	if dir := os.Getenv("HOLDFAST_CACHE"); dir != "" {
		return dir, nil
	}
	base, err := os.UserCacheDir()
	return filepath.Join(base, "holdfast"), err
}
