package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/holdfast-dev/holdfast/e2e/csi/internal/driver"
	"github.com/holdfast-dev/holdfast/e2e/csi/internal/pooltest"
)

// The tests play the kubelet: they find the driver by its registration socket, ask it where its CSI socket is, and tell it the result.

func TestTheKubeletAcceptsTheDriver(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	opts, ended := start(ctx, t)
	endpoint := notify(t, opts, &registerapi.RegistrationStatus{PluginRegistered: true})
	if endpoint != opts.csiSocket {
		t.Errorf("endpoint %s; want %s", endpoint, opts.csiSocket)
	}
	info, err := csi.NewIdentityClient(dial(t, endpoint)).GetPluginInfo(t.Context(), &csi.GetPluginInfoRequest{})
	if err != nil || info.GetName() != driver.Name {
		t.Errorf("plugin info %v, %v", info, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the driver was stopped and ended with %v", err)
	}
	if _, err := os.Stat(registrationSocket(opts)); !os.IsNotExist(err) {
		t.Errorf("the registration socket is still there: %v", err)
	}
}

func TestTheKubeletRefusesTheDriver(t *testing.T) {
	opts, ended := start(t.Context(), t)
	notify(t, opts, &registerapi.RegistrationStatus{Error: "name is taken"})
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "name is taken") {
		t.Errorf("the driver ended with %v; want what the kubelet said", err)
	}
}

func TestHealth(t *testing.T) {
	for ready, want := range map[bool]int{true: http.StatusOK, false: http.StatusServiceUnavailable} {
		answer := httptest.NewRecorder()
		healthHandler(func() bool { return ready }).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/healthz", http.NoBody))
		if answer.Code != want {
			t.Errorf("ready %t: status %d; want %d", ready, answer.Code, want)
		}
	}
}

func TestOptions(t *testing.T) {
	opts, err := parse([]string{"--node-name=node-a", "--image-size=3Gi"})
	if err != nil || opts.nodeName != "node-a" || opts.pool.Size != 3<<30 {
		t.Errorf("got %+v, %v", opts, err)
	}
	if _, err := parse(nil); err == nil {
		t.Error("no node name was no error")
	}
}

func start(ctx context.Context, t *testing.T) (options, <-chan error) {
	t.Helper()
	dir := t.TempDir()
	opts := options{
		pool:            pooltest.Config(t),
		nodeName:        "node-a",
		csiSocket:       filepath.Join(dir, "plugin", "csi.sock"),
		registrationDir: filepath.Join(dir, "registry"),
		healthAddress:   "127.0.0.1:0",
	}
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, opts) }()
	return opts, ended
}

func registrationSocket(opts options) string {
	return filepath.Join(opts.registrationDir, driver.Name+"-reg.sock")
}

// notify asks for the driver's CSI socket and then tells it how its registration went.
func notify(t *testing.T, opts options, status *registerapi.RegistrationStatus) (endpoint string) {
	t.Helper()
	client := registerapi.NewRegistrationClient(dial(t, registrationSocket(opts)))
	info, err := client.GetInfo(t.Context(), &registerapi.InfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	if info.GetType() != registerapi.CSIPlugin || info.GetName() != driver.Name {
		t.Errorf("registration info %v", info)
	}
	if _, err := client.NotifyRegistrationStatus(t.Context(), status); err != nil {
		t.Fatal(err)
	}
	return info.GetEndpoint()
}

func dial(t *testing.T, socket string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
