#!/usr/bin/env bash
# down.sh [--purge]: deletes the cluster and stops the Docker daemon if up.sh started it. Caches
# (programs, images) stay; --purge removes them too.
set -euo pipefail
# shellcheck source=e2e/cluster/lib/all.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib/all.sh"

case "${1:-}" in
"" | --purge) ;;
*) die "usage: down.sh [--purge]" ;;
esac

# Without kind (the caches were removed by hand) the node is still a container like any other.
remove_node() {
	if [ -x "$(bin_dir)/kind" ]; then delete_cluster; else docker rm -f -v "$NODE_NAME"; fi
}

remove_images() {
	local images
	images="$(docker image ls --format '{{.Repository}}:{{.Tag}}' | grep '^holdfast.test/')" || return 0
	xargs docker rmi -f <<<"$images"
}

purge() {
	# Docker's data are mounts and files of root's; only what was made here is in this folder.
	rm -rf "${HOLDFAST_CACHE:?}"
}

alone
if docker_answers; then
	[ "$(node_state)" = absent ] || step "delete cluster $CLUSTER_NAME" remove_node
	[ "${1:-}" != --purge ] || step "remove the images" remove_images
fi
rm -f "$KUBECONFIG"
if our_dockerd >/dev/null; then
	step "stop the Docker daemon that up.sh started" stop_dockerd
	rm -rf "${DOCKER_RUN:?}"
fi
if [ "${1:-}" = --purge ]; then
	say "remove $HOLDFAST_CACHE"
	purge
fi
if [ -s "$HOLDFAST_CACHE/installed-packages" ]; then
	say "Debian packages that up.sh installed are still there: $(sort -u "$HOLDFAST_CACHE/installed-packages" | xargs)"
fi
