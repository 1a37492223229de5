package kubetest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// snapshotModule is the module whose client and CRDs of VolumeSnapshots the operator is built with.
const snapshotModule = "github.com/kubernetes-csi/external-snapshotter/client/v6"

// findAssets returns the folder of kube-apiserver and etcd: the one that KUBEBUILDER_ASSETS or HOLDFAST_BIN names, or
// the cache of the test cluster's programs, which are compiled there when they are absent (that takes minutes).
func findAssets() (string, error) {
	for _, variable := range []string{"KUBEBUILDER_ASSETS", "HOLDFAST_BIN"} {
		if folder := os.Getenv(variable); folder != "" {
			return folder, checkAssets(folder, variable)
		}
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	output, err := run(root, filepath.Join(root, "e2e", "cluster", "binaries.sh"), "kube-apiserver", "etcd", "kubectl", "minio", "mc")
	if err != nil {
		return "", fmt.Errorf("kubetest: build kube-apiserver and etcd (or set KUBEBUILDER_ASSETS to a folder that holds them): %w", err)
	}
	lines := strings.Split(strings.TrimSpace(output), "\n")
	folder := lines[len(lines)-1]
	return folder, checkAssets(folder, "e2e/cluster/binaries.sh")
}

// checkAssets names what is missing before envtest fails in a way that does not.
func checkAssets(folder, origin string) error {
	for _, name := range []string{"kube-apiserver", "etcd"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return fmt.Errorf("kubetest: no %s in the folder that %s names: %w; `make test` builds it", name, origin, err)
		}
	}
	return nil
}

// crdFolders returns the CRDs of Holdfast, as `make generate` wrote them, and those of VolumeSnapshots.
func crdFolders() ([]string, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	snapshots, err := run(root, "go", "list", "-m", "-f", "{{.Dir}}", snapshotModule)
	if err != nil {
		return nil, fmt.Errorf("kubetest: find the CRDs of VolumeSnapshots: %w", err)
	}
	return []string{
		filepath.Join(root, "config", "crd", "bases"),
		filepath.Join(strings.TrimSpace(snapshots), "config", "crd"),
	}, nil
}

// moduleRoot is the folder of go.mod, upwards from the package under test, in which `go test` runs its binary.
func moduleRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("kubetest: find the working directory: %w", err)
	}
	for folder := start; ; folder = filepath.Dir(folder) {
		_, err := os.Stat(filepath.Join(folder, "go.mod"))
		if err == nil {
			return folder, nil
		}
		if !errors.Is(err, fs.ErrNotExist) || folder == filepath.Dir(folder) {
			return "", fmt.Errorf("kubetest: no go.mod in or above %s: %w", start, err)
		}
	}
}

// run returns what a command prints, and puts what it complains of into the error.
func run(folder, name string, arguments ...string) (string, error) {
	command := exec.Command(name, arguments...)
	command.Dir = folder
	var complaint bytes.Buffer
	command.Stderr = &complaint
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", filepath.Base(name), err, strings.TrimSpace(complaint.String()))
	}
	return string(output), nil
}
