# shellcheck shell=bash
# Shows how an object goes through its stages, as its Ready condition tells it.

meaning() {
	case "$1" in
	Pending) echo "what it needs is looked at: claims, classes, the source" ;;
	Dumping) echo "a Job runs pg_dump and stages the compressed dump on a claim of its own" ;;
	Snapshotting) echo "a CSI VolumeSnapshot is taken of data-orders-db-0" ;;
	Uploading) echo "a Job uploads the artifact, proves it, and writes the manifest last" ;;
	Inspecting) echo "a Job looks at the artifact and at the server, and changes nothing" ;;
	TakingSafetyBackup) echo "what is there now is backed up first: the way back" ;;
	Fetching) echo "a Job downloads the artifact and verifies its SHA-256" ;;
	Restoring) echo "a Job restores into a fresh database, checks it, and swaps it in" ;;
	Succeeded) echo "done" ;;
	esac
}

condition() { kube -n "$NAMESPACE" get "$1" "$2" -o "jsonpath={.status.conditions[?(@.type==\"$3\")].$4}"; }
field() { kube -n "$NAMESPACE" get "$1" "$2" -o "jsonpath={$3}"; }

# follow KIND NAME SECONDS: returns when the object is Ready, and gives up when it fails or takes too long.
follow() {
	local kind="$1" name="$2" limit="$3" began ready stalled reason last="" watcher
	NOW="waiting for $kind $name"
	began=$(date +%s)
	local ready_is='.status.conditions[?(@.type=="Ready")]' stalled_is='.status.conditions[?(@.type=="Stalled")]'
	exec 3< <(exec timeout "$limit" "$BIN/kubectl" -n "$NAMESPACE" get "$kind" "$name" --watch \
		-o "jsonpath={$ready_is.status}|{$stalled_is.status}|{$ready_is.reason}{\"\\n\"}" 2>>"$LOG")
	watcher=$!
	while IFS='|' read -r ready stalled reason <&3; do
		if [ -n "$reason" ] && [ "$reason" != "$last" ]; then
			printf '    %4d s  %-19s %s%s%s\n' $(($(date +%s) - began)) "$reason" "$DIM" "$(meaning "$reason")" "$PLAIN"
			last="$reason"
		fi
		if [ "$ready" = True ] || [ "$stalled" = True ]; then break; fi
	done
	kill "$watcher" 2>/dev/null || true
	exec 3<&-
	if [ "${ready:-}" = True ]; then return; fi
	if [ "${stalled:-}" = True ]; then
		give_up "$kind $name failed: $(condition "$kind" "$name" Stalled reason): $(condition "$kind" "$name" Stalled message)"
	fi
	give_up "$kind $name did not end within $limit seconds; it is at ${last:-its very beginning}: $(condition "$kind" "$name" Ready message)"
}
