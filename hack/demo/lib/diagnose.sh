# shellcheck shell=bash
# The end of the demo, good or bad. A bad one says what was being done and shows what the cluster knows of it.

finish() {
	local status=$?
	trap - EXIT INT TERM
	set +e
	if [ "$status" -ne 0 ] && [ "$status" -ne 130 ]; then explain_failure; fi
	rm -rf "$WORK"
	exit "$status"
}

explain_failure() {
	{
		printf '\n%sThe demo failed after %s, while: %s%s\n' "$RED" "$(clock)" "$NOW" "$PLAIN"
		printf 'The last lines of its log:\n'
		tail -n 15 "$LOG" | indent
		if [ -s "$KUBECONFIG" ] && cluster_answers >/dev/null 2>&1; then show_cluster; fi
		printf '\nThe whole log, with more of this: %s\n' "$LOG"
		printf 'Running the demo again begins anew; make cluster-down takes the cluster down.\n'
	} >&2
}

show_cluster() {
	printf '\nIn namespace %s:\n' "$NAMESPACE"
	shop get databasebackups,databaserestores 2>&1 | indent
	shop get jobs,pods,pvc,volumesnapshots 2>&1 | indent
	printf '\nIts last events:\n'
	shop get events --sort-by=.lastTimestamp 2>&1 | tail -n 12 | indent
	printf '\nThe operator:\n'
	kube -n "$OPERATOR_NAMESPACE" get pods 2>&1 | indent
	kube -n "$OPERATOR_NAMESPACE" logs "deployment/$OPERATOR" --tail=200 2>&1 | grep -F "\"$NAMESPACE\"" | tail -n 5 | cut -c1-400 | indent
	everything >>"$LOG" 2>&1
}

everything() {
	shop get databasebackups,databaserestores,jobs,pods,pvc,volumesnapshots -o yaml
	shop get events --sort-by=.lastTimestamp
	local pod
	for pod in $(shop get pods -l app.kubernetes.io/managed-by=holdfast -o name); do
		printf -- '--- log of %s\n' "$pod"
		shop logs "$pod" --all-containers
	done
	kube -n "$OPERATOR_NAMESPACE" logs "deployment/$OPERATOR" --tail=500
}
