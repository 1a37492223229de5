package engine

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/engine/internal/mydump"
)

// An artifact is one script, which the server's own client program restores by hand:
//
//	-- holdfast: {…}        what it holds, a comment to everybody else
//	CREATE USER …           the accounts, when the whole server was dumped
//	…                       what mariadb-dump wrote, in one transaction, so that all databases are of one moment
//	GRANT …                 the accounts' privileges, behind what they are on
//	-- Dump completed       the end marker
const headerVersion = 1

// dumpOptions of mariadb-dump. Locks for the load are left out, since Galera does not take them and a fresh database
// needs none.
var dumpOptions = []string{
	"--single-transaction", "--quick", "--opt", "--skip-add-locks", "--skip-lock-tables", "--routines", "--events", "--triggers", "--hex-blob",
	"--default-character-set=utf8mb4", "--set-charset", "--tz-utc", "--comments", "--dump-date", "--no-tablespaces", "--max-allowed-packet=1G",
}

// Dump writes what Probe found.
func (mariaDB) Dump(ctx context.Context, a Access, server Server, dump io.Writer) error {
	s, err := openMy(ctx, a)
	if err != nil {
		return err
	}
	defer s.close()
	info, err := s.server(ctx)
	if err != nil {
		return err
	}
	tool, err := a.findMyTool(ctx, info)
	if err != nil {
		return err
	}
	header := mydump.Header{Version: headerVersion, ServerVersion: server.Version, ToolVersion: server.ToolVersion,
		Databases: server.Databases, Several: len(a.Databases) != 1, Accounts: a.whole()}
	line, err := header.Line()
	if err != nil {
		return err
	}
	var accounts accounts
	if header.Accounts {
		if accounts, err = s.accounts(ctx); err != nil {
			return err
		}
	}
	begin := line + accounts.create
	if !header.Several {
		own, err := s.ofDatabase(ctx, server.Databases[0])
		if err != nil {
			return err
		}
		begin += own
	}
	if _, err := io.WriteString(dump, begin); err != nil {
		return err
	}
	if err := a.dumpMy(ctx, tool, header, dump); err != nil {
		return err
	}
	if !header.Accounts {
		return nil
	}
	_, err = io.WriteString(dump, accounts.grant+"-- Dump completed, accounts included\n")
	return err
}

// dumpMy runs the dump program. Several databases are dumped in one transaction.
func (a Access) dumpMy(ctx context.Context, tool myTool, header mydump.Header, dump io.Writer) error {
	args := dumpOptions
	if header.Several {
		args = append(slices.Clip(args), "--databases")
	}
	args = append(append(slices.Clip(args), "--"), header.Databases...)
	if err := a.runMyTool(ctx, tool.program, args, dump); err != nil {
		return a.myToolFailed(ctx, err)
	}
	return nil
}

// ofDatabase are the statements for what belongs to a database itself, which the dump program leaves out when it dumps
// a single one. They name no database, so that it can be restored under another name.
func (s *mySession) ofDatabase(ctx context.Context, name string) (string, error) {
	var charset, collation string
	const query = "SELECT DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE BINARY SCHEMA_NAME = ?"
	if err := s.scan(ctx, []any{&charset, &collation}, query, name); err != nil {
		return "", err
	}
	return fmt.Sprintf("ALTER DATABASE CHARACTER SET %s COLLATE %s;\n", charset, collation), nil
}

// accounts are the statements that make the server's users and roles, and those that grant what they have.
type accounts struct{ create, grant string }

// ownAccounts are made by the server itself.
const ownAccounts = "'mariadb.sys', 'PUBLIC', ''"

func (s *mySession) accounts(ctx context.Context) (accounts, error) {
	const isRole = "COALESCE(JSON_VALUE(Priv, '$.is_role'), '0') NOT IN ('0', 'false')"
	const query = "SELECT CONCAT(IF(" + isRole + ", 'ROLE ', 'USER '), '`', REPLACE(User, '`', '``'), '`', " +
		"IF(" + isRole + ", '', CONCAT('@`', REPLACE(Host, '`', '``'), '`'))) FROM mysql.global_priv " +
		"WHERE User NOT IN (" + ownAccounts + ") ORDER BY 1"
	found, err := s.strings(ctx, query)
	if err != nil {
		return accounts{}, s.myError("", err)
	}
	var create, grant bytes.Buffer
	create.WriteString("SET NAMES utf8mb4;\n")
	for _, each := range found {
		kind, name, _ := strings.Cut(each, " ")
		statement := "CREATE ROLE " + name
		if kind == "USER" {
			if err := s.scan(ctx, []any{&statement}, "SHOW CREATE USER "+name); err != nil {
				return accounts{}, err
			}
		}
		fmt.Fprintf(&create, "CREATE %s IF NOT EXISTS%s;\n", kind, strings.TrimPrefix(statement, "CREATE "+kind))
		lines, err := s.strings(ctx, "SHOW GRANTS FOR "+name)
		if err != nil {
			return accounts{}, s.myError("", err)
		}
		for _, line := range lines {
			fmt.Fprintf(&grant, "%s;\n", line)
		}
	}
	return accounts{create.String(), grant.String()}, nil
}
