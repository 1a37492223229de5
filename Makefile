# Holdfast: what can be done with the source. Longer recipes are scripts in hack/.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The image that build makes and deploy names.
IMAGE ?= holdfast:dev
export IMAGE

##@ Every day

.PHONY: help
help: ## Show this help.
	@awk 'BEGIN {FS = ":.*## "; print "usage: make TARGET"} \
		/^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Back up a PostgreSQL on kind, damage it, and restore it by its URL.
	hack/demo/run.sh

.PHONY: test
test: ## Set up what the tests need and run all that need no cluster.
	hack/test.sh

.PHONY: e2e
e2e: ## Run the end-to-end suite on kind (KEEP_CLUSTER=1 leaves the cluster, E2E_FLAGS go to go test).
	hack/e2e.sh

.PHONY: verify
verify: ## Check generated files, formatting, vet, linters, modules and RBAC.
	hack/verify.sh

.PHONY: bench
bench: ## Measure dump, upload and memory against the reference tools.
	hack/bench/run.sh

##@ Source

.PHONY: generate
generate: ## Write deep copies, CRDs, RBAC and the API reference from the Go types.
	hack/generate.sh

.PHONY: fmt
fmt: ## Format all Go code.
	gofmt -w .

.PHONY: tidy
tidy: ## Tidy go.mod of each module.
	source hack/lib.sh; for module in "$${MODULES[@]}"; do (cd $$module && go mod tidy); done

.PHONY: build
build: ## Compile the manager and the agent, and make the image IMAGE of them.
	hack/build.sh

##@ The test cluster

.PHONY: cluster-up
cluster-up: ## Start the kind cluster with MinIO and the CSI driver.
	e2e/cluster/up.sh

.PHONY: cluster-down
cluster-down: ## Delete the kind cluster and stop what cluster-up started.
	e2e/cluster/down.sh

##@ The cluster that kubectl talks to

.PHONY: install
install: ## Install the CRDs.
	hack/deploy.sh install

.PHONY: uninstall
uninstall: ## Remove the CRDs, if no backups and restores are left.
	hack/deploy.sh uninstall

.PHONY: deploy
deploy: ## Install the CRDs and the operator with the image IMAGE.
	hack/deploy.sh deploy

.PHONY: undeploy
undeploy: ## Remove the operator; the CRDs and what they hold stay.
	hack/deploy.sh undeploy
