#!/usr/bin/env bash
# The demo (make demo): a PostgreSQL in a cluster on this machine is backed up, wrecked, and restored
# from nothing but the backup's URL. It can be stopped at any moment and run again; docs/developing.md
# says what it does to the machine, and `make cluster-down` takes all of it down.
set -euo pipefail

DEMO_DIR="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)"

missing() {
	printf 'error: this needs %s\n' "$*" >&2
	exit 1
}
command -v go >/dev/null || missing "Go 1.26 or newer on PATH: https://go.dev/dl"

# shellcheck source=e2e/cluster/lib/all.sh
. "$DEMO_DIR/../../e2e/cluster/lib/all.sh"
# shellcheck source=hack/demo/lib/tell.sh
. "$DEMO_DIR/lib/tell.sh"
# shellcheck source=hack/demo/lib/follow.sh
. "$DEMO_DIR/lib/follow.sh"
# shellcheck source=hack/demo/lib/stage.sh
. "$DEMO_DIR/lib/stage.sh"
# shellcheck source=hack/demo/lib/bucket.sh
. "$DEMO_DIR/lib/bucket.sh"
# shellcheck source=hack/demo/lib/shop.sh
. "$DEMO_DIR/lib/shop.sh"
# shellcheck source=hack/demo/lib/acts.sh
. "$DEMO_DIR/lib/acts.sh"
# shellcheck source=hack/demo/lib/proof.sh
. "$DEMO_DIR/lib/proof.sh"
# shellcheck source=hack/demo/lib/diagnose.sh
. "$DEMO_DIR/lib/diagnose.sh"

# shellcheck disable=SC2034 # read by the parts above
{
	NAMESPACE=shop
	BUCKET=backups
	PREFIX=prod
	export IMAGE=holdfast:dev # of hack/build.sh too
	SAMPLES="$REPO_DIR/config/samples"
}
WORK="$(umask 077 && mktemp -d)"
LOG="$LOG_DIR/demo.log"
: >"$LOG"

trap finish EXIT
trap 'exit 130' INT TERM

main() {
	opening
	chapter "The stage: a cluster and the operator"
	forget_last_run
	raise_cluster
	install_operator
	chapter "A shop with a database"
	make_namespace
	make_bucket
	start_database
	fill_database
	chapter "A backup"
	take_backup
	look_into_bucket
	chapter "The worst day of the year"
	forget_backup
	wreck_database
	chapter "A restore by URL"
	restore_by_url
	chapter "The proof"
	prove
	closing
}

main
