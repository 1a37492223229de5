# shellcheck shell=bash
# What every script here shares: where things are kept, and how steps are shown.
# shellcheck disable=SC2034 # read by the scripts that source this

CLUSTER_DIR="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)"
REPO_DIR="$(cd -- "$CLUSTER_DIR/../.." && pwd)"
CLUSTER_NAME=holdfast
HOLDFAST_CACHE="${HOLDFAST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/holdfast}"
RUN_DIR="$HOLDFAST_CACHE/run"
LOG_DIR="$HOLDFAST_CACHE/log"
NODE_NAME="$CLUSTER_NAME-control-plane"
export HOLDFAST_CACHE
export KUBECONFIG="$HOLDFAST_CACHE/kubeconfig"

# The clock of a whole run: nested scripts go on from the caller's.
export HOLDFAST_STARTED="${HOLDFAST_STARTED:-$(date +%s)}"
mkdir -p "$HOLDFAST_CACHE" "$RUN_DIR" "$LOG_DIR"

clock() {
	local s=$(($(date +%s) - HOLDFAST_STARTED))
	printf '%02d:%02d' $((s / 60)) $((s % 60))
}

say() { printf '==> [%s] %s\n' "$(clock)" "$*" >&2; }

die() {
	printf 'error: %s\n' "$*" >&2
	exit 1
}

# step TITLE COMMAND…: names a step, runs it, and says how long it took. What the command prints
# goes to a log that is shown only when it fails.
step() {
	local title="$1" log began
	shift
	log="$LOG_DIR/$(tr -cs 'a-zA-Z0-9' '-' <<<"$title" | cut -c1-60).log"
	say "$title …"
	began=$(date +%s)
	run_logged "$log" "$@"
	if [ "$LAST_STATUS" -ne 0 ]; then
		tail -n 60 "$log" >&2
		die "step \"$title\" failed with exit code $LAST_STATUS; the whole log is in $log"
	fi
	say "$title: done in $(($(date +%s) - began)) s"
}

# In a subshell with errexit on, and not within a condition: there bash would switch errexit off
# inside the function, and a line that fails in its middle would go unseen.
run_logged() {
	local log="$1" status
	shift
	set +e
	(
		set -e
		"$@"
	) >"$log" 2>&1
	status=$?
	set -e
	LAST_STATUS=$status
}

# alone: two runs that change the cluster follow each other. Whatever a run that was cut short left
# half-made is nobody's then.
alone() {
	exec 8>"$HOLDFAST_CACHE/cluster.lock"
	flock -n 8 || { say "another up.sh or down.sh is at work: waiting for it" && flock 8; }
	rm -rf "$RUN_DIR"/tmp-*
}

# wait_until SECONDS COMMAND…: tries the command twice a second until it succeeds.
wait_until() {
	local deadline=$(($(date +%s) + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$(date +%s)" -lt "$deadline" ] || return 1
		sleep 0.5
	done
}

# sha_of FILE-OR-TEXT…: one short hash over the content of files, folders and plain words.
sha_of() {
	local item
	for item in "$@"; do
		if [ -d "$item" ]; then
			(cd "$item" && find . -type f ! -name '*.md' -print0 | sort -z | xargs -0 sha256sum)
		elif [ -f "$item" ]; then
			sha256sum <"$item"
		else
			printf '%s\n' "$item"
		fi
	done | sha256sum | cut -c1-12
}
