package mongotest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// ProgramsVariable names the folder of the programs where the test set-up has built them.
const ProgramsVariable = "HOLDFAST_MONGO_PROGRAMS"

// Programs returns the folder of ferretdb, mongodump and mongorestore, which it builds where nobody has. It is put before the
// others of PATH, where the agent looks for client programs.
var Programs = sync.OnceValues(func() (string, error) {
	dir := os.Getenv(ProgramsVariable)
	if dir == "" {
		var err error
		if dir, err = build(); err != nil {
			return "", err
		}
	}
	return dir, os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
})

func build() (string, error) {
	file, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	root := filepath.Dir(strings.TrimSpace(string(file)))
	cmd := exec.Command(filepath.Join(root, "testutil", "mongotest", "programs.sh"))
	var says bytes.Buffer
	cmd.Stderr = &says
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("build MongoDB's tools: %w\n%s", err, says.String())
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1], nil
}
