#!/usr/bin/env bash
# deploy.sh install|uninstall|deploy|undeploy: puts the CRDs, or all of Holdfast with the image $IMAGE, into the cluster
# that kubectl talks to, and takes them away again.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

NAMESPACE=holdfast-system
DEPLOYMENT=deployment/holdfast-controller-manager

build() { "$(hack/tools.sh kustomize)/kustomize" build "$1"; }

# install returns when objects of both kinds are taken.
install() {
	build config/crd | kubectl apply --server-side -f -
	kubectl wait --for condition=Established --timeout 1m \
		crd/databasebackups.holdfast.dev crd/databaserestores.holdfast.dev
}

# uninstall refuses while there are objects: their finalizers need the operator, and a deletionPolicy of Delete would
# take artifacts along that nobody meant to lose.
# shellcheck disable=SC2001 # the prefix of each line goes, which no parameter expansion does
uninstall() {
	local crds left
	crds="$(kubectl get crd databasebackups.holdfast.dev databaserestores.holdfast.dev --ignore-not-found --output name)"
	[ -n "$crds" ] || { say "the CRDs are not installed" && return; }
	left="$(kubectl get "$(sed 's|.*/||' <<<"$crds" | paste -sd,)" --all-namespaces --output name)"
	[ -z "$left" ] || die "delete these first, while the operator runs:"$'\n'"$left"
	build config/crd | kubectl delete --ignore-not-found -f -
}

# deploy restarts a manager that was there before: the image may be another one under the same name.
deploy() {
	local before
	before="$(kubectl --namespace "$NAMESPACE" get "$DEPLOYMENT" --ignore-not-found --output name)"
	build config/default | sed "s|holdfast:dev|$IMAGE|" | kubectl apply --server-side -f -
	[ -z "$before" ] || kubectl --namespace "$NAMESPACE" rollout restart "$DEPLOYMENT"
	kubectl --namespace "$NAMESPACE" rollout status "$DEPLOYMENT" --timeout 3m
}

# undeploy leaves the CRDs, and with them the backups and restores, where they are: see uninstall.
undeploy() {
	build config/manager | kubectl delete --ignore-not-found -f -
	build config/rbac | kubectl delete --ignore-not-found -f -
	kubectl delete --ignore-not-found -f config/default/namespace.yaml
}

cd "$REPO_DIR"
case "${1:-}" in
install | uninstall | deploy | undeploy) step "$1" "$1" ;;
*) die "usage: deploy.sh install|uninstall|deploy|undeploy" ;;
esac
