#!/usr/bin/env bash
# tools.sh NAME…: builds the named tools as hack/tools/go.mod pins them, or finds them in the cache, and prints the
# folder that holds them.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

package_of() {
	case "$1" in
	controller-gen) echo sigs.k8s.io/controller-tools/cmd/controller-gen ;;
	crd-ref-docs) echo github.com/elastic/crd-ref-docs ;;
	golangci-lint) echo ./cmd/golangci-lint ;;
	kustomize) echo sigs.k8s.io/kustomize/kustomize/v5 ;;
	*) die "hack/tools pins no tool called \"$1\"" ;;
	esac
}

[ $# -gt 0 ] || die "usage: tools.sh NAME…"
programs=()
for name in "$@"; do
	package="$(package_of "$name")"
	programs+=("$name=$package")
done
"$REPO_DIR/hack/programs.sh" hack/tools "${programs[@]}"
