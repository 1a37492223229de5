# shellcheck shell=bash
# Container images, each under two tags: the name that manifests use, and one that carries the
# hash of all that went into it, by which an unchanged image is found again.

CSI_DIR="$REPO_DIR/e2e/csi"

# What the node needs is loaded into it in this order.
# shellcheck disable=SC2034 # read by up.sh
NODE_IMAGES=(holdfast.test/csi-btrfs:dev holdfast.test/csi-provisioner:dev holdfast.test/csi-snapshotter:dev
	holdfast.test/snapshot-controller:dev holdfast.test/minio:dev holdfast.test/postgres:15
	holdfast.test/engines:dev)

has_image() { docker image inspect "$1" >/dev/null 2>&1; }

# hash_tag NAME HASH: the same name with the hash as its tag.
hash_tag() { echo "${1%:*}:h-$2"; }

# ensure_image NAME HASH COMMAND…: has the command build the image whose name it gets as its last
# argument, unless it is there.
ensure_image() {
	local name="$1" tagged
	tagged="$(hash_tag "$1" "$2")"
	shift 2
	if ! has_image "$tagged"; then
		step "build image $name" "$@" "$tagged"
		forget_older "$tagged"
	fi
	docker tag "$tagged" "$name"
}

# Earlier builds of the same image are of no use to anybody but a node that still runs one.
forget_older() {
	local old
	for old in $(docker image ls --format '{{.Repository}}:{{.Tag}}' "${1%:*}"); do
		case "$old" in
		"$1") ;;
		*:h-*) docker rmi "$old" >/dev/null 2>&1 || true ;;
		esac
	done
}

# from_binary BINARY TAG: an image of one static program.
from_binary() {
	tar -C "$(bin_dir)" --transform 's,^,usr/local/bin/,' --owner 0 --group 0 -c "$1" |
		docker import --change "ENTRYPOINT [\"/usr/local/bin/$1\"]" \
			--change 'ENV PATH=/usr/local/bin:/usr/bin:/bin' - "$2"
}

# from_folder FOLDER BASE [FILE…] TAG: docker build of a Dockerfile's folder with further files.
from_folder() {
	local folder="$1" base="$2" context tag="${*: -1}"
	context="$(mktemp -d "$RUN_DIR/tmp-XXXXXX")"
	shift 2
	cp -r "$folder/." "$context/"
	[ $# -eq 1 ] || cp "${@:1:$#-1}" "$context/"
	docker build -q --build-arg "BASE=$base" -t "$tag" "$context"
	rm -rf "$context"
}

ensure_source_images() {
	ensure_sidecars
	ensure_csi_image "$(debian_image tools)"
	ensure_postgres_image "$(debian_image postgres)"
	ensure_engines_image "$(debian_image engines)"
	ensure_node_image
}

ensure_sidecars() {
	local name
	for name in minio csi-provisioner csi-snapshotter snapshot-controller; do
		ensure_image "holdfast.test/$name:dev" "$(basename "$(bin_dir)")" from_binary "$name"
	done
}

ensure_csi_image() {
	local base="$1"
	[ -f "$CSI_DIR/go.mod" ] || return 0
	ensure_image holdfast.test/csi-btrfs:dev "$(sha_of "$CSI_DIR" "$CLUSTER_DIR/images/csi-btrfs" "$base")" \
		build_csi_image "$base"
}

build_csi_image() {
	local base="$1" tag="$2" out="$RUN_DIR/csi-btrfs"
	(cd "$CSI_DIR" && CGO_ENABLED=0 GOWORK=off go build -buildvcs=false -ldflags '-s -w' -o "$out" .)
	from_folder "$CLUSTER_DIR/images/csi-btrfs" "$base" "$out" "$tag"
}

ensure_postgres_image() {
	ensure_image holdfast.test/postgres:15 "$(sha_of "$CLUSTER_DIR/images/postgres" "$1")" \
		from_folder "$CLUSTER_DIR/images/postgres" "$1"
}

ensure_engines_image() {
	local mongo
	mongo="$("$REPO_DIR/testutil/mongotest/programs.sh" mongoeval | tail -n 1)"
	ensure_image holdfast.test/engines:dev "$(sha_of "$CLUSTER_DIR/images/engines" "$1" "$mongo")" \
		from_folder "$CLUSTER_DIR/images/engines" "$1" "$mongo/ferretdb" "$mongo/mongodump" "$mongo/mongorestore" "$mongo/mongoeval"
}
