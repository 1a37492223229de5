#!/usr/bin/env bash
# e2e.sh: runs the end-to-end suite on the test cluster with the operator as it is in this tree. A cluster that was not
# running is started, and taken down in the end; in one that was, the operator is left only if it was there before.
# KEEP_CLUSTER=1 leaves everything. E2E_FLAGS go to go test, for example E2E_FLAGS='-run TestRestore -v'.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

NODE=holdfast-control-plane

cluster_runs() { [ "$(docker container inspect --format '{{.State.Running}}' "$NODE" 2>/dev/null)" = true ]; }

operator_runs() { [ -n "$(kubectl get namespace holdfast-system --ignore-not-found --output name)" ]; }

run_suite() {
	read -r -a flags <<<"${E2E_FLAGS:-}"
	go test -tags e2e -count 1 -timeout 45m "${flags[@]}" ./e2e/...
}

# clean_up runs at the end, however it comes, and never hides the outcome of the suite.
clean_up() {
	local status=$?
	trap - EXIT
	if [ "${KEEP_CLUSTER:-}" = 1 ]; then
		say "KEEP_CLUSTER=1: the cluster is left as it is (KUBECONFIG=$KUBECONFIG)"
	elif [ "$cluster_was" = absent ]; then
		e2e/cluster/down.sh || say "the cluster could not be taken down: run make cluster-down"
	elif [ "$operator_was" = absent ]; then
		{ hack/deploy.sh undeploy && hack/deploy.sh uninstall; } || say "the operator could not be taken away: run make undeploy"
	fi
	exit "$status"
}

cd "$REPO_DIR"
cluster_was=absent operator_was=present
if cluster_runs; then cluster_was=running; fi
export KUBECONFIG="$HOLDFAST_CACHE/kubeconfig"
trap clean_up EXIT
e2e/cluster/up.sh
HOLDFAST_BIN="$(cluster_binaries)"
export HOLDFAST_BIN KUBECTL="$HOLDFAST_BIN/kubectl" PATH="$HOLDFAST_BIN:$PATH"
operator_runs || operator_was=absent
hack/build.sh
e2e/cluster/load.sh "$IMAGE"
hack/deploy.sh deploy
step "end-to-end suite" run_suite
