#!/usr/bin/env bash
# binaries.sh [NAME…]: builds the named programs of the test cluster (all of them without a name),
# or finds them in the cache, and prints the folder that holds them on the last line.
set -euo pipefail
here="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source=e2e/cluster/lib/common.sh
. "$here/lib/common.sh"
# shellcheck source=e2e/cluster/lib/binaries.sh
. "$here/lib/binaries.sh"

if [ $# -gt 0 ]; then
	ensure_binaries "$@"
else
	ensure_all_binaries
fi
bin_dir
