// Command agent does one task of a backup or a restore inside a Job's pod.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
	_ "golang.org/x/crypto/x509roots/fallback" // an image from scratch has no authorities of its own, and postgres has none either

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/contract"
)

// softMemoryLimit makes the garbage collector keep the agent well below the 128 MiB that it is promised to need.
const softMemoryLimit = 80 << 20

func main() {
	debug.SetMemoryLimit(softMemoryLimit)
	code := contract.ExitSucceeded
	root := &cobra.Command{Use: "agent", Short: "Does one task of a backup or a restore", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(installCommand(), runCommand(&code))
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		code = contract.ExitPermanent
	}
	os.Exit(code)
}

func installCommand() *cobra.Command {
	var to string
	command := &cobra.Command{Use: "install", Short: "Copies this program, for a container whose image lacks it", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return install(to) }}
	command.Flags().StringVar(&to, "to", "", "path of the copy")
	_ = command.MarkFlagRequired("to") // fails only for a flag that is not there
	return command
}

// install copies this program so that the copy is there whole or not at all.
func install(to string) (err error) {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	temp, err := os.CreateTemp(filepath.Dir(to), ".agent-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp.Name())
		}
	}()
	_, err = io.Copy(temp, from)
	if err = errors.Join(err, temp.Chmod(0o755), temp.Sync(), temp.Close()); err != nil {
		return fmt.Errorf("copy the agent to %s: %w", to, err)
	}
	return os.Rename(temp.Name(), to)
}

func runCommand(code *int) *cobra.Command {
	var (
		raw    string
		result string
		work   agent.Agent
	)
	command := &cobra.Command{Use: "run", Short: "Does a task and writes its result", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			work.Log = os.Stderr
			outcome := run(command.Context(), work, raw)
			*code = agent.ExitCode(outcome)
			return os.WriteFile(result, outcome.Encode(), 0o644) //nolint:gosec // the kubelet reads it
		}}
	command.Flags().StringVar(&raw, "task", "", "the task, as JSON")
	command.Flags().StringVar(&result, "result", contract.ResultPath, "file that the result is written to")
	command.Flags().StringVar(&work.StagingDir, "staging", contract.StagingDir, "directory that artifacts are staged in")
	_ = command.MarkFlagRequired("task") // fails only for a flag that is not there
	return command
}

func run(ctx context.Context, work agent.Agent, raw string) contract.Result {
	task, err := decodeTask(raw)
	if err != nil {
		return contract.Result{Verb: task.Verb, Failure: &contract.Failure{Reason: contract.ReasonInvalidTask, Message: err.Error()}}
	}
	ctx, stop := untilTerminated(ctx)
	defer stop()
	return work.Run(ctx, task)
}

// decodeTask is strict: a field that this agent does not know is one that it would silently not heed.
func decodeTask(raw string) (contract.Task, error) {
	var task contract.Task
	decoder := json.NewDecoder(bytes.NewBufferString(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&task); err != nil {
		return task, fmt.Errorf("the task cannot be read: %w: let agent and operator be of one image", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return task, errors.New("the task cannot be read: something stands behind it")
	}
	return task, nil
}

// untilTerminated returns a context that ends with agent.ErrTerminated when the process is told to stop.
func untilTerminated(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	done := make(chan struct{})
	go func() {
		select {
		case <-signals:
			cancel(agent.ErrTerminated)
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}
