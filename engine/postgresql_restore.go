package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
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

// namePair says which database of an artifact is restored under which name.
type namePair struct{ source, target string }

// restoreNames pairs the databases of an artifact with those that are wanted.
func restoreNames(artifact Artifact, wanted []string) ([]namePair, error) {
	if artifact.Format == formatPgCluster {
		return clusterNames(artifact.Databases, wanted)
	}
	source := ""
	if len(artifact.Databases) > 0 {
		source = artifact.Databases[0]
	}
	switch {
	case len(wanted) == 1:
		return []namePair{{source, wanted[0]}}, nil
	case len(wanted) > 1:
		return nil, Permanent(ReasonInvalidTask, "the artifact holds one database, and spec.database.names has %d names: leave "+
			"one, the name that it is restored under", len(wanted))
	case source == "":
		return nil, Permanent(ReasonInvalidTask, "the artifact does not say of which database it is: set spec.database.names to "+
			"the one name that it is restored under")
	}
	return []namePair{{source, source}}, nil
}

func clusterNames(held, wanted []string) ([]namePair, error) {
	var pairs []namePair
	for _, name := range wanted {
		if !slices.Contains(held, name) {
			return nil, Permanent(ReasonDatabaseNotFound, "the artifact holds no database %q: it holds %q", name, held)
		}
	}
	for _, name := range held {
		if len(wanted) == 0 || slices.Contains(wanted, name) {
			pairs = append(pairs, namePair{name, name})
		}
	}
	return pairs, nil
}

// adminDatabases are those that a restore may be connected to while it replaces others.
func adminDatabases(pairs []namePair) []string {
	var names []string
	for _, name := range []string{"postgres", "template1"} {
		if !slices.ContainsFunc(pairs, func(p namePair) bool { return p.target == name }) {
			names = append(names, name)
		}
	}
	return names
}

// temporaryName of a database: kind is new or old.
func temporaryName(kind, uid string, index int) string {
	id := strings.ReplaceAll(strings.ToLower(uid), "-", "")
	name := "holdfast_" + kind + "_" + id[:min(12, len(id))]
	if index > 0 {
		name += fmt.Sprintf("_%d", index)
	}
	return name
}

// newRestore connects and looks at what is there. The caller closes it.
func newRestore(ctx context.Context, a Access, restoration Restoration) (*restore, error) {
	pairs, err := restoreNames(restoration.Artifact, a.Databases)
	if err != nil {
		return nil, err
	}
	if len(strings.ReplaceAll(a.UID, "-", "")) < 12 {
		return nil, Permanent(ReasonInvalidTask, "the task's object has no UID to name temporary databases by")
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

func (r *restore) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// targets names the databases for people.
func (r *restore) targets() string {
	var names []string
	for _, item := range r.items {
		names = append(names, item.target)
	}
	if len(names) == 1 {
		return "database " + names[0]
	}
	return "databases " + strings.Join(names, ", ")
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
			return "", r.untouched(err)
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
	if r.admin.IsClosed() || r.admin.PgConn().IsBusy() {
		conn, err := r.connect(ctx, r.adminDB)
		if err != nil {
			r.Log.Warn("could not drop what was loaded", "error", err.Error())
			return
		}
		closeConn(r.admin)
		r.admin = conn
	}
	if err := r.dropFresh(ctx); err != nil {
		r.Log.Warn("could not drop what was loaded", "error", err.Error())
	}
}

// untouched says so in the message of a failure before the swap.
func (r *restore) untouched(err error) error {
	was := " was not touched"
	if len(r.items) > 1 {
		was = " were not touched"
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return &Error{Reason: e.Reason, Message: e.Message + " (" + r.targets() + was + ")", Retryable: e.Retryable, cause: err}
	}
	return err
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

// loadArchive runs pg_restore, which stops at the first error. It does not run in one transaction: a transaction
// over thousands of tables or large objects runs out of locks, and a fresh database is thrown away as a whole anyway.
func (r *restore) loadArchive(ctx context.Context, item *restoreItem, archive io.Reader) error {
	args := []string{"--format=custom", "--exit-on-error"}
	if r.Options.OmitOwnership {
		args = append(args, "--no-owner")
	}
	if r.Options.OmitPrivileges {
		args = append(args, "--no-privileges")
	}
	if item.info.missingTablespace {
		args = append(args, "--no-tablespaces")
	}
	version, err := r.needTool(ctx, "pg_restore", r.server)
	if err != nil {
		return err
	}
	if majorOf(version) > r.server.major {
		err = r.loadAsScript(ctx, item, args, archive)
	} else {
		err = r.runTool(ctx, "pg_restore", item.fresh, args, archive, nil)
	}
	if failed, ok := errors.AsType[*ToolError](err); ok {
		return r.restoreToolFailed(ctx, item, failed)
	}
	if errors.Is(err, exec.ErrNotFound) {
		return Permanent(ReasonClientMissing, "image %s has no pg_restore: set spec.database.image to one that carries it", r.Image)
	}
	return err
}

// loadAsScript lets pg_restore write the archive as a script, which this program runs: a pg_restore that is newer than
// the server sets parameters that the server does not know (transaction_timeout, from 17 on) and would stop at them.
func (r *restore) loadAsScript(ctx context.Context, item *restoreItem, args []string, archive io.Reader) error {
	script, out := io.Pipe()
	written := make(chan error, 1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		err := r.Tools.Run(ctx, Command{Program: "pg_restore", Args: append(args, "--file=-"), Stdin: archive, Stdout: out})
		out.CloseWithError(err)
		written <- err
	}()
	err := r.loadScript(ctx, item, script)
	script.CloseWithError(err)
	if err != nil {
		cancel(err)
	}
	wrote := <-written
	if _, failed := errors.AsType[*ToolError](wrote); failed && (err == nil || errors.Is(err, wrote)) {
		return wrote
	}
	return err
}

func (r *restore) restoreToolFailed(ctx context.Context, item *restoreItem, failed *ToolError) error {
	text := strings.Join(failed.Stderr, "\n")
	if role := missingRolePattern.FindStringSubmatch(text); role != nil {
		return roleMissing([]string{role[1]})
	}
	err := r.toolFailed(ctx, item.fresh, ReasonRestoreToolFailed, failed)
	if e, ok := errors.AsType[*Error](err); ok && e.Reason != ReasonServerUnreachable {
		return Permanent(ReasonRestoreToolFailed, "the dump cannot be restored: %w", failed)
	}
	return err
}

// ProbeTarget looks at the server and the client programs before a restore.
func (postgreSQL) ProbeTarget(ctx context.Context, a Access, artifact Artifact) (Target, error) {
	r, err := newRestore(ctx, a, Restoration{Artifact: artifact})
	if err != nil {
		return Target{}, err
	}
	defer r.close()
	if err := a.supported(r.server); err != nil {
		return Target{}, err
	}
	target := Target{Version: r.server.version}
	if target.ToolVersion, err = a.needRestoreTool(ctx, r.server, artifact); err != nil {
		return Target{}, err
	}
	for _, item := range r.items {
		target.Databases = append(target.Databases, item.target)
		if item.exists {
			target.Existing = append(target.Existing, item.target)
		}
	}
	if err := r.mayRestore(ctx); err != nil {
		return Target{}, err
	}
	return target, r.obstacles(ctx)
}

// needRestoreTool wants a pg_restore no older than the server and the pg_dump that wrote the artifact. A script needs
// no client program: this program itself runs it.
func (a Access) needRestoreTool(ctx context.Context, server serverInfo, artifact Artifact) (string, error) {
	if artifact.Format == formatSQL {
		return "", nil
	}
	version, err := a.needTool(ctx, "pg_restore", server)
	if err != nil {
		return "", err
	}
	if wrote := majorOf(artifact.ToolVersion); majorOf(version) < wrote {
		return "", Permanent(ReasonClientTooOld, "pg_restore of image %s has version %s, and the artifact was written by pg_dump %s: "+
			"set spec.database.image to postgres:%d or another image with client programs of version %d or newer",
			a.Image, version, artifact.ToolVersion, wrote, wrote)
	}
	return version, nil
}

// majorOf a version such as 15.18; 0 when there is none.
func majorOf(version string) int {
	major := 0
	for _, c := range version {
		if c < '0' || c > '9' {
			break
		}
		major = major*10 + int(c-'0')
	}
	return major
}

// execute runs a statement that cannot take parameters.
func execute(ctx context.Context, conn *pgx.Conn, statements string) error {
	_, err := conn.PgConn().Exec(ctx, statements).ReadAll()
	return err
}

func quote(name string) string { return pgsql.Identifier(name) }
