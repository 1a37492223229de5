#!/usr/bin/env bash
# generate.sh: writes what follows from the Go types and their markers: deep copies, CRDs, the operator's ClusterRole
# and the API reference.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

cd "$REPO_DIR"
tools="$(hack/tools.sh controller-gen crd-ref-docs)"
"$tools/controller-gen" object paths=./api/...
"$tools/controller-gen" crd paths=./api/... output:crd:dir=config/crd/bases
# controller-gen lets a quantity have an exponent. Kubernetes' own decoder takes not each of those (1e1.5), and for others seconds
# of processor time (1e-9999999): one such object would keep the operator from seeing all others of its kind.
amount='^[0-9]{1,15}(\.[0-9]{1,9})?(m|[kMGTPE]|[KMGTPE]i)?$'
sed -i "s/pattern: ^(\\\\+|-)?(.*/pattern: ${amount//\\/\\\\}/" config/crd/bases/*.yaml
"$tools/controller-gen" rbac:roleName=holdfast-manager paths=./controllers/... output:rbac:dir=config/rbac
"$tools/crd-ref-docs" --source-path=api --config=hack/api-docs/config.yaml --templates-dir=hack/api-docs/templates \
	--renderer=markdown --output-path=docs/api.md --log-level=ERROR
