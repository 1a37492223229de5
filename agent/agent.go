// Package agent is the data plane: it runs inside a Job's pod and does one task, such as a dump or an upload, from
// beginning to end. It never speaks to Kubernetes; what it found stands in its result.
package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/storage"
)

// ErrTerminated is the cause of a context that ends because the process was told to stop.
var ErrTerminated = errors.New("the agent was told to stop")

// Agent does tasks. The zero value is ready for a Job's pod.
type Agent struct {
	// StagingDir is where artifacts are staged. Default: contract.StagingDir.
	StagingDir string
	// TempDir takes small private files. Default: os.TempDir().
	TempDir string
	// Log takes progress and what happened. Default: nothing is logged.
	Log io.Writer
	// OpenStore opens the object store. Default: storage.New.
	OpenStore func(context.Context, storage.Config) (storage.Store, error)
	// StorePatience is how long an unreachable store is waited for. Default: 10 minutes.
	StorePatience time.Duration
}

// work is one task while it is done.
type work struct {
	Agent
	task     contract.Task
	log      *slog.Logger
	redactor *redactor
	begun    time.Time
}

// Run does one task. It always returns a result that can be handed over: a failure stands in it.
func (a Agent) Run(ctx context.Context, task contract.Task) contract.Result {
	w := a.begin(task)
	w.log.Info("begin", "object", task.Object.Namespace+"/"+task.Object.Name, "uid", task.Object.UID)
	result, err := w.do(ctx)
	if err != nil {
		result = contract.Result{Failure: w.failure(ctx, err)}
		w.log.Error("failed", "reason", result.Failure.Reason, "message", result.Failure.Message, "retryable", result.Failure.Retryable)
	} else {
		w.log.Info("done", "seconds", time.Since(w.begun).Seconds())
	}
	result.Version, result.Verb = contract.Version, task.Verb
	result.Note = w.redactor.redact(result.Note)
	return result
}

func (a Agent) begin(task contract.Task) *work {
	if a.StagingDir == "" {
		a.StagingDir = contract.StagingDir
	}
	if a.Log == nil {
		a.Log = io.Discard
	}
	if a.OpenStore == nil {
		a.OpenStore = storage.New
	}
	if a.StorePatience == 0 {
		a.StorePatience = 10 * time.Minute
	}
	hide := &redactor{}
	log := slog.New(slog.NewJSONHandler(redactingWriter{a.Log, hide}, nil)).With("verb", string(task.Verb))
	return &work{Agent: a, task: task, log: log, redactor: hide, begun: time.Now()}
}

func (w *work) do(ctx context.Context) (contract.Result, error) {
	if w.task.Version != contract.Version {
		return contract.Result{}, invalidTask("it has version %d and this agent does version %d: let agent and operator be of one image",
			w.task.Version, contract.Version)
	}
	if w.task.Object.UID == "" {
		return contract.Result{}, invalidTask("it names no object")
	}
	switch w.task.Verb {
	case contract.VerbCheck:
		return w.check(ctx)
	case contract.VerbDump:
		return w.dump(ctx)
	case contract.VerbUpload:
		return w.upload(ctx)
	case contract.VerbDelete:
		return w.delete(ctx)
	case contract.VerbInspect:
		return w.inspect(ctx)
	case contract.VerbFetch:
		return w.fetch(ctx)
	case contract.VerbLoad:
		return w.load(ctx)
	}
	return contract.Result{}, invalidTask("its verb %q is none that this agent knows", w.task.Verb)
}

func invalidTask(format string, args ...any) error {
	return permanent(contract.ReasonInvalidTask, "the task cannot be done: "+format, args...)
}

// database returns the engine of the task and its server with the credentials.
func (w *work) database() (engine.Engine, engine.Access, error) {
	if w.task.Database == nil {
		return nil, engine.Access{}, invalidTask("it names no database server")
	}
	eng, err := engine.For(w.task.Database.Engine)
	if err != nil {
		return nil, engine.Access{}, err
	}
	access := engine.Access{Connection: *w.task.Database, TempDir: w.TempDir, UID: w.task.Object.UID, Log: w.log, Tools: w.tools()}
	if access.Username, err = w.readSecret(access.UsernameFile, w.databaseSecret(), 0); err != nil {
		return nil, engine.Access{}, err
	}
	if access.Password, err = w.readSecret(access.PasswordFile, w.databaseSecret(), 1); err != nil {
		return nil, engine.Access{}, err
	}
	if access.Verifies() {
		if err := w.needCA(access.CAFile, w.databaseCA()); err != nil {
			return nil, engine.Access{}, err
		}
	}
	w.redactor.hide(access.Password)
	return eng, access, nil
}

func (w *work) tools() *processes { return &processes{redactor: w.redactor, log: w.log} }

// store opens the store of the task.
func (w *work) store(ctx context.Context) (storage.Store, error) {
	if w.task.Store == nil || w.task.Key == "" {
		return nil, invalidTask("it names no store or no key")
	}
	if err := w.needCA(w.task.Store.CAFile, w.storeCA()); err != nil {
		return nil, err
	}
	store, err := w.OpenStore(ctx, *w.task.Store)
	if errors.Is(err, storage.ErrCredentialsMissing) {
		return nil, w.storeSecretMissing(err)
	}
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	return store, nil
}

// url of the artifact.
func (w *work) url() string { return storage.URL(w.task.Store.Bucket, w.task.Key) }
