# shellcheck shell=bash
# The programs of the cluster, built from the modules that go.mod pins.

# shellcheck disable=SC2034 # read by the scripts that source this

KUBE_VERSION=v1.37.2
MINIO_STAMP=2026-02-12T20:18:48Z
MINIO_COMMIT=7aac2a2c5b7c
MC_STAMP=2025-03-13T08:02:18Z
MC_COMMIT=cf909e1063a9

CONTROL_PLANE_BINARIES=(kube-apiserver kube-controller-manager kube-scheduler etcd)
NODE_BINARIES=(kubelet kubeadm kubectl kube-proxy crictl containerd containerd-shim-runc-v2 ctr
	bridge loopback host-local portmap coredns pause)
STORAGE_BINARIES=(minio mc csi-provisioner csi-snapshotter snapshot-controller)
HOST_BINARIES=(kind)
TEST_BINARIES=(kube-apiserver etcd kubectl minio mc)

# package_of NAME prints the package that a program is built from.
package_of() {
	case "$1" in
	coredns | pause ) echo "./cmd/$1" ;;
	etcd) echo go.etcd.io/etcd/server/v3 ;;
	kube*) echo "k8s.io/kubernetes/cmd/$1" ;;
	containerd | containerd-shim-runc-v2 | ctr) echo "github.com/containerd/containerd/v2/cmd/$1" ;;
	crictl) echo sigs.k8s.io/cri-tools/cmd/crictl ;;
	bridge | loopback) echo "github.com/containernetworking/plugins/plugins/main/$1" ;;
	host-local) echo github.com/containernetworking/plugins/plugins/ipam/host-local ;;
	portmap) echo github.com/containernetworking/plugins/plugins/meta/portmap ;;
	csi-provisioner) echo github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner ;;
	csi-snapshotter | snapshot-controller) echo "github.com/kubernetes-csi/external-snapshotter/v8/cmd/$1" ;;
	minio | mc) echo "github.com/minio/$1" ;;
	kind) echo sigs.k8s.io/kind ;;
	*) die "no program of the test cluster is called \"$1\"" ;;
	esac
}

# Static and stripped; the versions are those that the programs print, and kubeadm and kubelet
# refuse to work without theirs. MinIO without a release tag warns at every start.
link_flags() {
	local kube=k8s.io/component-base/version minio=github.com/minio/minio/cmd mc=github.com/minio/mc/cmd
	local minor="${KUBE_VERSION#v1.}"
	echo "-s -w -X $kube.gitVersion=$KUBE_VERSION -X $kube.gitMajor=1 -X $kube.gitMinor=${minor%%.*}" \
		"-X $kube.gitTreeState=clean" \
		"-X $minio.Version=$MINIO_STAMP -X $minio.ReleaseTag=RELEASE.${MINIO_STAMP//:/-}" \
		"-X $minio.CommitID=$MINIO_COMMIT -X $minio.ShortCommitID=$MINIO_COMMIT -X $minio.CopyrightYear=2026" \
		"-X $mc.Version=$MC_STAMP -X $mc.ReleaseTag=RELEASE.${MC_STAMP//:/-}" \
		"-X $mc.CommitID=$MC_COMMIT -X $mc.ShortCommitID=$MC_COMMIT"
}

# bin_dir prints where the programs of this very go.mod, source and build flags are kept.
bin_dir() { echo "$BIN_DIR"; }

BIN_DIR="$HOLDFAST_CACHE/bin-$(sha_of "$CLUSTER_DIR/go.mod" "$CLUSTER_DIR/go.sum" "$CLUSTER_DIR/cmd" \
	"$(link_flags)" "$(go env GOVERSION GOARCH)")"

missing_of() {
	local dir="$1" name
	shift
	for name in "$@"; do
		[ -x "$dir/$name" ] || echo "$name"
	done
}

# ensure_binaries NAME…: builds those of the programs that are not there yet.
ensure_binaries() {
	local dir missing
	dir="$(bin_dir)"
	mapfile -t missing < <(missing_of "$dir" "$@")
	[ "${#missing[@]}" -eq 0 ] || step "compile ${missing[*]}" build_binaries "$dir" "${missing[@]}"
}

ensure_all_binaries() {
	ensure_binaries "${TEST_BINARIES[@]}"
	ensure_binaries "${CONTROL_PLANE_BINARIES[@]}"
	ensure_binaries "${NODE_BINARIES[@]}"
	ensure_binaries "${STORAGE_BINARIES[@]}" "${HOST_BINARIES[@]}"
}

# build_binaries DIR NAME…: one at a time for two builders at once (a lock), and moved into place
# whole, so that a build that was cut short leaves nothing half-written.
build_binaries() {
	local dir="$1" name staging packages=()
	shift
	exec 9>"$HOLDFAST_CACHE/build.lock"
	flock 9
	mkdir -p "$dir"
	rm -rf "$dir"/.build-*
	staging="$(mktemp -d "$dir/.build-XXXXXX")"
	for name in $(missing_of "$dir" "$@"); do packages+=("$(package_of "$name")"); done
	if [ "${#packages[@]}" -gt 0 ]; then
		(cd "$CLUSTER_DIR" && CGO_ENABLED=0 GOWORK=off go build -buildvcs=false -ldflags "$(link_flags)" \
			-o "$staging/" "${packages[@]}")
		[ ! -e "$staging/server" ] || mv "$staging/server" "$staging/etcd"
		mv "$staging"/* "$dir/"
	fi
	rmdir "$staging"
	flock -u 9
}
