//go:build e2e

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v6/apis/volumesnapshot/v1"
	"github.com/minio/minio-go/v7"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// What the suite finds in the cluster. The names are those of e2e/cluster, e2e/csi and config/.
const (
	operatorNamespace  = "holdfast-system"
	operatorDeployment = "holdfast-controller-manager"
	minioNamespace     = "minio"
	minioDeployment    = "minio"
	minioEndpoint      = "https://minio.minio.svc:9000"
	postgresImage      = "holdfast.test/postgres:15"
	volumeClass        = "csi-btrfs"

	// labelSuite marks each namespace that the suite makes, so that the last check finds them all.
	labelSuite = "e2e.holdfast.dev/spec"
)

// environment is what every spec shares: ways to talk to the cluster and, past Holdfast, to the store.
type environment struct {
	kubeconfig string
	kubectl    string
	kube       client.WithWatch
	sets       kubernetes.Interface
	store      *minio.Client
	access     storeAccess
	// keep leaves the namespace and the bucket of a failed spec for people to look at.
	keep bool
}

var env environment

func TestMain(m *testing.M) {
	flag.Parse()
	if err := waitTogether(); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\n", err)
		os.Exit(1)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	err := env.connect(ctx)
	cancel()
	if err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\nBring the cluster and the operator up with: make e2e\n", err)
		os.Exit(1)
	}
	code := m.Run()
	if left := env.checkNothingLeft(code != 0); len(left) > 0 {
		for _, line := range left {
			fmt.Fprintf(os.Stderr, "--- FAIL: left behind: %s\n", line)
		}
		code = 1
	}
	os.Exit(code)
}

// waitTogether lets more specs run at once than there are cores, unless -parallel says how many: they mostly wait.
func waitTogether() error {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", "6")
}

func (e *environment) connect(ctx context.Context) error {
	e.keep = os.Getenv("KEEP") == "1"
	e.kubeconfig = kubeconfigPath()
	config, err := clientcmd.BuildConfigFromFlags("", e.kubeconfig)
	if err != nil {
		return fmt.Errorf("the kubeconfig of the test cluster is not usable: %w", err)
	}
	config.QPS = -1
	if err := e.makeClients(config); err != nil {
		return err
	}
	if e.kubectl, err = findKubectl(); err != nil {
		return err
	}
	if err := e.findOperator(ctx); err != nil {
		return err
	}
	return e.connectStore(ctx)
}

func kubeconfigPath() string {
	if path := os.Getenv("KUBECONFIG"); path != "" {
		return path
	}
	return filepath.Join(cacheDir(), "kubeconfig")
}

// cacheDir is where e2e/cluster keeps what it built, and the kubeconfig.
func cacheDir() string {
	if dir := os.Getenv("HOLDFAST_CACHE"); dir != "" {
		return dir
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "holdfast")
	}
	return filepath.Join(os.Getenv("HOME"), ".cache", "holdfast")
}

func findKubectl() (string, error) {
	if path := os.Getenv("KUBECTL"); path != "" {
		return path, nil
	}
	if path, err := exec.LookPath("kubectl"); err == nil {
		return path, nil
	}
	built, err := filepath.Glob(filepath.Join(cacheDir(), "bin-*", "kubectl"))
	if err != nil || len(built) == 0 {
		return "", errors.New("there is no kubectl: put it on PATH, or name it in KUBECTL")
	}
	return built[0], nil
}

func (e *environment) makeClients(config *rest.Config) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, v1alpha1.AddToScheme, snapshotv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	var err error
	if e.kube, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("the test cluster does not answer: %w", err)
	}
	if e.sets, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("the test cluster does not answer: %w", err)
	}
	return nil
}

func (e *environment) findOperator(ctx context.Context) error {
	var deployment appsv1.Deployment
	key := client.ObjectKey{Namespace: operatorNamespace, Name: operatorDeployment}
	if err := e.kube.Get(ctx, key, &deployment); err != nil {
		return fmt.Errorf("the operator is not in the cluster: %w", err)
	}
	if deployment.Status.AvailableReplicas == 0 {
		return fmt.Errorf("the operator %s has no pod that is ready", key)
	}
	if err := e.kube.List(ctx, &v1alpha1.DatabaseBackupList{}, client.InNamespace("default")); err != nil {
		return fmt.Errorf("the API of Holdfast is not in the cluster: %w", err)
	}
	return nil
}

func (e *environment) connectStore(ctx context.Context) error {
	var root, ca corev1.Secret
	for name, secret := range map[string]*corev1.Secret{"minio-root": &root, "minio-ca": &ca} {
		if err := e.kube.Get(ctx, client.ObjectKey{Namespace: minioNamespace, Name: name}, secret); err != nil {
			return fmt.Errorf("MinIO is not in the cluster: %w", err)
		}
	}
	e.access = storeAccess{
		accessKeyID:     string(root.Data["accessKeyID"]),
		secretAccessKey: string(root.Data["secretAccessKey"]),
		ca:              ca.Data["ca.crt"],
	}
	var err error
	if e.store, err = e.access.client(); err != nil {
		return err
	}
	if _, err := e.store.ListBuckets(ctx); err != nil {
		return fmt.Errorf("MinIO does not answer at %s (E2E_MINIO_URL says where else): %w", hostEndpoint(), err)
	}
	return nil
}
