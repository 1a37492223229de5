// Package bench measures Holdfast against the tools that people use without it: pg_dump, zstd, mc and pg_restore. It
// stands behind the build tag bench, starts its own PostgreSQL, MinIO and kube-apiserver, and asserts no time: it
// prints tables. See run.sh and docs/performance.md.
package bench
