package agent_test

import (
	"os"
	"testing"

	"github.com/holdfast-dev/holdfast/testutil/mariadbtest"
	"github.com/holdfast-dev/holdfast/testutil/miniotest"
	"github.com/holdfast-dev/holdfast/testutil/pgtest"
)

type withMinIO struct{ m *testing.M }

func (w withMinIO) Run() int { return miniotest.Run(w.m) }

type withMariaDB struct{ m withMinIO }

func (w withMariaDB) Run() int { return mariadbtest.Run(w.m) }

func TestMain(m *testing.M) { os.Exit(pgtest.Run(withMariaDB{withMinIO{m}})) }
