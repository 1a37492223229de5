package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/storage"
)

// permanent is a failure that comes again until somebody changes something.
func permanent(reason, format string, args ...any) error {
	return engine.Permanent(reason, format, args...)
}

// transient is a failure that may pass by itself.
func transient(reason, format string, args ...any) error {
	return engine.Transient(reason, format, args...)
}

// storeReasons are the reasons of a store's kinds of errors.
var storeReasons = []struct {
	kind   error
	reason string
}{
	{storage.ErrNotFound, contract.ReasonArtifactNotFound},
	{storage.ErrBucketNotFound, contract.ReasonBucketNotFound},
	{storage.ErrCredentialsMissing, contract.ReasonSecretMissing},
	{storage.ErrCredentials, contract.ReasonStoreCredentials},
	{storage.ErrAccessDenied, contract.ReasonStoreDenied},
	{storage.ErrCertificate, contract.ReasonStoreCertificate},
	{storage.ErrUnreachable, contract.ReasonStoreUnreachable},
	{storage.ErrManifest, contract.ReasonManifestInvalid},
	{storage.ErrNotOurs, contract.ReasonNotOurs},
	{storage.ErrSource, contract.ReasonStagedArtifactDamaged},
	{storage.ErrInvalidConfig, contract.ReasonInvalidTask},
	{storage.ErrStore, contract.ReasonStoreFailed},
}

// failure turns an error into what the result says of it.
func (w *work) failure(ctx context.Context, err error) *contract.Failure {
	failure := &contract.Failure{Reason: contract.ReasonInternal, Message: err.Error(), Retryable: true}
	known, isKnown := errors.AsType[*engine.Error](err)
	switch {
	case ctx.Err() != nil:
		failure.Reason = contract.ReasonTerminated
		failure.Message = "the agent was stopped before the task was done, and left nothing half done behind: it can be run again"
	case isKnown:
		failure.Reason, failure.Retryable = known.Reason, known.Retryable
	default:
		for _, each := range storeReasons {
			if errors.Is(err, each.kind) {
				failure.Reason, failure.Retryable = each.reason, storage.Retryable(err)
				break
			}
		}
	}
	if errors.Is(err, storage.ErrCredentials) && w.task.StoreSecret != nil {
		failure.Message += fmt.Sprintf(" (Secret %s)", w.task.StoreSecret.Name)
	}
	failure.Message = w.redactor.redact(failure.Message)
	return failure
}

// ExitCode of a result.
func ExitCode(result contract.Result) int {
	switch {
	case result.Failure == nil:
		return contract.ExitSucceeded
	case result.Failure.Retryable:
		return contract.ExitRetryable
	}
	return contract.ExitPermanent
}
