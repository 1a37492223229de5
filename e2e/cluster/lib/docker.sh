# shellcheck shell=bash
# A Docker daemon: the one that runs already, or one of our own that down.sh stops again.

DOCKER_RUN=/run/holdfast-docker # sockets have short paths, so not below the cache
DOCKER_DATA="$HOLDFAST_CACHE/docker"
DOCKER_PID="$RUN_DIR/dockerd.pid"
OCI_WRAPPER="$RUN_DIR/oci-runtime"

# The classic builder: the daemon of Debian 12 and a client without buildx have it both.
export DOCKER_BUILDKIT=0

docker_answers() { docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

is_debian_root() {
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && grep -qsE '^ID(_LIKE)?=.*(debian|ubuntu)' /etc/os-release
}

ensure_docker() {
	docker_answers && return
	is_debian_root || die "no Docker daemon answers ($(docker_host)), and only as root on Debian or Ubuntu can" \
		"one be installed here. Start Docker, or set DOCKER_HOST to one that runs."
	ensure_packages dockerd:docker.io iptables:iptables
	ensure_packages docker:docker-cli # a package of its own from Debian 13 on
	package_started_docker && return
	has_cap_sys_resource || ensure_packages jq:jq # for the runtime wrapper
	step "start a Docker daemon (data in $DOCKER_DATA)" start_dockerd
	DAEMON_STARTED=yes
}

# Where systemd runs, the package brings a service up, and that one is not ours to stop.
package_started_docker() { [ -d /run/systemd/system ] && wait_until 15 docker_answers; }

docker_host() { echo "${DOCKER_HOST:-unix:///var/run/docker.sock}"; }

# ensure_packages COMMAND:PACKAGE…: installs the packages whose command is not there.
ensure_packages() {
	local pair missing=()
	for pair in "$@"; do
		command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
	done
	[ "${#missing[@]}" -eq 0 ] && return
	is_debian_root || die "this needs ${missing[*]}: install it (only as root on Debian or Ubuntu is it installed here)"
	step "install Debian packages: ${missing[*]}" apt_install "${missing[@]}"
}

apt_install() {
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -q
	apt-get install -q -y --no-install-recommends "$@"
	printf '%s\n' "$@" >>"$HOLDFAST_CACHE/installed-packages"
}

# dockerd starts and ends its own containerd, so that one process id is all there is to remember.
start_dockerd() {
	local args=(--data-root "$DOCKER_DATA" --exec-root "$DOCKER_RUN" --pidfile "$DOCKER_RUN/docker.pid")
	clear_stale_daemon
	mkdir -p "$DOCKER_DATA" "$DOCKER_RUN"
	if ! has_cap_sys_resource; then
		install -m 0755 "$CLUSTER_DIR/oci-runtime.sh" "$OCI_WRAPPER"
		args+=(--add-runtime "fit=$OCI_WRAPPER" --default-runtime fit)
	fi
	setsid dockerd "${args[@]}" </dev/null >"$LOG_DIR/dockerd.log" 2>&1 8>&- &
	echo $! >"$DOCKER_PID"
	wait_until 60 docker_answers && return
	tail -n 30 "$LOG_DIR/dockerd.log"
	echo "dockerd does not answer after 60 s; its log is $LOG_DIR/dockerd.log"
	return 1
}

# A daemon that was killed leaves process ids and sockets behind, and a later process may carry
# the same id: dockerd would then refuse to start, or take it for its containerd.
clear_stale_daemon() {
	stop_dockerd
	rm -f "$DOCKER_PID" "$DOCKER_RUN/docker.pid"
	is_process "$(cat "$DOCKER_RUN/containerd/containerd.pid" 2>/dev/null)" containerd && return
	rm -f "$DOCKER_RUN/containerd/containerd.pid" "$DOCKER_RUN"/containerd/*.sock
}

is_process() { [ -n "$1" ] && [ "$(cat "/proc/$1/comm" 2>/dev/null)" = "$2" ]; }

# our_dockerd prints the process id of the daemon that we started, if it is alive and is one.
our_dockerd() {
	local pid
	pid="$(cat "$DOCKER_PID" 2>/dev/null)" || return 1
	is_process "$pid" dockerd && echo "$pid"
}

stop_dockerd() {
	local pid
	pid="$(our_dockerd)" || return 0
	kill -TERM "$pid"
	wait_until 60 process_gone "$pid" || die "dockerd ($pid) does not end; its log is $LOG_DIR/dockerd.log"
	rm -f "$DOCKER_PID"
}

process_gone() { ! kill -0 "$1" 2>/dev/null; }

# Bit 24 of the bounding set is CAP_SYS_RESOURCE. Where root lacks it, a privileged container, as
# kind's nodes are, cannot be started unless it asks for less.
has_cap_sys_resource() {
	local caps
	caps="$(awk '/^CapBnd:/{print $2}' /proc/self/status)"
	(((16#$caps >> 24) & 1))
}
