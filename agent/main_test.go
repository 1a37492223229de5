package agent_test

import (
	"os"
	"testing"

	"github.com/holdfast-dev/holdfast/testutil/mariadbtest"
	"github.com/holdfast-dev/holdfast/testutil/miniotest"
	"github.com/holdfast-dev/holdfast/testutil/mongotest"
	"github.com/holdfast-dev/holdfast/testutil/pgtest"
)

type tests interface{ Run() int }

// servers run the tests, each within the life of its own.
var servers = []func(tests) int{
	func(m tests) int { return miniotest.Run(m) },
	func(m tests) int { return pgtest.Run(m) },
	func(m tests) int { return mariadbtest.Run(m) },
	func(m tests) int { return mongotest.Run(m) },
}

// within is the rest of the servers, and the tests within all of them.
type within struct {
	servers []func(tests) int
	m       tests
}

func (w within) Run() int {
	if len(w.servers) == 0 {
		return w.m.Run()
	}
	return w.servers[0](within{w.servers[1:], w.m})
}

func TestMain(m *testing.M) { os.Exit(within{servers, m}.Run()) }
