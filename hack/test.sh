#!/usr/bin/env bash
# test.sh: runs every test that needs no cluster, after it has set up what they need: PostgreSQL, MariaDB, Redis and btrfs
# programs from Debian, servers of other versions, and kube-apiserver, etcd, MinIO, FerretDB and MongoDB's tools
# built from Go modules. As root on Debian or Ubuntu it installs packages; elsewhere it runs itself in a container.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

TEST_IMAGE="${TEST_IMAGE:-golang:1.26-bookworm}"

# missing_packages prints the Debian packages whose programs are not there.
missing_packages() {
	compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || echo postgresql postgresql-client
	{ [ -x /usr/sbin/mariadbd ] && [ -x /usr/bin/mariadb-dump ]; } || echo mariadb-server-core mariadb-client
	command -v redis-server >/dev/null || echo redis-server
	[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || echo debian-archive-keyring
	command -v mkfs.btrfs >/dev/null || echo btrfs-progs
	command -v npm >/dev/null || echo npm
	command -v node >/dev/null || echo nodejs
}

# install_packages installs what is missing. Debian starts the servers, and makes a database cluster of its own, unless it is
# told not to; the tests start theirs.
install_packages() {
	local conf=/etc/postgresql-common/createcluster.conf policy=/usr/sbin/policy-rc.d
	if [ ! -e "$policy" ]; then
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod +x "$policy"
		trap 'rm -f /usr/sbin/policy-rc.d' EXIT # the function's own variable is gone by then
	fi
	if [ ! -e "$conf" ]; then
		mkdir -p "${conf%/*}"
		echo 'create_main_cluster = false' >"$conf"
	fi
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -q >&2
	apt-get install -q -y --no-install-recommends -o Dpkg::Options::=--force-confold "$@" >&2
}

# run_in_container runs this script as root on Debian, with the source and a volume for what it downloads and builds.
# The tests of the CSI driver mount loop devices, hence privileged.
run_in_container() {
	say "this is no Debian or Ubuntu with root and these packages missing: $* - so the tests run in $TEST_IMAGE"
	exec docker run --rm --privileged --volume "$REPO_DIR:/src" --workdir /src --volume holdfast-test-cache:/cache \
		--env HOLDFAST_CACHE=/cache/holdfast --env GOCACHE=/cache/go-build --env GOMODCACHE=/cache/go-mod \
		--env GOFLAGS=-buildvcs=false "$TEST_IMAGE" hack/test.sh
}

run_tests() {
	local status=0
	go test -timeout 30m ./... || status=$?
	(cd e2e/csi && go test -timeout 15m ./...) || status=$?
	return "$status"
}

cd "$REPO_DIR"
mkdir -p "$HOLDFAST_CACHE"
read -r -a packages <<<"$(missing_packages | xargs)"
if [ "${#packages[@]}" -gt 0 ]; then
	if is_debian_root; then
		step "install Debian packages: ${packages[*]}" install_packages "${packages[@]}"
	elif docker_answers; then
		run_in_container "${packages[@]}"
	else
		die "the tests need ${packages[*]}: install them, or run as root on Debian or Ubuntu, or start Docker"
	fi
fi
step "PostgreSQL servers of other versions" testutil/pgtest/install.sh
step "Redis and Valkey servers of other versions" testutil/redistest/install.sh
HOLDFAST_MONGO_PROGRAMS="$(testutil/mongotest/programs.sh | tail -n 1)"
export HOLDFAST_MONGO_PROGRAMS
HOLDFAST_BIN="$(cluster_binaries)"
export HOLDFAST_BIN KUBEBUILDER_ASSETS="$HOLDFAST_BIN"
step "go test" run_tests
