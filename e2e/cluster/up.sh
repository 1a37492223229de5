#!/usr/bin/env bash
# up.sh: brings up the test cluster with all that runs in it, or finds it running. It can be
# stopped at any moment and run again. See README.md.
set -euo pipefail
# shellcheck source=e2e/cluster/lib/all.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib/all.sh"

main() {
	alone
	ensure_docker
	ensure_programs
	ensure_images
	ensure_cluster
	if [ "$(stamp)" != "$(cat "$RUN_DIR/up-stamp" 2>/dev/null)" ]; then
		install_foundations
		stamp >"$RUN_DIR/up-stamp"
	fi
	step "apply MinIO" install_minio
	step "apply the CSI driver" install_csi_driver
	step "wait until everything is ready" wait_for_workloads
	usage
}

ensure_programs() {
	if [ "$HOLDFAST_IMAGES" = published ]; then
		ensure_binaries kind kubectl mc
	else
		ensure_all_binaries
	fi
}

ensure_images() {
	if [ "$HOLDFAST_IMAGES" = published ]; then
		ensure_published_images
	else
		ensure_debian_images
		ensure_source_images
	fi
}

install_foundations() {
	step "wait for the node" wait_for_node
	step "load images into the node" load_images "${NODE_IMAGES[@]}"
	step "install the snapshot API" install_snapshot_crds
}

# Which images went into which cluster: the same again needs no second look.
stamp() {
	local name ids=()
	for name in "${NODE_IMAGES[@]}"; do ids+=("$(image_id "$name")"); done
	sha_of "${ids[@]}" "$(docker inspect --format '{{.Id}}' "$NODE_NAME")"
}

usage() {
	cat >&2 <<-EOF
		==> [$(clock)] cluster $CLUSTER_NAME is up

		  export KUBECONFIG=$KUBECONFIG
		  export PATH=$(bin_dir):\$PATH        # kubectl, kind, mc
		  load an image:      $CLUSTER_DIR/load.sh IMAGE…
		  MinIO in cluster:   https://minio.minio.svc:9000
		  MinIO on this host: https://127.0.0.1:30900
		  its credentials:    Secret minio/minio-root (accessKeyID, secretAccessKey)
		  its CA:             ConfigMap and Secret minio/minio-ca (ca.crt)
		  take it down:       $CLUSTER_DIR/down.sh [--purge]
	EOF
}

main
