#!/usr/bin/env bash
# tools.sh NAME…: builds the named tools as hack/tools/go.mod pins them, or finds them in the cache, and prints the
# folder that holds them. The folder's name says what they were built from, so clones share them.
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

tools_dir() {
	local hash
	hash="$( (cat go.mod go.sum cmd/*/*.go && go env GOVERSION GOOS GOARCH) | sha256sum | cut -c1-12)"
	echo "$HOLDFAST_CACHE/tools-$hash"
}

# build DIR NAME: moved into place whole, so that a build that was cut short leaves nothing half-written.
build() {
	local staging
	staging="$(mktemp -d "$1/.build-XXXXXX")"
	GOWORK=off go build -buildvcs=false -ldflags '-s -w' -o "$staging/$2" "$(package_of "$2")"
	mv "$staging/$2" "$1/$2"
	rmdir "$staging"
}

[ $# -gt 0 ] || die "usage: tools.sh NAME…"
cd "$REPO_DIR/hack/tools"
dir="$(tools_dir)"
mkdir -p "$dir"
exec 9>"$dir/.lock"
flock 9
for name in "$@"; do
	[ -x "$dir/$name" ] || step "compile $name" build "$dir" "$name"
done
echo "$dir"
