# shellcheck shell=bash
# How the demo speaks: a story on the screen, everything else in the log.

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
	BOLD=$'\e[1m' DIM=$'\e[2m' GREEN=$'\e[32m' RED=$'\e[31m' PLAIN=$'\e[0m'
else
	BOLD='' DIM='' GREEN='' RED='' PLAIN=''
fi

# What the demo is doing now, for the message when it fails.
NOW="starting"

opening() {
	cat <<-END
		${BOLD}Holdfast: a backup, a disaster and a restore by URL${PLAIN}
		Everything runs on this machine. The first time, nearly all of it is compiling (about 20 minutes
		on two cores); from then on it takes a minute or two. Details go to $LOG
	END
}

chapter() { printf '\n%s[%s] %s%s\n' "$BOLD" "$(clock)" "$*" "$PLAIN"; }

tell() { printf '  %s\n' "$*"; }

# shown COMMAND…: shows a command as a person would type it. It does not run it.
shown() { printf '  %s$ %s%s\n' "$DIM" "$*" "$PLAIN"; }

indent() { sed 's/^/    /'; }

# doing WHAT COMMAND…: runs a command whose output belongs into the log.
doing() {
	local began
	NOW="$1"
	shift
	began=$(date +%s)
	printf -- '--- %s: %s\n' "$NOW" "$*" >>"$LOG"
	"$@" >>"$LOG" 2>&1
	tell "$NOW ${DIM}($(($(date +%s) - began)) s)${PLAIN}"
}

# await WHAT SECONDS COMMAND…: like doing, for something that needs a while until it is so.
await() {
	local what="$1" seconds="$2" began
	shift 2
	NOW="waiting until $what"
	began=$(date +%s)
	wait_until "$seconds" "$@" || give_up "$what: this was not so within $seconds seconds ($*)"
	tell "$what ${DIM}($(($(date +%s) - began)) s)${PLAIN}"
}

give_up() {
	printf '\n%s%s%s\n' "$RED" "$*" "$PLAIN" >&2
	exit 1
}

closing() {
	cat <<-END

		${GREEN}${BOLD}Done in $(clock) (minutes:seconds).${PLAIN} Every table, row for row, came back from one URL.

		  Look around   export KUBECONFIG=$KUBECONFIG PATH=$BIN:\$PATH
		                kubectl -n $NAMESPACE get holdfast,pods,pvc,volumesnapshots
		                kubectl -n $NAMESPACE describe dbr orders-by-url
		  Go back       change spec.source.url in $(relative "$SAMPLES/databaserestore_url.yaml")
		                to the safety URL above, give it another name, and apply it
		  Read          docs/restore-runbook.md, docs/how-it-works.md
		  Once more     make demo
		  Clean up      make cluster-down      (deletes the cluster; keeps the compiled caches)
	END
}

relative() { printf '%s' "${1#"$REPO_DIR"/}"; }
