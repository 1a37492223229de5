//go:build bench

package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// figure is what one run took.
type figure struct {
	wall, cpu time.Duration // cpu is of the process and all that it waited for, servers not included
	peak      int64         // most memory that the process itself had resident, in bytes
	written   int64         // size of the file that it made, in bytes
}

// subject is something that is measured, a number of times.
type subject struct {
	name   string
	rounds int
	run    func(round int) figure
	runs   []figure
}

// interleave runs the subjects in turns, A B A B …, so that what else the machine does falls on all alike. The first
// round is run in any case, a further one begins only within the time that is given.
func interleave(limit time.Duration, subjects ...*subject) {
	most := 0
	for _, s := range subjects {
		most = max(most, s.rounds)
	}
	began := time.Now()
	for round := range most {
		if round > 0 && time.Since(began) > limit {
			sayf("no further rounds: they have taken %.0f s", time.Since(began).Seconds())
			return
		}
		for _, s := range subjects {
			if round >= s.rounds {
				continue
			}
			unix.Sync() // what the one before wrote is not written back at the cost of this one
			f := s.run(round)
			s.runs = append(s.runs, f)
			sayf("round %d: %s: %.2f s", round+1, s.name, f.wall.Seconds())
		}
	}
}

func sayf(format string, args ...any) { fmt.Fprintf(os.Stderr, "    "+format+"\n", args...) }

// measure runs a command to its end and returns also what it said. The test fails with that when the command fails.
func measure(tb testing.TB, cmd *exec.Cmd) (took figure, log []byte) {
	tb.Helper()
	var said bytes.Buffer
	cmd.Stderr = &said
	began := time.Now()
	if err := cmd.Start(); err != nil {
		tb.Fatalf("start %s: %v", cmd.Path, err)
	}
	peak := watchPeak(cmd.Process.Pid)
	err := cmd.Wait()
	took = figure{wall: time.Since(began), cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), peak: peak()}
	if err != nil {
		tb.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, said.String())
	}
	return took, said.Bytes()
}

// watchPeak follows the peak memory of a process until the returned function is called. The rusage of a process
// that Go started is of no use here: it begins with the memory of the one that started it.
func watchPeak(pid int) func() int64 {
	stop, peak := make(chan struct{}), make(chan int64)
	go func() {
		most, tick := int64(0), time.NewTicker(20*time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				peak <- most
				return
			case <-tick.C:
				most = max(most, memoryOf(pid, "VmHWM"))
			}
		}
	}()
	return func() int64 {
		close(stop)
		return <-peak
	}
}

// memoryOf reads a field of a process's status, in bytes; 0 when the process is gone.
func memoryOf(pid int, field string) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "\n"+field+":")
	words := strings.Fields(rest)
	if len(words) == 0 {
		return 0
	}
	kib, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}

func fileSize(tb testing.TB, path string) int64 {
	tb.Helper()
	info, err := os.Stat(path)
	if err != nil {
		tb.Fatal(err)
	}
	return info.Size()
}

// median of what value says of each run.
func (s *subject) median(value func(figure) float64) float64 {
	var all []float64
	for _, f := range s.runs {
		all = append(all, value(f))
	}
	return median(all)
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

func wall(f figure) float64 { return f.wall.Seconds() }
func cpu(f figure) float64  { return f.cpu.Seconds() }

func (s *subject) peak() int64 {
	most := int64(0)
	for _, f := range s.runs {
		most = max(most, f.peak)
	}
	return most
}

// written of the last run.
func (s *subject) written() int64 { return s.runs[len(s.runs)-1].written }

// ratios of the wall times of a and b, round by round.
func ratios(a, b []*subject) []float64 {
	var all []float64
	for round := range min(rounds(a), rounds(b)) {
		all = append(all, sum(a, round)/sum(b, round))
	}
	return all
}

func rounds(subjects []*subject) int {
	least := len(subjects[0].runs)
	for _, s := range subjects {
		least = min(least, len(s.runs))
	}
	return least
}

func sum(subjects []*subject, round int) float64 {
	total := 0.0
	for _, s := range subjects {
		total += wall(s.runs[round])
	}
	return total
}
