#!/usr/bin/env bash
# programs.sh MODULE_DIR NAME=PACKAGE…: builds programs as the go.mod in a folder of the repository pins them, or finds them in
# the cache, and prints the folder that holds them on its last line. The folder's name says what they were built from, so
# clones share them. A module that needs build tags is built with them in GOFLAGS.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

# cache_dir NAME: what the module is and how it is compiled make the name.
cache_dir() {
	local hash
	hash="$( (find . -type f \( -name '*.go' -o -name 'go.*' \) | LC_ALL=C sort | xargs cat && go env GOVERSION GOOS GOARCH GOFLAGS) | sha256sum | cut -c1-12)"
	echo "$HOLDFAST_CACHE/$1-$hash"
}

# build DIR NAME PACKAGE: moved into place whole, so that a build that was cut short leaves nothing half-written.
build() {
	local staging
	staging="$(mktemp -d "$1/.build-XXXXXX")"
	GOWORK=off go build -buildvcs=false -ldflags '-s -w' -o "$staging/$2" "$3"
	mv "$staging/$2" "$1/$2"
	rmdir "$staging"
}

[ $# -gt 1 ] || die "usage: programs.sh MODULE_DIR NAME=PACKAGE…"
cd "$REPO_DIR/$1"
dir="$(cache_dir "$(tr / - <<<"$1")")"
shift
mkdir -p "$dir"
exec 9>"$dir/.lock"
flock 9
for program in "$@"; do
	name="${program%%=*}"
	[ -x "$dir/$name" ] || step "compile $name" build "$dir" "$name" "${program#*=}"
done
echo "$dir"
