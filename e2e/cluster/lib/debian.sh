# shellcheck shell=bash
# Base images from Debian packages, for a machine that reaches no image registry.

DEBIAN_SUITE=bookworm
TOOLS_PACKAGES=iptables,nftables,btrfs-progs,util-linux,mount,e2fsprogs
NODE_PACKAGES=systemd,systemd-sysv,conntrack,iptables,nftables,iproute2,ethtool,util-linux,mount,kmod,libseccomp2,e2fsprogs,btrfs-progs,bash,ca-certificates,curl,jq,procps,socat,runc
POSTGRES_PACKAGES=postgresql-15,ca-certificates
ENGINES_PACKAGES=mariadb-server-core,mariadb-client,redis-server,ca-certificates

# Documentation is most of what a container has no use for.
DEBIAN_OPTIONS=(--variant=minbase --dpkgopt='path-exclude=/usr/share/doc/*'
	--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*'
	--dpkgopt='path-exclude=/usr/share/info/*')

# PostgreSQL compiles queries with LLVM, which is half of the image and does nothing for a test;
# without the provider's library it runs without. The user has the number of the published image.
# Debian's own cluster, which the package makes at once, is of no use.
# shellcheck disable=SC2016 # $1 is for the hook's own shell
POSTGRES_OPTIONS=(--dpkgopt='path-exclude=/usr/lib/postgresql/15/lib/llvmjit.so'
	--dpkgopt='path-exclude=/usr/lib/postgresql/15/lib/bitcode/*'
	--dpkgopt='path-exclude=/usr/lib/*/libLLVM*' --dpkgopt='path-exclude=/usr/lib/*/libz3*'
	--essential-hook='echo postgres:x:999:999:PostgreSQL:/var/lib/postgresql:/bin/bash >>"$1/etc/passwd"'
	--essential-hook='echo postgres:x:999: >>"$1/etc/group"'
	--customize-hook='rm -rf "$1/var/lib/postgresql/15" "$1/etc/postgresql/15"')

DEBIAN_KINDS=(tools node postgres engines)

# debian_image KIND prints the name of a base image.
debian_image() { echo "holdfast.test/debian-$1:h-$(debian_hash "$1")"; }

debian_hash() {
	sha_of "$DEBIAN_SUITE" "$(debian_packages "$1")" "${DEBIAN_OPTIONS[*]}" "$(debian_options "$1")"
}

debian_packages() {
	case "$1" in
	tools) echo "$TOOLS_PACKAGES" ;;
	node) echo "$NODE_PACKAGES" ;;
	postgres) echo "$POSTGRES_PACKAGES" ;;
	engines) echo "$ENGINES_PACKAGES" ;;
	esac
}

debian_options() {
	[ "$1" != postgres ] || printf '%s\n' "${POSTGRES_OPTIONS[@]}"
}

ensure_debian_images() {
	local kind
	for kind in "${DEBIAN_KINDS[@]}"; do
		has_image "$(debian_image "$kind")" && continue
		ensure_packages mmdebstrap:mmdebstrap
		[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || step "install Debian's keyring" apt_install debian-archive-keyring
		step "build base image debian-$kind" build_debian_image "$kind"
	done
}

build_debian_image() {
	local options
	mapfile -t options < <(debian_options "$1")
	mmdebstrap "${DEBIAN_OPTIONS[@]}" "${options[@]}" --include="$(debian_packages "$1")" "$DEBIAN_SUITE" - |
		docker import - "$(debian_image "$1")"
}
