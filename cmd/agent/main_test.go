package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/storage"
	"github.com/holdfast-dev/holdfast/testutil/pgtest"
)

// asAgent makes the test binary be the agent, so that the tests run it as a process.
const asAgent = "HOLDFAST_TEST_AS_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(asAgent) != "" {
		main()
	}
	os.Exit(pgtest.Run(m))
}

func agentCommand(t *testing.T, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asAgent+"=1")
	log := &bytes.Buffer{}
	cmd.Stderr = log
	return cmd, log
}

func TestInstallIsWholeAndExecutable(t *testing.T) {
	dir := t.TempDir()
	to := filepath.Join(dir, "agent")
	for range 2 { // also over an older copy
		cmd, log := agentCommand(t, "install", "--to", to)
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %s", err, log)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want, err1 := os.Stat(self)
	got, err2 := os.Stat(to)
	if err1 != nil || err2 != nil || got.Size() != want.Size() || got.Mode() != 0o755 {
		t.Errorf("installed: %v (%v, %v)", got, err1, err2)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("in the folder: %v", entries)
	}
	cmd, _ := agentCommand(t, "install", "--to", filepath.Join(dir, "no", "such", "folder"))
	if err := cmd.Run(); err == nil {
		t.Error("an install into nowhere succeeded")
	}
}

func TestTasksThatCannotBeRead(t *testing.T) {
	for _, task := range []string{"", "{", `{"version":1,"verb":"dump","surprise":true}`, `{"version":1} {}`, `{"version":99,"verb":"dump"}`, `{"version":1,"verb":"dump"}`, `[]`} {
		result := filepath.Join(t.TempDir(), "result")
		cmd, _ := agentCommand(t, "run", "--task", task, "--result", result, "--staging", t.TempDir())
		_ = cmd.Run()
		raw, err := os.ReadFile(result)
		if err != nil {
			t.Fatal(err)
		}
		got, err := contract.DecodeResult(raw)
		if err != nil || got.Failure == nil || got.Failure.Reason != contract.ReasonInvalidTask || cmd.ProcessState.ExitCode() != contract.ExitPermanent {
			t.Errorf("%q: %s, exit code %d", task, raw, cmd.ProcessState.ExitCode())
		}
	}
}

// dumpTask is a dump of a database of some size.
func dumpTask(t *testing.T, s *pgtest.Server, database string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"username": pgtest.Superuser, "password": pgtest.Password} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := json.Marshal(contract.Task{Version: contract.Version, Verb: contract.VerbDump,
		Object: storage.ObjectReference{Kind: "DatabaseBackup", Namespace: "shop", Name: "orders", UID: "3f2a91c0-1111-2222-3333-444455556666"},
		Database: &engine.Connection{Engine: engine.PostgreSQL, Host: s.Host, Port: s.Port, Databases: []string{database}, TLSMode: engine.TLSDisable,
			UsernameFile: filepath.Join(dir, "username"), PasswordFile: filepath.Join(dir, "password")},
		Compression: &contract.Compression{Algorithm: "Zstd", Level: 3}})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

const large = `CREATE TABLE large AS SELECT i, md5(i::text) || md5((i + 1)::text) || repeat('x', 100) AS filler FROM generate_series(1, 500000) i`

// watchWrites returns a file from which something can be read, for a minute, as soon as something is written into a file of
// a folder.
func watchWrites(t *testing.T, folder string) *os.File {
	t.Helper()
	fd, err := syscall.InotifyInit1(syscall.IN_NONBLOCK | syscall.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	events := os.NewFile(uintptr(fd), "writes to "+folder)
	t.Cleanup(func() { _ = events.Close() })
	if _, err := syscall.InotifyAddWatch(fd, folder, syscall.IN_MODIFY); err != nil {
		t.Fatal(err)
	}
	if err := events.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return events
}

func TestSIGTERMDuringADump(t *testing.T) {
	s := pgtest.Shared(t, pgtest.DebianVersion)
	task := dumpTask(t, s, s.Database(t, large))
	result, staging, temp := filepath.Join(t.TempDir(), "result"), t.TempDir(), t.TempDir()
	cmd, log := agentCommand(t, "run", "--task", task, "--result", result, "--staging", staging)
	cmd.Env = append(cmd.Env, "TMPDIR="+temp)
	written := watchWrites(t, staging)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := written.Read(make([]byte, 4096)); err != nil {
		t.Fatalf("the dump does not begin: %v", err)
	}
	begun := time.Now()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %s to stop", took)
	}
	raw, err := os.ReadFile(result)
	if err != nil {
		t.Fatalf("%v: %s", err, log)
	}
	got, err := contract.DecodeResult(raw)
	if err != nil || got.Failure == nil || got.Failure.Reason != contract.ReasonTerminated || cmd.ProcessState.ExitCode() != contract.ExitRetryable {
		t.Errorf("%s, exit code %d", raw, cmd.ProcessState.ExitCode())
	}
	for _, dir := range []string{staging, temp} {
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

// The agent promises to need less than 128 MiB whatever the size; a password must never reach the kernel's list of
// arguments or the log.
func TestMemoryAndSecretsOfADump(t *testing.T) {
	s := pgtest.Shared(t, pgtest.DebianVersion)
	task := dumpTask(t, s, s.Database(t, large))
	result := filepath.Join(t.TempDir(), "result")
	cmd, log := agentCommand(t, "run", "--task", task, "--result", result, "--staging", t.TempDir())
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, log)
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	const promised = 128 << 10 // KiB
	if usage.Maxrss > promised {
		t.Errorf("the agent needed %d MiB", usage.Maxrss>>10)
	}
	t.Logf("peak of the agent: %d MiB", usage.Maxrss>>10)
	if raw, err := os.ReadFile(result); err != nil || strings.Contains(log.String()+string(raw), pgtest.Password) {
		t.Errorf("the password stands in the log or the result (%v)", err)
	}
}
