package controllers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/schedule"
)

// turnPoll is how often a restore looks whether its turn has come.
const turnPoll = 5 * time.Second

// findTurn looks for restores of the namespace into the same databases that come first.
//
// It looks again until the safety backup begins: a restore that was made in the same second and has precedence may
// only be seen when this one is inspecting, which changes nothing.
func (w *restoreWork) findTurn(ctx context.Context) error {
	if hadTurn(w.restore) {
		return nil
	}
	list := &v1alpha1.DatabaseRestoreList{}
	// The cache may not know yet of one that was made a moment ago.
	if err := w.Live.List(ctx, list, client.InNamespace(w.restore.Namespace)); err != nil {
		return fmt.Errorf("listing the DatabaseRestores of the namespace: %w", err)
	}
	w.first = w.firstOf(list.Items)
	return nil
}

// stagePreview is the stage of the Job that inspects while a restore waits. What that one finds out counts for nothing when
// the turn has come, since the restore that came first changes it: the inspection is made then.
const stagePreview = "preview"

// lookAhead tells people now, and not in hours, that a restore that waits for its turn lacks a right. Anything else that
// is wrong may have passed when its turn comes.
func (w *restoreWork) lookAhead(ctx context.Context) error {
	if w.first == nil {
		return nil
	}
	blueprint := w.inspection()
	blueprint.Stage = stagePreview
	_, err := w.Jobs.Run(ctx, blueprint)
	if stall, failed := flow.AsStall(err); failed && isLackOfRights(stall.Reason) {
		return err
	}
	return nil
}

// isLackOfRights says whether what made an inspection fail is that a person has not given what is needed.
func isLackOfRights(reason string) bool {
	switch reason {
	case contract.ReasonSecretMissing, contract.ReasonAuthenticationFailed, contract.ReasonPermissionDenied,
		contract.ReasonStoreCredentials, contract.ReasonStoreDenied:
		return true
	}
	return false
}

// awaitTurn lets the restores of a namespace into the same databases work one after another, the oldest first. Of two at
// once the last swap would win, over what the other had just restored and no safety backup holds.
func (w *restoreWork) awaitTurn(context.Context) error {
	if w.first == nil {
		return nil
	}
	return flow.Waiting(turnPoll, "waiting for DatabaseRestore %s, which came first and restores into the same databases of %s: "+
		"this one begins when that one has ended, or is deleted", w.first.Name, w.restore.Spec.Database.Host)
}

// firstOf returns the one of some restores whose end this one must wait for, the oldest where there are several.
func (w *restoreWork) firstOf(list []v1alpha1.DatabaseRestore) *v1alpha1.DatabaseRestore {
	ours := targetOf(w.restore.Namespace, w.restore.Spec.Database)
	list = slices.DeleteFunc(list, func(other v1alpha1.DatabaseRestore) bool {
		comesFirst := hadTurn(&other) || inTurn(other, *w.restore) < 0 // not so of this one itself
		return flow.Ended(&other) || !comesFirst ||
			!schedule.Overlaps(ours, targetOf(other.Namespace, other.Spec.Database))
	})
	if len(list) == 0 {
		return nil
	}
	first := slices.MinFunc(list, inTurn)
	return &first
}

// hadTurn says whether a restore is past the point at which it waits for others: its safety backup is asked for, or done
// without.
func hadTurn(restore *v1alpha1.DatabaseRestore) bool {
	return restore.Status.SafetyBackupName != "" || flow.Has(restore, v1alpha1.ConditionSafetyBackupTaken)
}

// inTurn puts older restores first. Times are whole seconds, so the name decides between those of one second.
func inTurn(a, b v1alpha1.DatabaseRestore) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}
