#!/usr/bin/env bash
# run.sh: measures dump, upload, restore and memory against the reference tools, then the other engines' dumps and restores,
# then the operator with thousands of schedules and backups, and prints the tables of docs/performance.md. Everything runs
# on this machine; nothing else should.
#   BENCH_ONLY           pipeline, engines or scale measures that part alone
#   BENCH_SIZE_MIB       size of the database (default 1100)
#   BENCH_ROUNDS         rounds of dump and upload (default 5); BENCH_RESTORE_ROUNDS of restore (default 3)
#   BENCH_MINUTES        minutes after which no further round of the one or the other begins (default 5)
#   BENCH_LARGE_MIB      also measures the memory of each verb on a database of this size (default: no)
#   BENCH_ENGINES_MIB    about the size of the dumps of engines (default 256)
#   BENCH_SCALE          schedules, and finished backups, of scale (default 10000); a tenth of them is due in one slot
#   BENCH_RECORD=1       writes the tables into docs/performance.md
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

PAGE=docs/performance.md

# check_part takes only the parts that there are.
check_part() {
	case "${BENCH_ONLY:-}" in
	"" | pipeline | engines | scale) ;;
	*) die "BENCH_ONLY is ${BENCH_ONLY}: pipeline, engines and scale are the parts, nothing means all" ;;
	esac
}

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

# measure PART TEST: a part is a process of its own, with an API server of its own.
measure() {
	BENCH_PROGRAMS="$programs" BENCH_REPORT="$programs/$1.md" go test -tags bench -count=1 -timeout 60m -v -run "^$2\$" ./hack/bench/ >&2
}

# record PART: puts its tables between their two marks of the page.
record() {
	awk -v report="$programs/$1.md" -v begin="<!-- $1: begin -->" -v end="<!-- $1: end -->" '
		$0 == end { inside = 0 }
		!inside { print }
		$0 == begin { inside = 1; while ((getline line < report) > 0) print line }' "$PAGE" >"$PAGE.new"
	mv "$PAGE.new" "$PAGE"
}

# part NAME TEST: measures it and shows its tables, unless another one alone is asked for.
part() {
	[ "${BENCH_ONLY:-$1}" = "$1" ] || return 0
	step "measure $1" measure "$1" "$2"
	cat "$programs/$1.md"
	if [ "${BENCH_RECORD:-}" = 1 ]; then
		record "$1"
		say "written into $PAGE"
	fi
}

cd "$REPO_DIR"
check_part
[ "${BENCH_ONLY:-}" = scale ] || check_programs
programs="$(mktemp -d)"
trap 'rm -rf "$programs"' EXIT
HOLDFAST_BIN="$(cluster_binaries)"
export HOLDFAST_BIN KUBEBUILDER_ASSETS="$HOLDFAST_BIN"
HOLDFAST_MONGO_PROGRAMS="$(testutil/mongotest/programs.sh | tail -n 1)"
export HOLDFAST_MONGO_PROGRAMS
step "compile the manager, the agent and put" compile
part pipeline TestPerformance
part engines TestEngines
part scale TestScale
