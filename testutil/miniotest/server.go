// Package miniotest starts a real MinIO for tests: over TLS, with a CA that nobody else trusts, on a free port of the
// loopback interface, with its files in a temporary folder. It also looks at what the server holds by other ways than
// the code under test.
package miniotest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const startTimeout = 60 * time.Second

// Server is one MinIO. Its fields are set once and can be read at any time.
type Server struct {
	// Endpoint is https://127.0.0.1:<port>. The certificate holds this address and no name, so that localhost is a
	// name that it does not hold.
	Endpoint string
	// CAFile is the PEM file of the CA that signed the server's certificate.
	CAFile string
	// AccessKey and SecretKey are the root credentials, made up at random.
	AccessKey, SecretKey string

	binary  string
	dir     string
	address string
	roots   *x509.CertPool
	log     *logBuffer

	mutex   sync.Mutex
	process *exec.Cmd
	exited  chan struct{}
}

// Start starts a server for one test, which it is killed with.
func Start(tb testing.TB) *Server {
	tb.Helper()
	s, err := start(tb.TempDir(), binary(tb))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Kill)
	return s
}

var shared struct {
	once   sync.Once
	server *Server
	dir    string
	err    error
}

// Shared returns the server that all tests of a package use. The package's TestMain must call Run. A test makes a
// bucket of its own on it, and never stops it.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	program := binary(tb)
	shared.once.Do(func() {
		if shared.dir, shared.err = os.MkdirTemp("", "miniotest-"); shared.err == nil {
			shared.server, shared.err = start(shared.dir, program)
		}
	})
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return shared.server
}

// Run runs the tests of a package and then kills the shared server: func TestMain(m *testing.M) {
// os.Exit(miniotest.Run(m)) }.
func Run(m interface{ Run() int }) int {
	code := m.Run()
	if shared.server != nil {
		shared.server.Kill()
	}
	if shared.dir != "" {
		_ = os.RemoveAll(shared.dir)
	}
	return code
}

func start(dir, program string) (*Server, error) {
	s := &Server{binary: program, dir: dir, AccessKey: "test" + rand.Text()[:12], SecretKey: rand.Text() + rand.Text(),
		log: &logBuffer{}}
	authority, err := newAuthority(filepath.Join(dir, "certs"))
	if err != nil {
		return nil, fmt.Errorf("make certificates for MinIO: %w", err)
	}
	s.CAFile, s.roots = authority.file, authority.roots
	if s.address, err = freeAddress(); err != nil {
		return nil, err
	}
	s.Endpoint = "https://" + s.address
	return s, s.Restart()
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

// Restart starts the server after Kill, on the same port and with the same data, and waits until it is ready.
func (s *Server) Restart() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	command := exec.Command(s.binary, "server", "--quiet", "--address", s.address,
		"--certs-dir", filepath.Join(s.dir, "certs"), s.dataDir())
	command.Env = []string{"HOME=" + s.dir, "PATH=" + os.Getenv("PATH"), "MINIO_BROWSER=off", "MINIO_UPDATE=off",
		"MINIO_SITE_REGION=" + region, // else any region is taken
		"MINIO_ROOT_USER=" + s.AccessKey, "MINIO_ROOT_PASSWORD=" + s.SecretKey}
	command.Stdout, command.Stderr = s.log, s.log
	exited := make(chan struct{})
	if err := startBound(command, exited); err != nil {
		return fmt.Errorf("start %s: %w", s.binary, err)
	}
	s.process, s.exited = command, exited
	return s.awaitReady()
}

// startBound starts a command that the kernel kills when this process dies, so that a test that panics leaves no
// server. The kernel watches the thread that started it, which therefore is kept until the command ends.
func startBound(command *exec.Cmd, exited chan struct{}) error {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(exited)
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait()
		}
	}()
	return <-started
}

func (s *Server) awaitReady() error {
	client := s.httpClient()
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if answer, err := client.Get(s.Endpoint + "/minio/health/ready"); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-s.exited:
			return fmt.Errorf("MinIO ended before it was ready:\n%s", s.log)
		case <-ctx.Done():
			return fmt.Errorf("MinIO was not ready within %s:\n%s", startTimeout, s.log)
		case <-tick.C:
		}
	}
}

func (s *Server) transport() *http.Transport {
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.roots, MinVersion: tls.VersionTLS12}}
}

func (s *Server) httpClient() *http.Client {
	return &http.Client{Transport: s.transport(), Timeout: 5 * time.Second}
}

// Kill ends the server at once, as a crash would, and waits until it is gone.
func (s *Server) Kill() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.process == nil {
		return
	}
	_ = s.process.Process.Kill()
	<-s.exited
	s.process = nil
}

// Log returns what the server wrote so far.
func (s *Server) Log() string { return s.log.String() }

func (s *Server) dataDir() string { return filepath.Join(s.dir, "data") }

// logBuffer collects output of the server while others read it.
type logBuffer struct {
	mutex sync.Mutex
	bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.Buffer.Write(p)
}

func (b *logBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.Buffer.String()
}

var found struct {
	once sync.Once
	path string
	err  error
}

// binary returns the path of the program: in the folder named by HOLDFAST_BIN, else where the cluster's own script
// builds or finds it.
func binary(tb testing.TB) string {
	tb.Helper()
	found.once.Do(func() { found.path, found.err = findBinary() })
	if found.err != nil {
		tb.Fatal(found.err)
	}
	return found.path
}

func findBinary() (string, error) {
	dir := os.Getenv("HOLDFAST_BIN")
	if dir == "" {
		var err error
		if dir, err = buildBinaries(); err != nil {
			return "", err
		}
	}
	path := filepath.Join(dir, "minio")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w: build it with e2e/cluster/binaries.sh minio and set HOLDFAST_BIN to the folder "+
			"that it prints, or leave HOLDFAST_BIN unset", err)
	}
	return path, nil
}

func buildBinaries() (string, error) {
	root, err := repositoryRoot()
	if err != nil {
		return "", err
	}
	script := filepath.Join(root, "e2e", "cluster", "binaries.sh")
	var log bytes.Buffer
	command := exec.Command(script, "minio")
	command.Stderr = &log
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s minio (or set HOLDFAST_BIN to a folder that holds the program minio): %w\n%s",
			script, err, &log)
	}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return lines[len(lines)-1], nil
}

func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod above the working directory: set HOLDFAST_BIN")
		}
	}
}
