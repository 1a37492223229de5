// Command manager is the control plane of Holdfast: flags and wiring only.
package main

import (
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers"
)

// version is set by the build.
var version = "dev"

type options struct {
	metricsAddress  string
	probeAddress    string
	leaderElect     bool
	agentImage      string
	images          images
	podStartTimeout time.Duration
	deletionTimeout time.Duration
	expiryTimeout   time.Duration
	maxRunning      int
	maxPerNamespace int
}

func main() {
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, nil)))
	if err := run(parse()); err != nil {
		ctrl.Log.Error(err, "the manager ended")
		os.Exit(1)
	}
}

func parse() options {
	var o options
	flag.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "address of the metrics endpoint; 0 for none")
	flag.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	flag.BoolVar(&o.leaderElect, "leader-elect", false, "let only one of several replicas work at a time")
	flag.StringVar(&o.agentImage, "agent-image", "", "image with /agent, copied into every Job's pod: the manager's own")
	o.images = defaultImages()
	flag.Var(o.images, "image", "ENGINE=IMAGE: the image with an engine's client tools, for objects that name none; once an engine")
	flag.DurationVar(&o.podStartTimeout, "pod-start-timeout", 5*time.Minute,
		"how long a Job's pod may take until its containers run")
	flag.DurationVar(&o.deletionTimeout, "deletion-timeout", 10*time.Minute,
		"how long a deleted object may take to remove what its deletionPolicy names, before it lets go")
	flag.DurationVar(&o.expiryTimeout, "retention-deletion-timeout", 7*24*time.Hour,
		"the same for a backup that retention deletes, while its store cannot be reached or refuses")
	flag.IntVar(&o.maxRunning, "max-running-backups", 10,
		"how many DatabaseBackups run at once in the cluster, others wait; 0 for no limit")
	flag.IntVar(&o.maxPerNamespace, "max-running-backups-per-namespace", 0,
		"how many DatabaseBackups run at once in each namespace, others wait; 0 for no limit")
	flag.Parse()
	return o
}

func run(o options) error {
	if o.agentImage == "" {
		return fmt.Errorf("--agent-image is needed: the image that this manager runs from, such as holdfast:%s", version)
	}
	schedules := &controllers.ScheduleMetrics{}
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), managerOptions(o, schedules))
	if err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	schedules.Reader = mgr.GetClient()
	if err := register(mgr, o); err != nil {
		return err
	}
	ctrl.Log.Info("starting", "version", version, "agentImage", o.agentImage)
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		return fmt.Errorf("running: %w", err)
	}
	return nil
}

func managerOptions(o options, schedules *controllers.ScheduleMetrics) ctrl.Options {
	return ctrl.Options{
		Scheme:                        scheme(),
		Metrics:                       metricsserver.Options{BindAddress: o.metricsAddress, FilterProvider: behind(schedules)},
		HealthProbeBindAddress:        o.probeAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              "manager.holdfast.dev",
		LeaderElectionReleaseOnCancel: true,
		// The lease is renewed 15 times a minute, half as often as by default: an operator that has nothing to do is
		// to ask next to nothing. It still lapses 15 seconds after an operator that was killed.
		RetryPeriod: ptr.To(4 * time.Second),
		Cache:       controllers.CacheOptions(),
	}
}

// behind puts the metrics of schedules behind those of the registry. They are there when the server starts.
func behind(schedules *controllers.ScheduleMetrics) func(*rest.Config, *http.Client) (metricsserver.Filter, error) {
	return func(*rest.Config, *http.Client) (metricsserver.Filter, error) {
		return func(_ logr.Logger, first http.Handler) (http.Handler, error) { return schedules.Behind(first), nil }, nil
	}
}

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(snapshotv1.AddToScheme(s))
	utilruntime.Must(v1alpha1.AddToScheme(s))
	return s
}

func register(mgr ctrl.Manager, o options) error {
	err := controllers.Register(mgr, controllers.Options{
		AgentImage:      o.agentImage,
		Images:          o.images,
		PodStartTimeout: o.podStartTimeout,
		DeletionTimeout: o.deletionTimeout,
		ExpiryTimeout:   o.expiryTimeout,
		MaxRunning:      o.maxRunning, MaxRunningPerNamespace: o.maxPerNamespace,
		Now: time.Now,
	})
	if err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("adding the health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("adding the readiness check: %w", err)
	}
	return nil
}
