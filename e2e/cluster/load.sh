#!/usr/bin/env bash
# load.sh IMAGE…: gives images of the local Docker to the cluster's node.
set -euo pipefail
# shellcheck source=e2e/cluster/lib/all.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib/all.sh"

[ $# -gt 0 ] || die "usage: load.sh IMAGE…"
docker_answers || die "no Docker daemon answers: run $CLUSTER_DIR/up.sh first"
[ "$(node_state)" = running ] || die "the cluster is not running: run $CLUSTER_DIR/up.sh first"
step "load $* into the node" load_images "$@"
