//go:build bench

package bench

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/holdfast-dev/holdfast/testutil/kubetest"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // envtest's
	kubetest.Main(m)
}

// idle is the memory of an operator that has nothing to do, in bytes.
type idle struct{ resident, peak int64 }

const (
	settleTick  = 5 * time.Second
	settleTicks = 6       // looks in a row that must agree
	settleBand  = 1 << 20 // bytes that they may differ by
	settleLimit = 3 * time.Minute
)

// measureOperator runs the manager against a real API server without any object, until its memory rests.
func measureOperator(t *testing.T) idle {
	t.Helper()
	config := writeKubeconfig(t, kubetest.Start(t))
	ctx, cancel := context.WithTimeout(t.Context(), settleLimit)
	defer cancel()
	probes := freeAddress(t)
	cmd := exec.CommandContext(ctx, program("manager"), "--agent-image=holdfast:bench", "--metrics-bind-address="+freeAddress(t), "--health-probe-bind-address="+probes)
	cmd.Env = []string{"KUBECONFIG=" + config}
	var log bytes.Buffer
	cmd.Stderr = &log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the operator said:\n%s", log.String())
		}
	}()
	awaitReady(ctx, t, probes)
	found := settled(ctx, t, cmd.Process.Pid)
	sayf("operator: idle at %s, peak %s", mebibytes(found.resident), mebibytes(found.peak))
	return found
}

// settled looks at the memory until it has stayed the same for a number of looks.
func settled(ctx context.Context, t *testing.T, pid int) idle {
	t.Helper()
	tick := time.NewTicker(settleTick)
	defer tick.Stop()
	for last, same := int64(0), 0; ; {
		select {
		case <-ctx.Done():
			t.Fatalf("the operator's memory did not rest within %s: it has %s", settleLimit, mebibytes(last))
		case <-tick.C:
		}
		now := memoryOf(pid, "VmRSS")
		if now == 0 {
			t.Fatal("the operator ended")
		}
		same++
		if now > last+settleBand || now < last-settleBand {
			last, same = now, 0
		}
		if same == settleTicks {
			return idle{resident: now, peak: memoryOf(pid, "VmHWM")}
		}
	}
}

func awaitReady(ctx context.Context, t *testing.T, address string) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if answer, err := http.Get("http://" + address + "/readyz"); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the operator was not ready within %s", settleLimit)
		case <-tick.C:
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// serverOf a config, whose host may lack the scheme.
func serverOf(config *rest.Config) string {
	if strings.Contains(config.Host, "://") {
		return config.Host
	}
	return "https://" + config.Host
}

func writeKubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	file := clientcmdapi.NewConfig()
	file.Clusters["bench"] = &clientcmdapi.Cluster{Server: serverOf(config), CertificateAuthorityData: config.CAData}
	file.AuthInfos["bench"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken}
	file.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench", AuthInfo: "bench"}
	file.CurrentContext = "bench"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		t.Fatal(err)
	}
	_ = os.Chmod(path, 0o600)
	return path
}
