#!/usr/bin/env bash
# Fetches newer Redis and Valkey servers than Debian 12's for the tests, from the packages of newer Debian releases. Nothing of
# them is installed: each server is laid with the C library and all else that it needs into its own folder of the cache, and
# started by the program "server" there. What is there is left as it is.
set -euo pipefail

# folder, package and release of each
servers=("redis-8 redis trixie" "valkey-8 valkey trixie" "valkey-9 valkey forky")
libraries=(libc6 libssl3t64 libstdc++6 libgcc-s1 libjemalloc2 liblzf1 libsystemd0 libatomic1 libcap2 zlib1g libzstd1)
cache=${HOLDFAST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/holdfast}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

die() {
	echo "$*" >&2
	exit 1
}

# apt PROGRAM ARGUMENT… runs apt-get or apt-cache with lists of its own in the scratch folder, beside those of the machine.
apt() {
	local program=$1
	shift
	"$program" -q -o Dir::Etc::SourceList="$scratch/sources.list" -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$scratch/lists" \
		-o Dir::Cache="$scratch/cache" -o Acquire::Languages=none -o APT::Sandbox::User="$(id -un)" "$@"
}

read_lists() {
	local release
	mkdir -p "$scratch/lists/partial" "$scratch/cache/archives/partial"
	for release in "$@"; do
		echo "deb [signed-by=$keyring target=Packages] http://deb.debian.org/debian $release main"
	done >"$scratch/sources.list"
	apt apt-get update >/dev/null
}

# install_server FOLDER PACKAGE RELEASE
install_server() {
	local target=$cache/$1 name=$2 release=$3 root=$scratch/$1 package packages
	mkdir -p "$root/packages" "$root/root" "$root/server"
	packages=("$name-server" "$name-tools" "${libraries[@]}")
	(cd "$root/packages" && apt apt-get download "${packages[@]/%//$release}" >/dev/null)
	for package in "$root"/packages/*.deb; do
		dpkg-deb --extract "$package" "$root/root"
	done
	cp -L "$root/root/usr/bin/$name-server" "$root/server/program"
	find "$root"/root/usr/lib/*-linux-gnu* -maxdepth 1 -name '*.so.*' -exec cp -L -t "$root/server" {} +
	cat >"$root/server/server" <<-'SERVER'
		#!/bin/sh
		here=${0%/*}
		exec "$here"/ld-linux-*.so.* --library-path "$here" "$here/program" "$@"
	SERVER
	chmod -R a+rX "$root/server"
	chmod a+x "$root/server/server" "$root/server/program"
	"$root/server/server" --version
	rm -rf "$target"
	mv "$root/server" "$target"
}

missing=()
for server in "${servers[@]}"; do
	[[ -x $cache/${server%% *}/server ]] || missing+=("$server")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0
command -v dpkg-deb >/dev/null || die "newer Redis and Valkey servers come from Debian's packages, and this is no Debian"
[[ -e $keyring ]] || die "$keyring is missing: apt-get install debian-archive-keyring"
mkdir -p "$cache"
scratch=$(mktemp -d "$cache/redis-servers.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
mapfile -t releases < <(printf '%s\n' "${missing[@]##* }" | sort -u)
read_lists "${releases[@]}"
for server in "${missing[@]}"; do
	# shellcheck disable=SC2086 # three words
	install_server $server
done
