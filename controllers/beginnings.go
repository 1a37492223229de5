package controllers

import (
	"strings"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// This file says in events what begins, in sentences that people want to read.

// namesOr names the databases that an object names, and says what an empty list means.
func namesOr(db v1alpha1.DatabaseSpec, every string) string {
	if len(db.Names) == 0 {
		return every
	}
	return strings.Join(databaseNames(db), ", ")
}

// storeOf names the place where a backup goes.
func storeOf(backup *v1alpha1.DatabaseBackup) string {
	text := "bucket " + backup.Spec.Storage.S3.Bucket
	if endpoint := backup.Spec.Storage.S3.Endpoint; endpoint != "" {
		text += " of " + endpoint
	}
	return text
}

func beginsCheck(backup *v1alpha1.DatabaseBackup) string {
	return "looking whether " + storeOf(backup) + " can be written to"
}

func beginsDump(backup *v1alpha1.DatabaseBackup) string {
	return "dumping " + namesOr(backup.Spec.Database, "every database") + " of " + backup.Spec.Database.Host
}

func beginsSnapshots(backup *v1alpha1.DatabaseBackup) string {
	if claims := backup.Spec.VolumeSnapshot.Claims; len(claims) > 0 {
		return "taking a VolumeSnapshot of each of the claims " + strings.Join(claims, ", ")
	}
	return "taking a VolumeSnapshot of the staged dump"
}

func beginsUpload(backup *v1alpha1.DatabaseBackup) string {
	return "uploading the dump to " + storeOf(backup)
}

// sourceOf names what a restore restores from, as its user did.
func sourceOf(restore *v1alpha1.DatabaseRestore) string {
	if name := restore.Spec.Source.BackupRef.Name; name != "" {
		return "DatabaseBackup " + name
	}
	return restore.Spec.Source.URL
}

func beginsInspection(restore *v1alpha1.DatabaseRestore) string {
	return "looking at " + sourceOf(restore) + " and at " + restore.Spec.Database.Host + "; nothing is changed yet"
}

func beginsSafetyBackup(restore *v1alpha1.DatabaseRestore) string {
	return "backing up what will be replaced on " + restore.Spec.Database.Host + "; nothing is changed yet"
}

func beginsFetch(restore *v1alpha1.DatabaseRestore) string {
	return "downloading and verifying " + sourceOf(restore) + "; nothing is changed yet"
}

func beginsLoad(restore *v1alpha1.DatabaseRestore) string {
	return "restoring " + namesOr(restore.Spec.Database, "every database of the artifact") + " into " + restore.Spec.Database.Host +
		"; what is there stays in place until the swap at the end"
}
