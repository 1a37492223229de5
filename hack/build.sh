#!/usr/bin/env bash
# build.sh: compiles the manager and the agent into build/, and makes the image $IMAGE of them where Docker runs.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

compile() {
	GOOS=linux go build -buildvcs=false -ldflags "-s -w -X main.version=$VERSION" \
		-o build/ ./cmd/manager ./cmd/agent
}

# A client without buildx has the classic builder only.
make_image() {
	docker buildx version >/dev/null 2>&1 || export DOCKER_BUILDKIT=0
	docker build --label "org.opencontainers.image.version=$VERSION" --tag "$IMAGE" .
}

cd "$REPO_DIR"
VERSION="${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo dev)}"
step "compile the manager and the agent ($VERSION)" compile
if docker_answers; then
	step "make the image $IMAGE" make_image
else
	say "no Docker daemon answers, so there is no image: build/manager and build/agent are ready"
fi
