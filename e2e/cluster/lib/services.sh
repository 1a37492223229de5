# shellcheck shell=bash
# What runs in the cluster: snapshot API, CSI driver, MinIO.

MINIO_NAMES=(minio.minio.svc minio.minio.svc.cluster.local minio.minio minio localhost 127.0.0.1)

install_snapshot_crds() {
	local dir
	dir="$(cd "$CLUSTER_DIR" && GOWORK=off go list -m -f '{{.Dir}}' github.com/kubernetes-csi/external-snapshotter/client/v8)"
	kube apply -k "$dir/config/crd"
	kube wait --for=condition=Established --timeout=60s -f "$dir/config/crd/snapshot.storage.k8s.io_volumesnapshots.yaml"
}

install_csi_driver() {
	kube apply -k "$CSI_DIR/deploy"
}

install_minio() {
	ensure_minio_secrets
	kube apply -k "$CLUSTER_DIR/minio"
}

# The credentials and the certificate are made once a cluster and live nowhere else.
ensure_minio_secrets() {
	local dir
	kube -n minio get secret/minio-root secret/minio-tls secret/minio-ca configmap/minio-ca && return
	kube get namespace minio || kube create namespace minio
	dir="$(mktemp -d "$RUN_DIR/tmp-XXXXXX")"
	(cd "$CLUSTER_DIR" && GOWORK=off go run ./tlsgen "$dir" "${MINIO_NAMES[@]}")
	random_word 20 >"$dir/accessKeyID"
	random_word 40 >"$dir/secretAccessKey"
	put_object secret generic minio-root "$dir/accessKeyID" "$dir/secretAccessKey"
	put_object secret generic minio-tls "$dir/tls.crt" "$dir/tls.key"
	put_object configmap minio-ca "$dir/ca.crt"
	put_object secret generic minio-ca "$dir/ca.crt"
	rm -rf "$dir"
}

random_word() { head -c 256 /dev/urandom | base64 -w 0 | tr -dc 'a-zA-Z0-9' | head -c "$1"; }

# put_object KIND… NAME FILE…: creates or replaces a Secret or ConfigMap made of files.
put_object() {
	local words=() files=()
	while [ $# -gt 0 ]; do
		case "$1" in
		/*) files+=("--from-file=$1") ;;
		*) words+=("$1") ;;
		esac
		shift
	done
	kube -n minio create "${words[@]}" "${files[@]}" --dry-run=client -o yaml | kube apply -f -
}

wait_for_workloads() {
	rolled_out kube-system daemonset/kube-proxy deployment/coredns
	rolled_out csi-btrfs daemonset/csi-btrfs
	rolled_out minio deployment/minio
}

rolled_out() {
	local namespace="$1"
	shift
	kube -n "$namespace" rollout status "$@" --timeout=180s || { describe_failure "$namespace" && return 1; }
}

describe_failure() {
	kube -n "$1" get pods -o wide
	kube -n "$1" get events --sort-by=.lastTimestamp | tail -n 20
	kube -n "$1" logs --all-containers --prefix --tail=20 --selector '' --ignore-errors || true
}
