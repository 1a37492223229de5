# shellcheck shell=bash
# Where the demo plays: the cluster and, in it, the operator.

OPERATOR_NAMESPACE=holdfast-system
OPERATOR=holdfast-controller-manager

# forget_last_run lets the namespace of an earlier run go while there is other work to do.
forget_last_run() {
	BIN="$(bin_dir)"
	[ -x "$BIN/kubectl" ] && [ -s "$KUBECONFIG" ] || return 0
	kube --request-timeout=5s delete namespace "$NAMESPACE" --ignore-not-found --wait=false >>"$LOG" 2>&1 || true
}

raise_cluster() {
	NOW="bringing the cluster up"
	printf -- '--- %s\n' "$NOW" >>"$LOG"
	# Its steps are shown as they come, all that it says goes to the log.
	"$CLUSTER_DIR/up.sh" 2>&1 | tee -a "$LOG" | steps_only
}

steps_only() {
	local line
	while IFS= read -r line; do
		case "$line" in
		"==> "*) tell "${line#==> }" ;;
		error:* | "step "*) tell "$line" >&2 ;;
		esac
	done
}

# install_operator builds the image from this source, or with SKIP_BUILD=1 takes the one that Docker has.
install_operator() {
	[ "${SKIP_BUILD:-}" = 1 ] || doing "build the operator's image $IMAGE" "$REPO_DIR/hack/build.sh"
	doing "give it to the cluster" "$CLUSTER_DIR/load.sh" "$IMAGE"
	doing "install the operator (config/default)" kube apply --server-side --force-conflicts -k "$DEMO_DIR/operator"
	doing "the operator is ready" operator_is_current
}

# operator_is_current waits for a pod of the very image that was built: its name is the same each time.
operator_is_current() {
	local built
	built="$(image_id "$IMAGE")"
	if ! kube -n "$OPERATOR_NAMESPACE" get pods -o 'jsonpath={.items[*].status.containerStatuses[*].imageID}' | grep -qF "$built"; then
		kube -n "$OPERATOR_NAMESPACE" rollout restart "deployment/$OPERATOR"
	fi
	kube -n "$OPERATOR_NAMESPACE" rollout status "deployment/$OPERATOR" --timeout=120s
}
