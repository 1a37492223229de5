package driver_test

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"

	"github.com/holdfast-dev/holdfast/e2e/csi/internal/driver"
	"github.com/holdfast-dev/holdfast/e2e/csi/internal/pooltest"
)

func TestSanity(t *testing.T) {
	p := pooltest.Open(t, pooltest.Config(t))
	dir := t.TempDir()
	socket := filepath.Join(dir, "csi.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := driver.New(p, "node-a", "test").Server()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	config := sanity.NewTestConfig()
	config.Address = socket
	config.TargetPath = filepath.Join(dir, "target")
	config.StagingPath = filepath.Join(dir, "staging")
	config.TestVolumeSize = 64 << 20
	sanity.Test(t, config)
}
