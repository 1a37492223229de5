# shellcheck shell=bash
# The kind node image, and the images of Kubernetes inside it.

NODE_IMAGE=holdfast.test/node:dev

ensure_node_image() {
	ensure_image "$NODE_IMAGE" "$(node_hash)" build_node_image
}

# The folder's name is the hash of the programs in it. The images in the node do not count: they
# are a head start, and load_images brings what has changed since.
node_hash() {
	sha_of "$(basename "$(bin_dir)")" "$CLUSTER_DIR/node" "$(debian_image node)" "$(debian_image tools)" "$CLUSTER_DIR/lib/node.sh"
}

build_node_image() {
	local tag="$1" bare=holdfast.test/node-bare:build state="$RUN_DIR/containerd-state.tar"
	build_bare_node "$bare"
	save_containerd_state "$bare" "$state"
	from_folder "$CLUSTER_DIR/node/with-images" "$bare" "$state" "$tag"
	rm -f "$state"
	docker rmi "$bare"
}

build_bare_node() {
	local context
	context="$(mktemp -d "$RUN_DIR/tmp-XXXXXX")"
	mkdir "$context/rootfs"
	cp "$CLUSTER_DIR/node/Dockerfile" "$context/"
	copy_kind_files "$context/rootfs"
	cp -r "$CLUSTER_DIR/node/rootfs/." "$context/rootfs/"
	copy_node_binaries "$context/rootfs"
	docker build --build-arg "BASE=$(debian_image node)" -t "$1" "$context"
	rm -rf "$context"
}

# kind's base image is made of files that its Go module carries; a module's files are read-only.
copy_kind_files() {
	local kind_dir
	kind_dir="$(cd "$CLUSTER_DIR" && GOWORK=off go list -m -f '{{.Dir}}' sigs.k8s.io/kind)"
	cp -r --no-preserve=mode "$kind_dir/images/base/files/." "$1/"
	mkdir -p "$1/kind/images" "$1/kind/manifests"
	echo "$KUBE_VERSION" >"$1/kind/version"
}

copy_node_binaries() {
	local bin name
	bin="$(bin_dir)"
	mkdir -p "$1/usr/local/bin" "$1/opt/cni/bin"
	for name in kubelet kubeadm kubectl containerd containerd-shim-runc-v2 ctr crictl; do
		cp "$bin/$name" "$1/usr/local/bin/"
	done
	for name in bridge loopback host-local portmap; do cp "$bin/$name" "$1/opt/cni/bin/"; done
	chmod 755 "$1"/usr/local/bin/* "$1"/kind/bin/*
}

# save_containerd_state NODE ARCHIVE: what containerd keeps once it has imported and unpacked every
# image. A new node unpacks that in a second or two, where an import at each start takes ten.
save_containerd_state() {
	local container names
	mapfile -t names < <(kubernetes_image_names)
	for name in "${names[@]}"; do build_kubernetes_image "$name"; done
	container="$(docker run -d --privileged --stop-signal TERM -v /var/lib/containerd --entrypoint containerd "$1")"
	wait_until 60 docker exec "$container" ctr version
	docker save "${names[@]}" "${NODE_IMAGES[@]}" | import_images "$container"
	docker exec "$container" ctr -n k8s.io content prune references
	docker stop "$container"
	docker cp "$container:/var/lib/containerd" - >"$2"
	docker rm -f -v "$container"
	docker rmi "${names[@]}"
}

# import_images CONTAINER reads an archive; the layers themselves are of no use once unpacked.
import_images() {
	docker exec -i "$1" ctr -n k8s.io images import --local --discard-unpacked-layers --snapshotter overlayfs -
}

# The pause image that kind's containerd configuration names can be another than kubeadm's.
kubernetes_image_names() {
	{
		"$(bin_dir)/kubeadm" config images list --kubernetes-version "$KUBE_VERSION"
		echo registry.k8s.io/pause:3.10
	} | sort -u
}

build_kubernetes_image() {
	local program
	program="$(basename "${1%:*}")"
	case "$program" in
	kube-proxy) from_folder "$CLUSTER_DIR/node/kube-proxy" "$(debian_image tools)" "$(bin_dir)/kube-proxy" "$1" ;;
	*) from_binary "$program" "$1" ;;
	esac
}
