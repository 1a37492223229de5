#!/usr/bin/env bash
# Docker's OCI runtime on a machine whose root lacks CAP_SYS_RESOURCE: takes that capability, and
# the wish for a better out-of-memory score, out of what Docker asks for, and calls runc.
# up.sh installs it only there.
set -euo pipefail

bundle="" process="" previous=""
for arg in "$@"; do
	case "$previous" in
	--bundle | -b) bundle="$arg" ;;
	--process | -p) process="$arg" ;;
	esac
	case "$arg" in
	--bundle=*) bundle="${arg#*=}" ;;
	--process=*) process="${arg#*=}" ;;
	esac
	previous="$arg"
done

edit() {
	local file="$1" filter="$2"
	jq -c "$filter" "$file" >"$file.fit"
	cat "$file.fit" >"$file"
	rm -f "$file.fit"
}

drop='map_values(if type == "array" then map(select(. != "CAP_SYS_RESOURCE")) else . end)'
if [ -n "$bundle" ]; then
	edit "$bundle/config.json" "if .process then (.process.capabilities |= (. // {} | $drop)) | .process.oomScoreAdj = 0 else . end"
fi
if [ -n "$process" ]; then
	edit "$process" ".capabilities |= (. // {} | $drop)"
fi
exec runc "$@"
