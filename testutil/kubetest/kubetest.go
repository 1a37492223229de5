// Package kubetest gives tests a real kube-apiserver and etcd with the CRDs of Holdfast and of VolumeSnapshots in it:
// no kubelet and no controllers run, so a test plays their part.
//
// A package that uses it has one line more:
//
//	func TestMain(m *testing.M) { kubetest.Main(m) }
package kubetest

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// server is the one server of a test binary: an API server takes seconds to start, so all its tests share it.
var server struct {
	sync.Mutex
	managed     bool
	environment *envtest.Environment
	config      *rest.Config
	err         error
}

// Main runs the tests of a package, stops the server that Start may have started, and ends the process.
func Main(m *testing.M) {
	server.managed = true
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// Start returns the way to the API server of this test binary and starts it at the first call. Tests that share it
// keep apart by namespaces. The test fails at once when the server cannot be had, with what to do about it.
func Start(t testing.TB) *rest.Config {
	t.Helper()
	config, err := start()
	if err != nil {
		t.Fatal(err)
	}
	return rest.CopyConfig(config)
}

func start() (*rest.Config, error) {
	server.Lock()
	defer server.Unlock()
	if server.config == nil && server.err == nil {
		server.config, server.err = launch()
	}
	return server.config, server.err
}

// launch starts etcd and kube-apiserver. Without Main nothing would stop them after the tests, hence the check.
func launch() (*rest.Config, error) {
	if !server.managed {
		return nil, errors.New("kubetest: the package lacks func TestMain(m *testing.M) { kubetest.Main(m) }, which stops the server")
	}
	assets, err := findAssets()
	if err != nil {
		return nil, err
	}
	crds, err := crdFolders()
	if err != nil {
		return nil, err
	}
	server.environment = &envtest.Environment{
		BinaryAssetsDirectory: assets,
		CRDDirectoryPaths:     crds,
		ErrorIfCRDPathMissing: true,
	}
	config, err := server.environment.Start()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("kubetest: start kube-apiserver and etcd from %s: %w", assets, err),
			server.environment.Stop())
	}
	return config, nil
}

func stop() error {
	server.Lock()
	defer server.Unlock()
	if server.config == nil {
		return nil
	}
	if err := server.environment.Stop(); err != nil {
		return fmt.Errorf("kubetest: stop kube-apiserver and etcd: %w", err)
	}
	return nil
}
