package agent_test

import (
	"os"
	"testing"

	"github.com/holdfast-dev/holdfast/testutil/miniotest"
	"github.com/holdfast-dev/holdfast/testutil/pgtest"
)

type withMinIO struct{ m *testing.M }

func (w withMinIO) Run() int { return miniotest.Run(w.m) }

func TestMain(m *testing.M) { os.Exit(pgtest.Run(withMinIO{m})) }
