package engine

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/engine/internal/pgsql"
)

// A restore loads each database into a fresh one, and puts all of them in place by renaming, in one transaction:
//
//	create and load holdfast_new_<uid> → check it → rename TARGET to holdfast_old_<uid> and the new one to TARGET
//	→ mark it done → drop holdfast_old_<uid>
//
// Up to the rename nothing of the old databases is touched. Only databases that bear the UID of the restore are
// ever dropped. What pg_restore leaves to the one who creates a database (owner, encoding and locale, settings,
// grants on it, its comment) comes from the dump where the dump says it, else from the database that is replaced.
type restore struct {
	Access
	Restoration
	admin   *pgx.Conn // to a database that is not replaced
	adminDB string
	server  serverInfo
	items   []*restoreItem
	roles   []byte // script that creates the roles of a pgcluster
	notes   []string
}

// restoreItem is one database of a restore.
type restoreItem struct {
	source string // name in the artifact; empty when the artifact does not say
	target string
	fresh  string
	old    string
	exists bool // target is there, and the swap has not happened
	info   dumpInfo
}

// newRestore connects and looks at what is there. The caller closes it.
func newRestore(ctx context.Context, a Access, restoration Restoration) (*restore, error) {
	pairs, err := restoreNames(restoration.Artifact, a.Databases)
	if err != nil {
		return nil, err
	}
	if err := a.needUID(); err != nil {
		return nil, err
	}
	r := &restore{Access: a, Restoration: restoration}
	if r.admin, err = a.connectAny(ctx, adminDatabases(pairs)...); err != nil {
		return nil, err
	}
	r.adminDB = r.admin.Config().Database
	if r.server, err = readServerInfo(ctx, r.admin); err != nil {
		r.close()
		return nil, a.queryError(err)
	}
	for i, pair := range pairs {
		item := &restoreItem{source: pair.source, target: pair.target}
		item.fresh, item.old = temporaryName("new", a.UID, i), temporaryName("old", a.UID, i)
		if item.exists, err = r.exists(ctx, item.target); err != nil {
			r.close()
			return nil, err
		}
		r.items = append(r.items, item)
	}
	return r, nil
}

func (r *restore) close() { closeConn(r.admin) }

func (r *restore) exists(ctx context.Context, database string) (bool, error) {
	var there bool
	err := r.admin.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, database).Scan(&there)
	if err != nil {
		return false, r.queryError(err)
	}
	return there, nil
}

func (r *restore) notef(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// targets are the databases that are restored.
func (r *restore) targets() []string {
	var names []string
	for _, item := range r.items {
		names = append(names, item.target)
	}
	return names
}

// Restore restores an artifact.
func (postgreSQL) Restore(ctx context.Context, a Access, restoration Restoration) (string, error) {
	r, err := newRestore(ctx, a, restoration)
	if err != nil {
		return "", err
	}
	defer r.close()
	swapped, err := r.swappedBefore(ctx)
	if err != nil {
		return "", err
	}
	if !swapped {
		if err := r.loadAndSwap(ctx); err != nil {
			return "", untouched(err, r.targets())
		}
	}
	if err := r.OnSwapped(); err != nil {
		return "", fmt.Errorf("the restored databases are in place, but that could not be noted down: %w", err)
	}
	r.finish(ctx)
	return strings.Join(r.notes, "; "), nil
}

// loadAndSwap does all that may fail and leaves the old databases untouched.
func (r *restore) loadAndSwap(ctx context.Context) error {
	if err := r.obstacles(ctx); err != nil {
		return err
	}
	for _, item := range r.items {
		if item.exists {
			if err := r.needSaved(item.target, r.Options); err != nil {
				return err
			}
		}
	}
	if err := r.dropFresh(ctx); err != nil {
		return err
	}
	err := r.load(ctx)
	if err == nil {
		err = r.swap(ctx)
	}
	if err != nil {
		r.cleanUp(ctx)
	}
	return err
}

// cleanUp drops what was loaded, even when ctx has ended. What it cannot drop now, the next run drops.
func (r *restore) cleanUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 6*time.Second)
	defer cancel()
	err := r.reconnect(ctx)
	if err == nil {
		err = r.dropFresh(ctx)
	}
	if err != nil {
		r.Log.Warn("could not drop what was loaded", "error", err.Error())
	}
}

// load creates, loads and checks the fresh databases.
func (r *restore) load(ctx context.Context) error {
	if err := r.readInfo(ctx); err != nil {
		return err
	}
	if err := r.createRoles(ctx); err != nil {
		return err
	}
	if err := r.needRoles(ctx); err != nil {
		return err
	}
	for _, item := range r.items {
		if err := r.createFresh(ctx, item); err != nil {
			return err
		}
	}
	dump, err := r.Artifact.Open()
	if err != nil {
		return err
	}
	defer func() { _ = dump.Close() }()
	if err := r.loadAll(ctx, dump); err != nil {
		return err
	}
	for _, item := range r.items {
		if err := r.checkFresh(ctx, item); err != nil {
			return err
		}
		if err := r.applyProperties(ctx, item); err != nil {
			return err
		}
	}
	return nil
}

// loadAll reads the artifact once, from front to back, to its very end.
func (r *restore) loadAll(ctx context.Context, dump io.Reader) error {
	switch r.Artifact.Format {
	case formatPgDump:
		return r.loadArchive(ctx, r.items[0], dump)
	case formatSQL:
		return r.loadScript(ctx, r.items[0], dump)
	}
	return walkCluster(dump, func(entry clusterEntry, archive io.Reader) error {
		item := r.item(entry.Name)
		if item == nil {
			return nil
		}
		return r.loadArchive(ctx, item, archive)
	})
}

func (r *restore) item(source string) *restoreItem {
	at := slices.IndexFunc(r.items, func(item *restoreItem) bool { return item.source == source })
	if at < 0 {
		return nil
	}
	return r.items[at]
}

// execute runs a statement that cannot take parameters.
func execute(ctx context.Context, conn *pgx.Conn, statements string) error {
	_, err := conn.PgConn().Exec(ctx, statements).ReadAll()
	return err
}

func quote(name string) string { return pgsql.Identifier(name) }
