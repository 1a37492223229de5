# shellcheck shell=bash
# The kind node image, and the images of Kubernetes inside it.

NODE_IMAGE=holdfast.test/node:dev

ensure_node_image() {
	ensure_image "$NODE_IMAGE" "$(node_hash)" build_node_image
}

# The folder's name is the hash of the programs in it.
node_hash() {
	sha_of "$(basename "$(bin_dir)")" "$CLUSTER_DIR/node" "$(debian_image node)" "$(debian_image tools)" "$CLUSTER_DIR/lib/node.sh"
}

build_node_image() {
	local tag="$1" root="$RUN_DIR/node-rootfs"
	rm -rf "$root"
	mkdir -p "$root"
	copy_kind_files "$root"
	cp -r "$CLUSTER_DIR/node/rootfs/." "$root/"
	copy_node_binaries "$root"
	save_kubernetes_images "$root/kind/images/kubernetes.tar"
	mkdir -p "$root.context"
	cp "$CLUSTER_DIR/node/Dockerfile" "$root.context/"
	rm -rf "$root.context/rootfs"
	mv "$root" "$root.context/rootfs"
	docker build --build-arg "BASE=$(debian_image node)" -t "$tag" "$root.context"
	rm -rf "$root.context"
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

# save_kubernetes_images ARCHIVE: the images that this kubeadm asks for, under the names it uses.
save_kubernetes_images() {
	local names name
	mapfile -t names < <(kubernetes_image_names)
	for name in "${names[@]}"; do build_kubernetes_image "$name"; done
	docker save -o "$1" "${names[@]}"
	docker rmi "${names[@]}"
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
