package engine

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/engine/internal/mydump"
)

const oldestMariaDB = "10.6"

// myServer is what a server says of itself.
type myServer struct {
	version string
	mariaDB bool
}

// systemDatabases are the server's own. Their contents are its accounts, its time zones and views of its state.
var systemDatabases = []string{"mysql", "information_schema", "performance_schema", "sys"}

var temporaryDatabase = regexp.MustCompile(temporaryNames)

func (s *mySession) server(ctx context.Context) (myServer, error) {
	var says string
	if err := s.scan(ctx, []any{&says}, "SELECT VERSION()"); err != nil {
		return myServer{}, err
	}
	server := myServer{version: says, mariaDB: strings.Contains(says, "MariaDB")}
	server.version, _, _ = strings.Cut(server.version, "-")
	switch {
	case !server.mariaDB:
		return server, Permanent(ReasonServerNotSupported, "%s is not MariaDB but says of itself %q: check spec.database.engine, host and port",
			s.where(), says)
	case older(server.version, oldestMariaDB):
		return server, Permanent(ReasonServerNotSupported, "%s has MariaDB %s; Holdfast serves version %s and newer, whose RENAME TABLE is atomic",
			s.where(), server.version, oldestMariaDB)
	}
	return server, nil
}

// Probe looks at the server and the dump program.
func (mariaDB) Probe(ctx context.Context, a Access) (Server, error) {
	s, err := openMy(ctx, a)
	if err != nil {
		return Server{}, err
	}
	defer s.close()
	info, err := s.server(ctx)
	if err != nil {
		return Server{}, err
	}
	server := Server{Version: info.version, Format: formatMySQLDump}
	tool, err := a.findMyTool(ctx, info)
	if err != nil {
		return Server{}, err
	}
	server.ToolVersion = tool.version
	if server.Databases, err = s.databasesToDump(ctx); err != nil {
		return Server{}, err
	}
	err = s.look(ctx, &server)
	return server, err
}

// databases of the server, by their exact names.
func (s *mySession) databases(ctx context.Context) ([]string, error) {
	names, err := s.strings(ctx, "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA ORDER BY SCHEMA_NAME")
	if err != nil {
		return nil, s.myError("", err)
	}
	return names, nil
}

func (s *mySession) databasesToDump(ctx context.Context) ([]string, error) {
	there, err := s.databases(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range s.Databases {
		if slices.Contains(systemDatabases, strings.ToLower(name)) {
			return nil, Permanent(ReasonDatabaseNotConnectable, "database %q is the server's own, and is not dumped: leave it out of "+
				"spec.database.names. Accounts are in a dump of the whole server", name)
		}
		if !slices.Contains(there, name) {
			e := s.noDatabase(name)
			e.Message += fmt.Sprintf("; or user %q may not see it (GRANT SELECT, SHOW VIEW, TRIGGER, EVENT ON %s.* TO %s)", s.Username,
				mydump.QuoteName(name), s.account())
			return nil, e
		}
	}
	if !s.whole() {
		names := slices.Clone(s.Databases)
		slices.Sort(names)
		return names, nil
	}
	names := slices.DeleteFunc(there, func(name string) bool {
		return slices.Contains(systemDatabases, name) || temporaryDatabase.MatchString(name)
	})
	if len(names) == 0 {
		return nil, Permanent(ReasonDatabaseNotFound, "%s has no database to dump", s.where())
	}
	return names, nil
}

// look finds out what the dump will have of each database: the privileges, the size, and what is to be told.
func (s *mySession) look(ctx context.Context, server *Server) error {
	grants, err := s.grants(ctx)
	if err != nil {
		return err
	}
	if s.whole() && !grants.on("mysql", "global_priv", "SELECT") {
		return Permanent(ReasonPermissionDenied, "user %q lacks SELECT on the database mysql of %s, in which the accounts are: GRANT SELECT ON *.* TO %s, "+
			"or name the databases in spec.database.names", s.Username, s.where(), s.account())
	}
	var notes []string
	for _, name := range server.Databases {
		if err := s.mayDump(grants, name); err != nil {
			return err
		}
		var size int64
		if err := s.scan(ctx, []any{&size}, "SELECT COALESCE(SUM(DATA_LENGTH + INDEX_LENGTH), 0) FROM information_schema.TABLES WHERE TABLE_SCHEMA = ?",
			name); err != nil {
			return err
		}
		server.SizeBytes += size
		for _, each := range inconsistencies {
			tables, err := s.strings(ctx, each.query, name)
			if err != nil {
				return s.myError("", err)
			}
			if len(tables) > 0 {
				notes = append(notes, each.note+listed(name, tables))
			}
		}
	}
	server.Note = strings.Join(notes, "; ")
	return nil
}

// inconsistencies are what a dump in one transaction does not cover.
var inconsistencies = []struct{ note, query string }{
	{"these tables are not of the moment of the others, since their storage engine has no transactions (ALTER TABLE … ENGINE=InnoDB): ",
		`SELECT t.TABLE_NAME FROM information_schema.TABLES t LEFT JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE
			WHERE t.TABLE_SCHEMA = ? AND t.TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') AND COALESCE(e.TRANSACTIONS, 'NO') <> 'YES' ORDER BY 1`},
	{"the history of these system-versioned tables is not dumped, only their present rows: ",
		`SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_TYPE = 'SYSTEM VERSIONED' ORDER BY 1`},
}

// listed names the first few tables.
func listed(database string, tables []string) string {
	const shown = 5
	text := database + "." + strings.Join(tables[:min(shown, len(tables))], ", "+database+".")
	if len(tables) > shown {
		text += fmt.Sprintf(" and %d more", len(tables)-shown)
	}
	return text
}
