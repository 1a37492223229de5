package controllers

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/flow"
)

// standing is how a backup stands to the queue.
type standing int

const (
	// ordinary is a backup that waits for its turn.
	ordinary standing = iota
	// safety is the safety backup of a restore at work, which does not wait: nor does its restore.
	safety
	// unknown is one that may become a safety backup in a moment, when its restore has said so.
	unknown
)

// standingOf a backup follows from the restore that it belongs to: that one's status has to name it. Its owner reference
// alone proves nothing, since whoever makes a backup may write one.
func (q *Queue) standingOf(ctx context.Context, backup *v1alpha1.DatabaseBackup) (standing, error) {
	owner := metav1.GetControllerOfNoCopy(backup)
	if owner == nil || owner.Kind != kindRestore || !strings.HasPrefix(owner.APIVersion, v1alpha1.GroupVersion.Group+"/") {
		return ordinary, nil
	}
	restore := &v1alpha1.DatabaseRestore{}
	key := client.ObjectKey{Namespace: backup.Namespace, Name: owner.Name}
	if err := q.Client.Get(ctx, key, restore, client.UnsafeDisableDeepCopy); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return ordinary, fmt.Errorf("reading DatabaseRestore %s: %w", key, err)
		}
		return ordinary, nil
	}
	switch {
	case restore.UID != owner.UID || flow.Ended(restore):
		return ordinary, nil
	case restore.Status.SafetyBackupName == backup.Name:
		return safety, nil
	case restore.Status.SafetyBackupName == "" && backup.Labels[v1alpha1.LabelOwnerUID] == string(restore.UID):
		return unknown, nil
	}
	return ordinary, nil
}
