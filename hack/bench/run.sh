#!/usr/bin/env bash
# run.sh: measures dump, upload, restore and memory against the reference tools and prints the tables of
# docs/performance.md. Everything runs on this machine; nothing else should.
#   BENCH_SIZE_MIB       size of the database (default 1100)
#   BENCH_ROUNDS         rounds of dump and upload (default 5); BENCH_RESTORE_ROUNDS of restore (default 3)
#   BENCH_MINUTES        minutes after which no further round of the one or the other begins (default 5)
#   BENCH_LARGE_MIB      also measures the memory of each verb on a database of this size (default: no)
#   BENCH_RECORD=1       writes the tables into docs/performance.md
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

PAGE=docs/performance.md

# check_programs names what is missing. restic is one more row where it is installed.
check_programs() {
	local program
	for program in zstd gzip; do
		command -v "$program" >/dev/null || die "the reference needs $program: apt-get install $program"
	done
	[ -x /usr/lib/postgresql/15/bin/postgres ] || die "the database needs PostgreSQL 15: apt-get install postgresql-15"
}

compile() {
	local version
	version="$(git describe --tags --always --dirty 2>/dev/null || echo dev)"
	nice -n 5 go build -buildvcs=false -ldflags "-s -w -X main.version=$version" -o "$programs/" ./cmd/manager ./cmd/agent ./hack/bench/put
}

measure() {
	BENCH_PROGRAMS="$programs" BENCH_REPORT="$report" go test -tags bench -count=1 -timeout 60m -v ./hack/bench/ >&2
}

# record puts the tables between the two marks of the page.
record() {
	awk -v report="$report" '
		/^<!-- bench: end -->/ { inside = 0 }
		!inside { print }
		/^<!-- bench: begin -->/ { inside = 1; while ((getline line < report) > 0) print line }' "$PAGE" >"$PAGE.new"
	mv "$PAGE.new" "$PAGE"
}

cd "$REPO_DIR"
check_programs
programs="$(mktemp -d)"
trap 'rm -rf "$programs"' EXIT
report="$programs/report.md"
HOLDFAST_BIN="$(cluster_binaries)"
export HOLDFAST_BIN KUBEBUILDER_ASSETS="$HOLDFAST_BIN"
step "compile the manager, the agent and put" compile
step "measure" measure
cat "$report"
if [ "${BENCH_RECORD:-}" = 1 ]; then
	record
	say "written into $PAGE"
fi
