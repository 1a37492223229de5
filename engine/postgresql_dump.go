package engine

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

const oldestServer = 12

// lockWait bounds how long pg_dump waits for a lock that somebody holds, so that the message names the lock and not
// a deadline.
const lockWait = "--lock-wait-timeout=10min"

// temporaryNames matches the databases that restores make for a while. They belong to no dump.
const temporaryNames = `^holdfast_(new|old)_[0-9a-f]{12}(_[0-9]+)?$`

type serverInfo struct {
	version   string
	major     int
	superuser bool
}

func readServerInfo(ctx context.Context, conn *pgx.Conn) (serverInfo, error) {
	var (
		info   serverInfo
		number int
	)
	const query = `SELECT current_setting('server_version'), current_setting('server_version_num')::int,
		coalesce((SELECT rolsuper FROM pg_roles WHERE rolname = current_user), false)`
	if err := conn.QueryRow(ctx, query).Scan(&info.version, &number, &info.superuser); err != nil {
		return info, fmt.Errorf("ask the server for its version: %w", err)
	}
	info.version, _, _ = strings.Cut(info.version, " ")
	info.major = number / 10000
	return info, nil
}

func (a Access) supported(info serverInfo) error {
	if info.major >= oldestServer {
		return nil
	}
	return Permanent(ReasonServerNotSupported, "the server %s has PostgreSQL %s; Holdfast serves version %d and newer",
		a.where(), info.version, oldestServer)
}

// whole tells whether every database of the server is meant.
func (a Access) whole() bool { return len(a.Databases) == 0 }

// entryDatabases are those to connect to for questions about the server.
func (a Access) entryDatabases() []string {
	if a.whole() {
		return []string{"postgres", "template1"}
	}
	return a.Databases[:1]
}

// Probe looks at the server and the client programs before a dump.
func (postgreSQL) Probe(ctx context.Context, a Access) (Server, error) {
	conn, err := a.connectAny(ctx, a.entryDatabases()...)
	if err != nil {
		return Server{}, err
	}
	defer closeConn(conn)
	info, err := readServerInfo(ctx, conn)
	if err != nil {
		return Server{}, a.queryError(err)
	}
	if err := a.supported(info); err != nil {
		return Server{}, err
	}
	server := Server{Version: info.version, Format: formatPgDump}
	if server.ToolVersion, err = a.needTool(ctx, "pg_dump", info); err != nil {
		return Server{}, err
	}
	if len(a.Databases) != 1 {
		server.Format = formatPgCluster
	}
	if a.whole() {
		if _, err := a.needTool(ctx, "pg_dumpall", info); err != nil {
			return Server{}, err
		}
		if !info.superuser {
			server.Note = fmt.Sprintf("the roles are dumped without their passwords, since %q is no superuser", a.Username)
		}
	}
	server.Databases, server.SizeBytes, err = a.databasesToDump(ctx, conn)
	return server, err
}

// databasesToDump lists the databases and adds up their sizes as far as the user may know them.
func (a Access) databasesToDump(ctx context.Context, conn *pgx.Conn) (names []string, size int64, err error) {
	// A limit of -2 marks what an interrupted DROP DATABASE left, which nobody can connect to.
	const query = `SELECT datname, datallowconn AND datconnlimit <> -2,
			CASE WHEN has_database_privilege(oid, 'CONNECT') THEN pg_database_size(oid) ELSE 0 END
		FROM pg_database WHERE CASE WHEN $1 THEN datallowconn AND datconnlimit <> -2 AND NOT datistemplate AND datname !~ $3
			ELSE datname = ANY ($2::text[]) END ORDER BY datname`
	rows, err := conn.Query(ctx, query, a.whole(), a.Databases, temporaryNames)
	if err != nil {
		return nil, 0, a.queryError(err)
	}
	var (
		name   string
		allows bool
		bytes  int64
	)
	_, err = pgx.ForEachRow(rows, []any{&name, &allows, &bytes}, func() error {
		names, size = append(names, name), size+bytes
		if !allows {
			return a.notConnectable(name, errNotAllowed)
		}
		return nil
	})
	if err != nil {
		return nil, 0, a.queryError(err)
	}
	for _, wanted := range a.Databases {
		if !slices.Contains(names, wanted) {
			return nil, 0, Permanent(ReasonDatabaseNotFound, "%s has no database %q: check spec.database.names", a.where(), wanted)
		}
	}
	if len(names) == 0 {
		return nil, 0, Permanent(ReasonDatabaseNotFound, "%s has no database to dump", a.where())
	}
	return names, size, nil
}

// Dump writes one database as pg_dump writes it, or several as a pgcluster tar.
func (p postgreSQL) Dump(ctx context.Context, a Access, server Server, dump io.Writer) error {
	if server.Format == formatPgDump {
		return a.dumpDatabase(ctx, server.Databases[0], dump)
	}
	return a.dumpCluster(ctx, server, dump)
}

// dumpDatabase runs pg_dump. Its compression is off: ours has several cores and a checksum behind it.
func (a Access) dumpDatabase(ctx context.Context, database string, dump io.Writer) error {
	err := a.runTool(ctx, "pg_dump", database, []string{"--format=custom", "--compress=0", lockWait}, nil, dump)
	if err != nil {
		return a.toolFailed(ctx, database, ReasonDumpToolFailed, err)
	}
	return nil
}
