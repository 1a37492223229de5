#!/usr/bin/env bash
# verify.sh: everything that can be said of the source without running it.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

# generated prints a hash of each file that `make generate` writes.
generated() { find config/crd/bases config/rbac/role.yaml docs/api.md api -type f ! -name '*_test.go' -exec sha256sum {} + | sort -k2; }

check_generated() {
	local before after
	before="$(generated)"
	hack/generate.sh
	after="$(generated)"
	diff <(echo "$before") <(echo "$after") >&2 || die "generated files were not up to date, and now are: commit them"
}

check_format() {
	local files
	files="$(gofmt -l .)"
	[ -z "$files" ] || die "not formatted (make fmt does it):"$'\n'"$files"
}

check_vet() {
	go vet ./...
	go vet -tags e2e ./e2e/...
	go vet -tags bench ./hack/bench/...
	(cd e2e/csi && go vet ./...)
	(cd e2e/cluster && go vet ./...)
	(cd hack/tools && go vet ./...)
	(cd testutil/mongotest/programs && go vet ./...)
}

check_lint() {
	local linter
	linter="$(hack/tools.sh golangci-lint)/golangci-lint"
	"$linter" run ./...
	(cd e2e/csi && "$linter" run --config "$REPO_DIR/.golangci.yml" ./...)
}

check_modules() {
	local module
	for module in "${MODULES[@]}"; do
		(cd "$module" && GOWORK=off go mod tidy -diff) || die "go.mod or go.sum of $module is not tidy (make tidy does it)"
	done
}

cd "$REPO_DIR"
step "generated files are up to date" check_generated
step "gofmt" check_format
step "go vet" check_vet
step "golangci-lint with kube-api-linter" check_lint
step "go.mod of each module is tidy" check_modules
step "no role touches Secrets" go test ./config/rbac/
