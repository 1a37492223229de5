# shellcheck shell=bash
# What the scripts of this folder share: where things are kept, and how steps and failures are shown.
# shellcheck disable=SC2034 # read by the scripts that source this

REPO_DIR="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)"
export HOLDFAST_CACHE="${HOLDFAST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/holdfast}"
IMAGE="${IMAGE:-holdfast:dev}"

# One way to compile for all: what the build, the tests, the linters and the cluster have in common is compiled once.
export CGO_ENABLED=0

# Every Go module of the repository.
MODULES=(. hack/tools e2e/cluster e2e/csi testutil/mongotest/programs)

say() { printf '==> %s\n' "$*" >&2; }

die() {
	printf 'error: %s\n' "$*" >&2
	exit 1
}

# step TITLE COMMAND…: names a step before it runs and says afterwards how long it took. The command runs in a shell of
# its own with errexit on: called from a condition, bash would let a function go on after a line that failed.
step() {
	local title="$1" began status
	shift
	began=$(date +%s)
	say "$title …"
	set +e
	(
		set -e
		"$@"
	)
	status=$?
	set -e
	[ "$status" -eq 0 ] || die "$title: failed with exit code $status after $(($(date +%s) - began)) s"
	say "$title: done in $(($(date +%s) - began)) s"
}

# cluster_binaries prints the folder with kube-apiserver, etcd, kubectl, minio and mc, which it builds when needed.
cluster_binaries() { "$REPO_DIR/e2e/cluster/binaries.sh" kube-apiserver etcd kubectl minio mc | tail -n 1; }

docker_answers() { docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

is_debian_root() {
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && grep -qsE '^ID(_LIKE)?=.*(debian|ubuntu)' /etc/os-release
}
