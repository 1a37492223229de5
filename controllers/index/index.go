// Package index holds how the manager's cache finds objects by more than their names, so that a reconciler's question costs
// as much as its answer and not as much as all there is.
package index

import (
	"hash/fnv"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/flow"
)

// Lane finds the backups of the BackupSchedules of one lane, a few more than one schedule has: an entry for each schedule
// would take more memory than the backups that it finds. Who asks has to look at LabelSchedule.
const Lane = "schedule-lane"

// lanes is how many there are: a lane has one schedule in two thousand.
const lanes = 2048

// Part finds the BackupSchedules of one part, Parts of which are all: who reads all of thousands, and needs little of each, has
// copies of a part in hand at a time.
const (
	Part  = "part"
	Parts = 8
)

// AtWork finds the restores that have not ended, whose value is Yes, among all that are kept.
const (
	AtWork = "at-work"
	Yes    = "yes"
)

// Index is one way to find objects.
type Index struct {
	Object client.Object
	Field  string
	Of     client.IndexerFunc
}

// All are those that the reconcilers ask.
func All() []Index {
	return []Index{
		{&v1alpha1.DatabaseBackup{}, Lane, lane},
		{&v1alpha1.DatabaseBackup{}, Phase, phase},
		{&v1alpha1.DatabaseRestore{}, AtWork, atWork},
		{&v1alpha1.BackupSchedule{}, Part, part},
	}
}

// LaneOf a BackupSchedule is where its backups are found.
func LaneOf(schedule types.UID) string { return share(string(schedule), lanes) }

// share is one of so many, which follows from a text.
func share(of string, among uint32) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(of))
	return strconv.Itoa(int(hash.Sum32() % among))
}

func part(schedule client.Object) []string { return []string{share(schedule.GetName(), Parts)} }

func lane(backup client.Object) []string {
	if uid := backup.GetLabels()[v1alpha1.LabelSchedule]; uid != "" {
		return []string{LaneOf(types.UID(uid))}
	}
	return nil
}

func atWork(object client.Object) []string {
	if restore, ok := object.(*v1alpha1.DatabaseRestore); ok && !flow.Ended(restore) {
		return []string{Yes}
	}
	return nil
}
