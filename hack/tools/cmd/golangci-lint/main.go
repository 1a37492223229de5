// Command golangci-lint is golangci-lint with kube-api-linter compiled in, as golangci-lint's own `custom` command
// would build it, but pinned by this module's go.mod and without cloning anything.
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/golangci/golangci-lint/v2/pkg/commands"
	"github.com/golangci/golangci-lint/v2/pkg/exitcodes"

	_ "sigs.k8s.io/kube-api-linter" // registers the plugin "kubeapilinter"
)

const linterModule = "github.com/golangci/golangci-lint/v2"

func main() {
	info := commands.BuildInfo{GoVersion: runtime.Version(), Version: pinnedVersion(), Commit: "unknown", Date: "unknown"}
	if err := commands.Execute(info); err != nil {
		fmt.Fprintln(os.Stderr, "golangci-lint:", err)
		os.Exit(exitcodes.Failure)
	}
}

// pinnedVersion is the version of golangci-lint that this module's go.mod names.
func pinnedVersion() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, dependency := range build.Deps {
		if dependency.Path == linterModule {
			return dependency.Version
		}
	}
	return "unknown"
}
