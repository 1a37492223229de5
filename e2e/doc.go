// Package e2e is the end-to-end suite of Holdfast. It runs on a real kind cluster, behind the build tag e2e; see
// README.md.
package e2e
