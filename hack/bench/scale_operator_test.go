//go:build bench

package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
)

const (
	operatorNamespace = "holdfast-system"
	serviceAccount    = "holdfast-controller-manager"
	// podCredentials is where a pod finds the credentials of its ServiceAccount, and the name of its namespace.
	podCredentials = "/var/run/secrets/kubernetes.io/serviceaccount"
)

// enterPod gives a process the files of a pod in file systems of its own, and becomes the program. Its arguments are the
// credentials, where they shall be, and the command line.
const enterPod = `mount -t tmpfs pod /var/run && mkdir -p "$1" && mount --bind "$0" "$1" && shift && exec "$@"`

// operator is a manager that runs as it does in a pod of its own: as its ServiceAccount, and with leader election.
type operator struct {
	cmd     *exec.Cmd
	began   time.Time
	metrics string
	ended   chan struct{} // closed when the process is gone
	log     bytes.Buffer  // complete when the process is gone
}

func (w *cluster) startOperator(t *testing.T) *operator {
	t.Helper()
	host, port, err := net.SplitHostPort(strings.TrimPrefix(serverOf(w.config), "https://"))
	if err != nil {
		t.Fatal(err)
	}
	o := &operator{metrics: freeAddress(t), ended: make(chan struct{})}
	args, env := w.containerOf()
	args = append(args, "--metrics-bind-address="+o.metrics, "--health-probe-bind-address="+freeAddress(t)) // the last one counts
	o.cmd = exec.Command("/bin/sh", append([]string{"-c", enterPod, w.podCredentials(t), podCredentials, program("manager")}, args...)...)
	o.cmd.Env = append(env, "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "KUBERNETES_SERVICE_HOST="+host, "KUBERNETES_SERVICE_PORT="+port)
	o.cmd.Stderr = &o.log
	o.cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if id := os.Getuid(); id != 0 {
		o.cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		o.cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
	}
	o.began = time.Now()
	if err := o.cmd.Start(); err != nil {
		t.Fatalf("starting the operator in file systems of its own: %v", err)
	}
	go func() {
		_ = o.cmd.Wait()
		close(o.ended)
	}()
	t.Cleanup(func() {
		o.stop()
		if t.Failed() {
			t.Logf("the operator's last words:\n%s", o.log.Bytes()[max(0, o.log.Len()-4000):])
		}
	})
	return o
}

// containerOf returns the arguments and the environment that config/ gives the operator.
func (w *cluster) containerOf() (args, env []string) {
	w.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "config", "manager", "manager.yaml"))
	if err != nil {
		w.Fatal(err)
	}
	deployment := &appsv1.Deployment{}
	if err := yaml.UnmarshalStrict(raw, deployment); err != nil {
		w.Fatalf("config/manager/manager.yaml: %v", err)
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	values := map[string]string{}
	for _, one := range container.Env {
		values[one.Name] = one.Value
		env = append(env, one.Name+"="+one.Value)
	}
	for _, arg := range container.Args {
		for name, value := range values {
			arg = strings.ReplaceAll(arg, "$("+name+")", value)
		}
		args = append(args, arg)
	}
	return args, env
}

// stop ends the operator as a drain does, so that it gives up its lease, and waits until it is gone.
func (o *operator) stop() {
	_ = o.cmd.Process.Signal(syscall.SIGTERM)
	<-o.ended
}

func (o *operator) memory() idle {
	return idle{resident: memoryOf(o.cmd.Process.Pid, "VmRSS"), peak: memoryOf(o.cmd.Process.Pid, "VmHWM")}
}

// token is what a pod of the operator has for a password.
func (w *cluster) token(t testing.TB) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: serviceAccount}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}
	if err := w.client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatalf("asking for a token of ServiceAccount %s/%s: %v", operatorNamespace, serviceAccount, err)
	}
	return request.Status.Token
}

// podCredentials returns a folder with what a kubelet would put into a pod of the operator.
func (w *cluster) podCredentials(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	files := map[string]string{"token": w.token(t), "namespace": operatorNamespace, "ca.crt": string(w.config.CAData)}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// page is what the operator said of itself at a time, in Prometheus' text format.
type page struct {
	at   time.Time
	cpu  time.Duration // that the operator had used then, where that was asked for
	text string
}

// sum adds up the values of a metric whose labels hold all the given texts.
func (p page) sum(metric string, labels ...string) float64 {
	total := 0.0
	for line := range strings.SplitSeq(p.text, "\n") {
		rest, is := strings.CutPrefix(line, metric+"{")
		if !is {
			continue
		}
		end := strings.LastIndex(rest, "} ")
		if value, err := strconv.ParseFloat(rest[end+2:], 64); err == nil && holdsAll(rest[:end], labels) {
			total += value
		}
	}
	return total
}

func holdsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// rests says that a controller has looked at so many objects, and that none waits for it or is being looked at.
func (p page) rests(controller string, looks int) bool {
	label := `controller="` + controller + `"`
	return p.sum("controller_runtime_reconcile_total", label) >= float64(looks) && p.sum("workqueue_depth", label) == 0 &&
		p.sum("controller_runtime_active_workers", label) == 0
}

const (
	lookTick  = 100 * time.Millisecond
	quietTime = 3 * lookTick
)

// await reads the operator's metrics until they are as wanted, and gives the page the time from which on they were. With
// thousands of schedules a page is work for seconds and megabytes, so it is read only when the operator has paused: while
// it works it is not done.
func (o *operator) await(ctx context.Context, t *testing.T, done func(page) bool) page {
	t.Helper()
	tick := time.NewTicker(lookTick)
	defer tick.Stop()
	var err error
	for spent, since := o.cpu(), time.Now(); ; {
		select {
		case <-ctx.Done():
			t.Fatalf("the operator is not done (last error: %v): %v", err, ctx.Err())
		case <-o.ended:
			t.Fatal("the operator ended")
		case <-tick.C:
		}
		if now := o.cpu(); now != spent {
			spent, since = now, time.Now()
			continue
		}
		if time.Since(since) < quietTime {
			continue
		}
		var found page
		if found, err = o.read(ctx); err == nil && done(found) {
			found.at, found.cpu = since, spent
			return found
		}
	}
}

// ticks of a process's clock in a second: USER_HZ, which is the same on every Linux.
const ticks = 100

// cpu is the processor time that the operator has used.
func (o *operator) cpu() time.Duration {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", o.cmd.Process.Pid))
	// The name, in parentheses, may hold anything. Behind it stand the state as field 3, utime as 14, stime as 15.
	_, rest, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	total := int64(0)
	for _, field := range fields[11:13] {
		n, _ := strconv.ParseInt(field, 10, 64)
		total += n
	}
	return time.Duration(total) * time.Second / ticks
}

func (o *operator) scrape(t *testing.T) page {
	t.Helper()
	read, err := o.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// read gives a page the time at which it was asked for: the values are not older than that.
func (o *operator) read(ctx context.Context) (page, error) {
	at := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+o.metrics+"/metrics", nil)
	if err != nil {
		return page{}, err
	}
	request.Header.Set("Accept-Encoding", "identity") // or the operator works to pack what goes nowhere
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return page{}, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	return page{at: at, text: string(text)}, err
}
