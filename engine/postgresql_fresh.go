package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/engine/internal/pgsql"
)

// createFresh creates the database that an archive is loaded into, with the encoding and the locale that it had; where
// the dump does not say, with those of the database that is replaced.
func (r *restore) createFresh(ctx context.Context, item *restoreItem) error {
	if err := r.findTablespaces(ctx, item); err != nil {
		return err
	}
	statement, err := r.createStatement(ctx, item)
	if err != nil {
		return err
	}
	err = execute(ctx, r.admin, statement)
	if hasCode(err, codeBadValue, codeWrongObject, codeNoSuchObject, codeNotPossible, "42601") {
		r.notef("database %s has the server's default locale, since the server could not give it the dump's (%v)", item.target, err)
		plain := "CREATE DATABASE " + quote(item.fresh) + " TEMPLATE template0"
		if item.info.encoding != "" {
			plain += " ENCODING " + pgsql.Literal(item.info.encoding)
		}
		err = execute(ctx, r.admin, plain)
	}
	if hasCode(err, codeNoPrivilege) {
		return Permanent(ReasonPermissionDenied, "user %q may not create databases on %s: ALTER ROLE %s CREATEDB: %w",
			r.Username, r.where(), quote(r.Username), err)
	}
	if err != nil {
		return Transient(ReasonRestoreToolFailed, "database %s cannot be created on %s: %w", item.fresh, r.where(), err)
	}
	return r.giveOwner(ctx, item)
}

// giveOwner gives the fresh database its owner before it is loaded: the schema public belongs to whoever owns the
// database, and others than superusers can make objects over to that owner only where that role may create them.
func (r *restore) giveOwner(ctx context.Context, item *restoreItem) error {
	owner := item.info.owner
	if r.Options.OmitOwnership || owner == "" && !item.exists {
		return nil
	}
	if owner == "" {
		const query = `SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = $1`
		if err := r.admin.QueryRow(ctx, query, item.target).Scan(&owner); err != nil {
			return r.queryError(err)
		}
	}
	return r.applyAll(ctx, item, []string{"ALTER DATABASE " + quote(item.fresh) + " OWNER TO " + quote(owner)})
}

// createStatement is the dump's own statement under another name, which pg_dump writes for the server's version.
func (r *restore) createStatement(ctx context.Context, item *restoreItem) (string, error) {
	if create := item.info.create; create != "" {
		statement := pgsql.RenameDatabase(create, item.info.name, item.fresh)
		if item.info.missingTablespace {
			statement, _, _ = strings.Cut(statement, " TABLESPACE = ")
		}
		return statement, nil
	}
	statement := "CREATE DATABASE " + quote(item.fresh) + " TEMPLATE template0"
	if !item.exists {
		if item.info.encoding != "" {
			statement += " ENCODING " + pgsql.Literal(item.info.encoding)
		}
		return statement, nil
	}
	var encoding, collate, ctype string
	const query = `SELECT pg_encoding_to_char(encoding), coalesce(datcollate, ''), coalesce(datctype, '') FROM pg_database WHERE datname = $1`
	if err := r.admin.QueryRow(ctx, query, item.target).Scan(&encoding, &collate, &ctype); err != nil {
		return "", r.queryError(err)
	}
	return statement + " ENCODING " + pgsql.Literal(encoding) + " LC_COLLATE " + pgsql.Literal(collate) +
		" LC_CTYPE " + pgsql.Literal(ctype), nil
}

// findTablespaces notes when the dump speaks of tablespaces that the server lacks: everything then goes to the default.
func (r *restore) findTablespaces(ctx context.Context, item *restoreItem) error {
	missing, err := r.missing(ctx, "SELECT spcname FROM pg_tablespace", sortedKeys(item.info.tablespaces))
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		item.info.missingTablespace = true
		r.notef("database %s lies in the default tablespace alone, since the server lacks tablespaces of the dump: %s",
			item.target, strings.Join(missing, ", "))
	}
	return nil
}

// checkFresh looks whether all that the table of contents names is there, and gathers the planner's statistics, so
// that the first queries after the swap are planned well.
func (r *restore) checkFresh(ctx context.Context, item *restoreItem) error {
	conn, err := r.connect(ctx, item.fresh)
	if err != nil {
		return err
	}
	defer closeConn(conn)
	var schemas, names []string
	for _, relation := range item.info.relations {
		if item.info.encoding == "UTF8" || isASCII(relation.schema+relation.name) {
			schemas, names = append(schemas, relation.schema), append(names, relation.name)
		}
	}
	var (
		missing *string
		lacking int
		objects int
	)
	const query = `SELECT min(format('%I.%I', w.s, w.n)), count(*), (SELECT count(*) FROM pg_largeobject_metadata)
		FROM unnest($1::text[], $2::text[]) w(s, n) WHERE NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n
			ON n.oid = c.relnamespace WHERE n.nspname = w.s AND c.relname = w.n)`
	if err := conn.QueryRow(ctx, query, schemas, names).Scan(&missing, &lacking, &objects); err != nil {
		return r.queryError(err)
	}
	if lacking > 0 {
		return Transient(ReasonRestoreIncomplete, "%d tables, sequences or views of the dump are not in the restored database, for example %s",
			lacking, *missing)
	}
	if objects < item.info.largeObjects {
		return Transient(ReasonRestoreIncomplete, "the restored database has %d large objects, the dump %d", objects, item.info.largeObjects)
	}
	return r.analyze(ctx, conn, item)
}

// analyze gathers statistics. The data is whole without them, and autovacuum gathers them later, so a function of the
// user's that fails in it fails no restore.
func (r *restore) analyze(ctx context.Context, conn *pgx.Conn, item *restoreItem) error {
	if err := execute(ctx, conn, "RESET search_path"); err != nil {
		return r.queryError(err)
	}
	if err := execute(ctx, conn, "ANALYZE"); err != nil {
		if _, refused := errors.AsType[*pgconn.PgError](err); !refused {
			return r.queryError(err)
		}
		r.notef("ANALYZE of database %s failed, run it by hand for good plans: %v", item.target, err)
	}
	return nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// applyProperties gives the fresh database what belongs to the database itself: its settings and limits and the grants
// on it. It comes last, because settings such as a read-only default would hinder the load.
func (r *restore) applyProperties(ctx context.Context, item *restoreItem) error {
	info := item.info
	if info.create == "" {
		if item.exists {
			return r.inheritProperties(ctx, item)
		}
		return nil
	}
	var statements []string
	if info.privileges != "" && !r.Options.OmitPrivileges {
		statements = append(statements, info.privileges)
	}
	if info.properties != "" {
		statements = append(statements, info.properties)
	}
	for i, statement := range statements {
		statements[i] = pgsql.RenameDatabase(statement, info.name, item.fresh)
	}
	return r.applyAll(ctx, item, statements)
}

func (r *restore) applyAll(ctx context.Context, item *restoreItem, statements []string) error {
	for _, statement := range statements {
		err := execute(ctx, r.admin, statement)
		if hasCode(err, codeNoPrivilege) {
			return Permanent(ReasonPermissionDenied, "user %q may not give database %s what it had in the dump (%s): %w: grant it, "+
				"use a superuser, or set spec.options.ownership and spec.options.privileges to Omit", r.Username, item.target, oneLine(statement), err)
		}
		if err != nil {
			return Permanent(ReasonRestoreToolFailed, "database %s cannot be given what it had in the dump (%s): %w", item.target, oneLine(statement), err)
		}
	}
	return nil
}

func oneLine(statement string) string {
	return strings.Join(strings.Fields(statement), " ")
}

// inheritProperties takes connection limit, settings, grants and comment from the database that is replaced: a dump
// without them, such as a script, is of its contents alone.
func (r *restore) inheritProperties(ctx context.Context, item *restoreItem) error {
	statements := []string{}
	const query = `SELECT format(line, quote_ident($2)) FROM (
		SELECT 1 AS step, format('ALTER DATABASE %%s CONNECTION LIMIT = %s', datconnlimit) AS line
			FROM pg_database WHERE datname = $1 AND datconnlimit <> -1
		UNION ALL SELECT 2, CASE WHEN r.rolname IS NULL THEN format('ALTER DATABASE %%s SET %s TO %s', name, value)
				ELSE format('ALTER ROLE %s IN DATABASE %%s SET %s TO %s', replace(quote_ident(r.rolname), '%', '%%'), name, value) END
			FROM pg_database d JOIN pg_db_role_setting s ON s.setdatabase = d.oid LEFT JOIN pg_roles r ON r.oid = s.setrole
			CROSS JOIN LATERAL unnest(s.setconfig) setting
			CROSS JOIN LATERAL (SELECT quote_ident(split_part(setting, '=', 1)) AS name, replace(CASE
				WHEN split_part(setting, '=', 1) IN ('search_path', 'temp_tablespaces', 'local_preload_libraries',
					'session_preload_libraries', 'shared_preload_libraries', 'unix_socket_directories', 'DateStyle')
				THEN substr(setting, strpos(setting, '=') + 1)
				ELSE quote_literal(substr(setting, strpos(setting, '=') + 1)) END, '%', '%%') AS value) v
			WHERE d.datname = $1
		UNION ALL SELECT 3, 'REVOKE ALL ON DATABASE %s FROM PUBLIC' FROM pg_database WHERE datname = $1 AND datacl IS NOT NULL
		UNION ALL SELECT 4, format('GRANT %s ON DATABASE %%s TO %s%s', a.privilege_type,
				CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE replace(quote_ident(pg_get_userbyid(a.grantee)), '%', '%%') END,
				CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
			FROM pg_database d CROSS JOIN LATERAL aclexplode(d.datacl) a WHERE d.datname = $1 AND a.grantee <> d.datdba) lines ORDER BY step`
	rows, err := r.admin.Query(ctx, query, item.target, item.fresh)
	if err != nil {
		return r.queryError(err)
	}
	defer rows.Close()
	for rows.Next() {
		var statement string
		if err := rows.Scan(&statement); err != nil {
			return r.queryError(err)
		}
		statements = append(statements, statement)
	}
	if err := rows.Err(); err != nil {
		return r.queryError(err)
	}
	if err := r.inheritComment(ctx, item); err != nil {
		return err
	}
	return r.applyAll(ctx, item, statements)
}

// inheritComment keeps the comment of the replaced database for after the swap.
func (r *restore) inheritComment(ctx context.Context, item *restoreItem) error {
	var comment *string
	const query = `SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = $1`
	if err := r.admin.QueryRow(ctx, query, item.target).Scan(&comment); err != nil {
		return r.queryError(err)
	}
	if comment != nil {
		item.info.name = item.target
		item.info.comment = fmt.Sprintf("COMMENT ON DATABASE %s IS %s", quote(item.target), pgsql.Literal(*comment))
	}
	return nil
}
