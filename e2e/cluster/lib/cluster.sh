# shellcheck shell=bash
# The kind cluster: made, kept when it fits what it should be made of, and loaded with images.

in_node() { docker exec -i "$NODE_NAME" "$@"; }
kube() { "$(bin_dir)/kubectl" "$@"; }
kind_() { "$(bin_dir)/kind" "$@"; }

cluster_answers() { timeout 5 "$(bin_dir)/kubectl" --request-timeout=4s get --raw /readyz; }

# What a running cluster was made of; a node carries it from its creation on.
cluster_inputs() {
	sha_of "$REPO_DIR/kind-config.yaml" "$(image_id "$NODE_IMAGE")"
}

image_id() {
	local id
	id="$(docker image inspect --format '{{.Id}}' "$1" 2>/dev/null)" || id=none
	echo "$id"
}

node_state() {
	local state
	state="$(docker container inspect --format '{{.State.Status}}' "$NODE_NAME" 2>/dev/null)" || state=absent
	echo "$state"
}

ensure_cluster() {
	if cluster_fits; then return; fi
	[ "$(node_state)" = absent ] || step "delete a cluster that is stopped, broken or of another make" delete_cluster
	step "create cluster $CLUSTER_NAME" create_cluster
}

# A node that went down with its daemon may come back by itself, but with half of its pods for a
# while said to be ready; a new one takes a minute and is sure.
cluster_fits() {
	[ -z "${DAEMON_STARTED:-}" ] || return 1
	[ "$(node_state)" = running ] || return 1
	[ "$(cat "$RUN_DIR/cluster-inputs" 2>/dev/null)" = "$(cluster_inputs)" ] || return 1
	wait_until 30 cluster_answers
}

# On a busy machine a node takes longer to die (a hundred processes, a mounted pool) than the ten
# seconds that Docker gives it: then it is asked again.
delete_cluster() {
	rm -f "$RUN_DIR/cluster-inputs" "$RUN_DIR/up-stamp"
	wait_until 300 end_node ||
		die "Docker cannot end the node: docker rm -f -v $NODE_NAME says why"
}

end_node() {
	thaw_node
	kind_ delete cluster --name "$CLUSTER_NAME" --kubeconfig "$KUBECONFIG"
}

# On cgroup v1 runc freezes a container for a moment while it changes it. When the node dies in that moment, the
# frozen process never does, and Docker gets no exit event: seen, and cured by thawing it.
thaw_node() {
	local id frozen
	id="$(docker container inspect --format '{{.Id}}' "$NODE_NAME" 2>/dev/null)" || return 0
	while IFS= read -r frozen; do
		[ "$(cat "$frozen" 2>/dev/null)" != FROZEN ] || echo THAWED >"$frozen" || true
	done < <(find "/sys/fs/cgroup/freezer/docker/$id" -depth -name freezer.state 2>/dev/null)
}

create_cluster() {
	local image_option=()
	[ -z "$NODE_IMAGE" ] || image_option=(--image "$NODE_IMAGE")
	kind_ create cluster --name "$CLUSTER_NAME" --config "$REPO_DIR/kind-config.yaml" \
		--kubeconfig "$KUBECONFIG" "${image_option[@]}"
	cluster_inputs >"$RUN_DIR/cluster-inputs"
}

wait_for_node() { kube wait --for=condition=Ready node --all --timeout=180s; }

# load_images NAME…: pipes those images into the node that it does not hold in this very form.
load_images() {
	local name known missing=()
	known="$(in_node crictl images --no-trunc | awk '{print $1 ":" $2, $3}')"
	for name in "$@"; do
		has_image "$name" || die "Docker has no image \"$name\": build or pull it first"
		grep -qxF "$name $(image_id "$name")" <<<"$known" || missing+=("$name")
	done
	[ "${#missing[@]}" -eq 0 ] && return
	docker save "${missing[@]}" | import_images "$NODE_NAME"
}
