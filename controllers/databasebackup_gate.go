package controllers

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/index"
)

// This file keeps backups from beginning before their time: those for which there is no place, and those of a schedule
// while a restore writes into their database.

// silence is how long a schedule's backup waits for a place before its status says so. Many are made in one slot, and what
// is written for those that begin a moment later would keep the others from being made.
const silence = 10 * time.Second

// soon is when a backup is looked at again whose restore is about to say that it is its own.
const soon = 500 * time.Millisecond

// gate returns how long a backup has to wait until it is looked at again, or 0 where it may begin or has begun.
func (r *BackupReconciler) gate(ctx context.Context, backup *v1alpha1.DatabaseBackup) (time.Duration, error) {
	phase := index.PhaseOf(backup)
	if phase != index.Waiting && phase != index.Held {
		return 0, nil
	}
	if restore, err := r.writesInto(ctx, backup); err != nil || restore != nil {
		if err == nil {
			err = r.hold(ctx, backup, isWrittenInto(restore))
		}
		return waitPoll, err
	}
	standing, err := r.Queue.standingOf(ctx, backup)
	switch {
	case err != nil || standing == safety:
		return 0, err
	case standing == unknown:
		return soon, nil
	}
	mayStart, err := r.Queue.MayStart(ctx, backup)
	if err != nil || mayStart {
		return 0, err
	}
	return r.queued(ctx, backup, phase)
}

// writesInto returns a restore at work that a schedule's backup has to wait for. The schedule has asked before it made the
// backup, which may have waited for a place since. What people ask for by hand is begun all the same.
func (r *BackupReconciler) writesInto(ctx context.Context, backup *v1alpha1.DatabaseBackup) (*v1alpha1.DatabaseRestore, error) {
	if backup.Labels[v1alpha1.LabelSchedule] == "" {
		return nil, nil
	}
	return r.restoreInto(ctx, targetOf(backup.Namespace, backup.Spec.Database))
}

// hold has a backup wait without a place, which others may need.
func (r *BackupReconciler) hold(ctx context.Context, backup *v1alpha1.DatabaseBackup, why *obstacle) error {
	r.Queue.Release(ctx, backup)
	before := backup.DeepCopy()
	flow.MarkFalse(backup, v1alpha1.ConditionReady, why.reason, why.text)
	landed, err := r.Writer.Note(ctx, before, backup)
	if landed && flow.ReasonOf(before, v1alpha1.ConditionReady) != why.reason {
		r.Writer.Event(backup, corev1.EventTypeNormal, why.reason, "Reconcile", why.text)
	}
	return err
}

// queued has a backup wait for a place.
func (r *BackupReconciler) queued(ctx context.Context, backup *v1alpha1.DatabaseBackup, phase string) (time.Duration, error) {
	if quiet := r.quietFor(backup); quiet > 0 {
		return quiet, nil
	}
	before := backup.DeepCopy()
	flow.MarkFalse(backup, v1alpha1.ConditionReady, v1alpha1.ReasonQueued, r.Queue.Message())
	landed, err := r.Writer.Note(ctx, before, backup)
	if !landed || phase == index.Held { // only from now on it is one of those that wait for a place
		return time.Second, err
	}
	return queuePoll, err
}

// quietFor is how much longer nothing is said of a backup. It is nothing where the API server's clock is ahead.
func (r *BackupReconciler) quietFor(backup *v1alpha1.DatabaseBackup) time.Duration {
	age := r.Now().Sub(backup.CreationTimestamp.Time)
	if age < 0 || backup.Labels[v1alpha1.LabelSchedule] == "" || flow.Has(backup, v1alpha1.ConditionReady) {
		return 0
	}
	return silence - age
}
