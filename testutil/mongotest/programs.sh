#!/usr/bin/env bash
# programs.sh [mongoeval]: builds the programs that the tests of MongoDB run, or finds them in the cache, and prints the folder that
# holds them on its last line.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
programs=(ferretdb=./ferretdb mongodump=github.com/mongodb/mongo-tools/mongodump/main mongorestore=github.com/mongodb/mongo-tools/mongorestore/main)
for extra in "$@"; do programs+=("$extra=./$extra"); done
hack/programs.sh testutil/mongotest/programs "${programs[@]}"
