// Command csi-btrfs is a CSI driver for tests. See the README beside it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/holdfast-dev/holdfast/e2e/csi/internal/driver"
	"github.com/holdfast-dev/holdfast/e2e/csi/internal/pool"
	"github.com/holdfast-dev/holdfast/e2e/csi/internal/registration"
)

var version = "dev" // set with -ldflags "-X main.version=…"

type options struct {
	pool            pool.Config
	nodeName        string
	csiSocket       string
	registrationDir string
	healthAddress   string
}

func main() {
	if err := parseAndRun(os.Args[1:]); err != nil {
		slog.Error("The CSI driver ends", "error", err)
		os.Exit(1)
	}
}

func parseAndRun(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	opts, err := parse(args)
	if err != nil {
		return err
	}
	return run(ctx, opts)
}

func parse(args []string) (options, error) {
	opts := options{}
	size := resource.MustParse("20Gi")
	fs := flag.NewFlagSet("csi-btrfs", flag.ExitOnError)
	fs.StringVar(&opts.pool.Image, "image", "/var/lib/csi-btrfs/pool.img", "image file of the pool; made and formatted if absent")
	fs.Var(quantity{&size}, "image-size", "size of a new image file, which is sparse")
	fs.StringVar(&opts.pool.Mount, "mount", "/run/csi-btrfs/pool", "directory to mount the pool on")
	fs.StringVar(&opts.nodeName, "node-name", "", "name of this node in the cluster (required)")
	fs.StringVar(&opts.csiSocket, "csi-socket", "/var/lib/kubelet/plugins/"+driver.Name+"/csi.sock", "socket to serve CSI on; the same path for the kubelet")
	fs.StringVar(&opts.registrationDir, "registration-dir", "/var/lib/kubelet/plugins_registry", "the kubelet's plugin registration directory")
	fs.StringVar(&opts.healthAddress, "health-address", ":9808", "address of /healthz, which is ready once the kubelet has accepted the driver")
	if err := fs.Parse(args); err != nil {
		return opts, err
	}
	opts.pool.Size = size.Value()
	if opts.nodeName == "" {
		return opts, errors.New("--node-name is required")
	}
	return opts, nil
}

// quantity has flag take a size as Kubernetes writes it.
type quantity struct{ *resource.Quantity }

func (q quantity) Set(s string) (err error) {
	*q.Quantity, err = resource.ParseQuantity(s)
	return err
}

func (q quantity) String() string {
	if q.Quantity == nil {
		return ""
	}
	return q.Quantity.String()
}

// run serves until the context ends or the kubelet refuses the driver.
func run(ctx context.Context, opts options) (err error) {
	p, err := pool.Open(ctx, opts.pool)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()

	group, ctx := errgroup.WithContext(ctx)
	refused := make(chan string, 1)
	reg := registration.New(driver.Name, opts.csiSocket, func(message string) { refused <- message })
	group.Go(func() error { return await(ctx, refused) })

	csiListener, err := listen(opts.csiSocket)
	if err != nil {
		return err
	}
	// The kubelet calls the driver as soon as it sees the second socket, so the first is there before it.
	regListener, err := listen(filepath.Join(opts.registrationDir, driver.Name+"-reg.sock"))
	if err != nil {
		return err
	}
	d := driver.New(p, opts.nodeName, version)
	group.Go(func() error { return driver.Serve(ctx, d.Server(), csiListener) })
	group.Go(func() error { return driver.Serve(ctx, reg.Server(), regListener) })
	group.Go(func() error { return serveHealth(ctx, opts.healthAddress, reg.Registered) })
	slog.Info("Serving", "driver", driver.Name, "version", version, "node", opts.nodeName, "socket", opts.csiSocket)
	return group.Wait()
}

func await(ctx context.Context, refused <-chan string) error {
	select {
	case <-ctx.Done():
		return nil
	case message := <-refused:
		return fmt.Errorf("the kubelet refused the driver: %s", message)
	}
}

// listen opens a socket in place of the one that a killed driver left behind.
func listen(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of socket %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the old socket %s: %w", path, err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return listener, nil
}

func serveHealth(ctx context.Context, address string, ready func() bool) error {
	server := &http.Server{Addr: address, Handler: healthHandler(ready), ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve health on %s: %w", address, err)
	}
	return nil
}

func healthHandler(ready func() bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready() {
			http.Error(w, "not registered with the kubelet yet", http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusOK)
	})
	return mux
}
