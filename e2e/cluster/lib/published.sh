# shellcheck shell=bash
# Published images in place of our own builds, for a machine with Docker and a registry. They get
# the names that our builds have, so that every manifest stays the same. (Not tried where this was
# written: no registry could be reached there.)

PUBLISHED_IMAGES=(
	"quay.io/minio/minio:RELEASE.2025-09-07T16-13-09Z holdfast.test/minio:dev"
	"registry.k8s.io/sig-storage/csi-provisioner:v6.4.0 holdfast.test/csi-provisioner:dev"
	"registry.k8s.io/sig-storage/csi-snapshotter:v8.7.0 holdfast.test/csi-snapshotter:dev"
	"registry.k8s.io/sig-storage/snapshot-controller:v8.7.0 holdfast.test/snapshot-controller:dev"
)
PUBLISHED_POSTGRES=postgres:15
PUBLISHED_TOOLS=holdfast.test/debian-tools:published
PUBLISHED_ENGINES=holdfast.test/debian-engines:published

ensure_published_images() {
	local pair
	for pair in "${PUBLISHED_IMAGES[@]}"; do ensure_pulled "${pair% *}" "${pair#* }"; done
	ensure_pulled "$PUBLISHED_POSTGRES" "$PUBLISHED_POSTGRES"
	ensure_postgres_image "$PUBLISHED_POSTGRES"
	has_image "$PUBLISHED_ENGINES" || step "build image $PUBLISHED_ENGINES" build_published_engines
	ensure_engines_image "$PUBLISHED_ENGINES"
	has_image "$PUBLISHED_TOOLS" || step "build image $PUBLISHED_TOOLS" build_published_tools
	ensure_csi_image "$PUBLISHED_TOOLS"
}

ensure_pulled() {
	has_image "$1" || step "pull image $1" docker pull "$1"
	docker tag "$1" "$2"
}

build_published_tools() {
	docker build -t "$PUBLISHED_TOOLS" -f "$CLUSTER_DIR/images/csi-btrfs/Dockerfile.tools" "$CLUSTER_DIR/images/csi-btrfs"
}

build_published_engines() {
	docker build -t "$PUBLISHED_ENGINES" -f "$CLUSTER_DIR/images/engines/Dockerfile.base" \
		--build-arg "PACKAGES=${ENGINES_PACKAGES//,/ }" "$CLUSTER_DIR/images/engines"
}
