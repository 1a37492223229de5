package engine

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/engine/internal/pgarchive"
	"github.com/holdfast-dev/holdfast/engine/internal/pgsql"
)

// dumpInfo is what a restore must know of an archive beforehand: what belongs to the database itself, who owns things
// and what must be there afterwards.
type dumpInfo struct {
	name     string // of the database that was dumped
	encoding string
	// Statements about the database itself, as pg_dump wrote them.
	create, properties, privileges, comment string
	owner                                   string

	owners, grantees, tablespaces map[string]bool
	relations                     []relation
	largeObjects                  int
	missingTablespace             bool
}

type relation struct{ schema, name string }

// relationKinds are the kinds of TOC entries that become a row of pg_class.
var relationKinds = []string{"TABLE", "SEQUENCE", "VIEW", "MATERIALIZED VIEW", "FOREIGN TABLE"}

func newDumpInfo(name string) dumpInfo {
	return dumpInfo{name: name, owners: map[string]bool{}, grantees: map[string]bool{}, tablespaces: map[string]bool{}}
}

// entry takes one entry of an archive's table of contents.
func (d *dumpInfo) entry(e pgarchive.Entry) {
	if e.Owner != "" {
		d.owners[e.Owner] = true
	}
	if e.Tablespace != "" && e.Tablespace != "pg_default" {
		d.tablespaces[e.Tablespace] = true
	}
	switch {
	case slices.Contains(relationKinds, e.Desc):
		d.relations = append(d.relations, relation{e.Namespace, e.Tag})
	case e.Desc == "BLOB" || e.Desc == "BLOB METADATA":
		d.largeObjects += largeObjectsOf(e.Tag)
	case e.Desc == "ENCODING":
		d.encoding = lastString(e.Defn)
	case e.Desc == "DATABASE":
		d.create, d.owner, d.name = e.Defn, e.Owner, e.Tag
	case e.Desc == "DATABASE PROPERTIES":
		d.properties = e.Defn
	case e.Desc == "COMMENT" && strings.HasPrefix(e.Tag, "DATABASE "):
		d.comment = e.Defn
	case e.Desc == "ACL" || e.Desc == "DEFAULT ACL":
		d.access(e)
	}
}

func (d *dumpInfo) access(e pgarchive.Entry) {
	if strings.HasPrefix(e.Tag, "DATABASE ") {
		d.privileges = e.Defn
	}
	for _, role := range pgsql.Roles(e.Defn) {
		d.grantees[role] = true
	}
}

// largeObjectsOf an entry, whose tag is one number or, from PostgreSQL 17 on, a range of them that may have holes.
func largeObjectsOf(tag string) int {
	first, last, ranged := strings.Cut(tag, "..")
	if !ranged {
		return 1
	}
	_, err1 := strconv.Atoi(first)
	_, err2 := strconv.Atoi(last)
	if err1 != nil || err2 != nil {
		return 1
	}
	return 2 // the two ends exist
}

func lastString(statement string) string {
	value := ""
	for _, token := range pgsql.Tokens(statement) {
		if token.Kind == pgsql.String {
			value = strings.Trim(token.Text, "'")
		}
	}
	return value
}

// readInfo reads the tables of contents of the artifact. A pgcluster is read whole for it, and so checked once more
// before anything is created.
func (r *restore) readInfo(ctx context.Context) error {
	dump, err := r.Artifact.Open()
	if err != nil {
		return err
	}
	defer func() { _ = dump.Close() }()
	switch r.Artifact.Format {
	case formatPgDump:
		return r.items[0].readTOC(dump)
	case formatSQL:
		r.items[0].info = newDumpInfo("")
		return nil
	}
	return r.readClusterInfo(ctx, dump)
}

func (r *restore) readClusterInfo(ctx context.Context, dump io.Reader) error {
	keep := func(script []byte) error {
		r.roles = bytes.Clone(script)
		return nil
	}
	return walkClusterRoles(dump, keep, func(entry clusterEntry, archive io.Reader) error {
		item := r.item(entry.Name)
		if item == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		return item.readTOC(archive)
	})
}

// readTOC reads an archive's table of contents. One of a newer version says nothing here.
func (item *restoreItem) readTOC(dump io.Reader) error {
	item.info = newDumpInfo(item.source)
	lead := make([]byte, len(pgarchive.Magic)+3)
	n, err := io.ReadFull(dump, lead)
	if err != nil {
		return fmt.Errorf("read the archive's header: %w", err)
	}
	if pgarchive.Newer(lead) {
		return nil
	}
	archive, err := pgarchive.NewReader(io.MultiReader(bytes.NewReader(lead[:n]), dump))
	if err != nil {
		return err
	}
	item.info.name = archive.Header.Database
	return archive.ReadTOC(item.info.entry)
}

func sortedKeys(set map[string]bool) []string {
	var keys []string
	for key := range set {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// roleMissing says which roles the server lacks.
func roleMissing(roles []string) *Error {
	var create []string
	for _, role := range roles[:min(len(roles), 5)] {
		create = append(create, "CREATE ROLE "+quote(role))
	}
	return Permanent(ReasonRoleMissing, "the dump speaks of roles that the server lacks: %s: create them (%s), or, where they are but "+
		"owners and grantees, set spec.options.ownership and spec.options.privileges to Omit (row-level policies need their roles "+
		"all the same)", strings.Join(roles, ", "), strings.Join(create, "; "))
}

// needRoles fails when owners or grantees of the dump are no roles of the server.
func (r *restore) needRoles(ctx context.Context) error {
	wanted := map[string]bool{}
	for _, item := range r.items {
		if !r.Options.OmitOwnership {
			for role := range item.info.owners {
				wanted[role] = true
			}
		}
		if !r.Options.OmitPrivileges {
			for role := range item.info.grantees {
				wanted[role] = true
			}
		}
	}
	missing, err := r.missing(ctx, "SELECT rolname FROM pg_roles", sortedKeys(wanted))
	if err != nil || len(missing) == 0 {
		return err
	}
	return roleMissing(missing)
}

// missing returns those of wanted that a query does not list.
func (r *restore) missing(ctx context.Context, query string, wanted []string) ([]string, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	rows, err := r.admin.Query(ctx, `SELECT name FROM unnest($1::text[]) name WHERE name NOT IN (`+query+`)`, wanted)
	if err != nil {
		return nil, r.queryError(err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, r.queryError(err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		return nil, r.queryError(err)
	}
	return names, nil
}
