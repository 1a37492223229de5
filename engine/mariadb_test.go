package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-dev/holdfast/engine/internal/mydump"
)

func checkMy(script string) error {
	return mariaDB{}.Check(context.Background(), nil, formatMySQLDump, strings.NewReader(script))
}

func TestMariaDBScriptsThatAreRefused(t *testing.T) {
	for _, script := range []string{
		"DROP DATABASE x;", "CREATE USER x;", "GRANT ALL ON *.* TO x;", "SET GLOBAL a = 1;", "SET PASSWORD = 'x';", "SET @@global.a = 1;", "SET PERSIST a = 1;",
		"INSERT INTO other.t VALUES (1);", "CREATE TABLE other.t (i INT);", "CREATE TABLE IF NOT EXISTS `other`.`t` (i INT);", "DROP TABLE other.t;",
		"CREATE FUNCTION f RETURNS INT SONAME 'x.so';", "USE a; CREATE TABLE t (i INT); USE b;", "CREATE DATABASE a; CREATE DATABASE b;", "LOAD DATA INFILE 'x' INTO TABLE t;",
		"SELECT 1 INTO OUTFILE 'x';", "INSTALL PLUGIN x SONAME 'x.so';", "mysqldump: [Warning] Using a password on the command line;", "CHANGE MASTER TO x = 1;",
		"SHUTDOWN;", "CALL p();", "/*!50003 DROP DATABASE x */;", "SET ROLE x;", "system rm;", "\\! rm;",
	} {
		err := checkMy(script)
		if e, ok := errors.AsType[*Error](err); !ok || e.Reason != ReasonFormatNotRecognised || e.Retryable {
			t.Errorf("%q: %v", script, err)
		}
	}
}

func TestMariaDBScriptsThatAreTaken(t *testing.T) {
	for _, script := range []string{
		"CREATE TABLE t (i INT); INSERT INTO t VALUES (1);", "CREATE DATABASE /*!32312 IF NOT EXISTS*/ `a` /*!40100 DEFAULT CHARACTER SET utf8mb4 */; USE `a`; CREATE TABLE t (i INT);",
		"SET @@GLOBAL.GTID_PURGED='x:1-5'; CREATE TABLE t (i INT);", "SET @@SESSION.SQL_LOG_BIN= 0; CREATE TABLE t (i INT);", "LOCK TABLES t WRITE; UNLOCK TABLES;",
		"CREATE SEQUENCE s; DO SETVAL(`s`, 5, 0); SELECT SETVAL(`s`, 5, 0);", "ALTER DATABASE `x` CHARACTER SET latin1 COLLATE latin1_bin ;",
		"/*!50001 CREATE ALGORITHM=UNDEFINED */ /*!50013 DEFINER=`a`@`b` SQL SECURITY DEFINER */ /*!50001 VIEW `v` AS select 1 */;",
	} {
		if err := checkMy(script); err != nil {
			t.Errorf("%q: %v", script, err)
		}
	}
	for _, empty := range []string{"", "-- nothing\n"} {
		if checkMy(empty) == nil {
			t.Errorf("%q passes", empty)
		}
	}
}

// An artifact of ours that lacks one of its databases, or holds another, is no whole one.
func TestMariaDBArtifactAndItsFirstLine(t *testing.T) {
	line, err := mydump.Header{Version: 1, Databases: []string{"a", "b"}, Several: true}.Line()
	if err != nil {
		t.Fatal(err)
	}
	const end = "-- Dump completed\n"
	if err := checkMy(line + "USE `a`;\nUSE `b`;\n" + end); err != nil {
		t.Error(err)
	}
	for _, body := range []string{"USE `a`;\n" + end, "USE `a`;\nUSE `b`;\n", "USE `a`;\nUSE `b`;\nUSE `c`;\n" + end, "GRANT a TO b;\nUSE `a`;\nUSE `b`;\n" + end} {
		if err := checkMy(line + body); err == nil {
			t.Errorf("%q passes", body)
		}
	}
	if err := checkMy(strings.Replace(line, `"version":1`, `"version":9`, 1) + end); err == nil {
		t.Error("another version passes")
	}
}

func TestMariaDBSniff(t *testing.T) {
	for head, want := range map[string]bool{
		"-- MariaDB dump 10.19\nCREATE TABLE t (i INT);\n": true, "/*M!999999\\- enable the sandbox mode */ \n-- MySQL dump\n/*!40101 SET NAMES utf8 */;": true,
		"INSERT INTO t VALUES (1,'" + strings.Repeat("x", 70<<10): true, "PGDMP": false, "--\n-- PostgreSQL database dump\n--\nSET a = 1;": false, "<html>;": false,
		"hello world;": false, "": false, "CREATE TABLE t (i INT)\x00;": false,
	} {
		if _, got := (mariaDB{}).Sniff([]byte(head)); got != want {
			t.Errorf("%.40q: %v", head, got)
		}
	}
}

func TestDefiners(t *testing.T) {
	for statement, want := range map[string]string{
		"CREATE DEFINER=`ro``ot`@`lo%` VIEW v AS SELECT 1": "ro`ot lo%|CREATE  VIEW v AS SELECT 1", "CREATE DEFINER=root@localhost VIEW v AS SELECT 1": "root localhost|CREATE  VIEW v AS SELECT 1",
		"CREATE DEFINER='a'@'b' FUNCTION f () RETURNS INT RETURN 1": "a b|CREATE  FUNCTION f () RETURNS INT RETURN 1",
		"CREATE DEFINER=root@`h` VIEW v AS SELECT 1":                "root h|CREATE  VIEW v AS SELECT 1", "CREATE DEFINER=`role` VIEW v AS SELECT 1": "role |CREATE  VIEW v AS SELECT 1",
		"/*!50013 DEFINER=`a`@`b` SQL SECURITY DEFINER */": "a b|/*!50013  SQL SECURITY DEFINER */",
	} {
		tokens := mydump.Tokens([]byte(statement))
		d, ok := definerOf(tokens)
		if got := d.user + " " + d.host + "|" + string(withoutDefiner([]byte(statement), tokens)); !ok || got != want {
			t.Errorf("%s: %q (%v)", statement, got, ok)
		}
	}
	if _, ok := definerOf(mydump.Tokens([]byte("CREATE DEFINER=CURRENT_USER VIEW v AS SELECT 1"))); ok {
		t.Error("the current user is taken for an account")
	}
}

func TestGrants(t *testing.T) {
	var grants myGrants
	for _, line := range []string{"GRANT USAGE ON *.* TO `u`@`%`", "GRANT SELECT, SHOW VIEW, INSERT (`a`, `b`), EVENT ON `shop\\_%`.* TO `u`@`%`", "GRANT SELECT ON `mysql`.`proc` TO `u`@`%`",
		"GRANT `role` TO `u`@`%`", "GRANT EXECUTE ON PROCEDURE `shop_1`.`p` TO `u`@`%`"} {
		if grant, ok := parseGrant(line); ok {
			grants = append(grants, grant)
		}
	}
	if got := grants.missing("shop_1", "SELECT", "SHOW VIEW", "TRIGGER", "EVENT", "INSERT", "EXECUTE"); !slices.Equal(got, []string{"TRIGGER", "INSERT", "EXECUTE"}) {
		t.Errorf("%q", got)
	}
	if len(grants.missing("shopX1", "SELECT")) == 0 || !grants.on("mysql", "proc", "SELECT") || grants.on("mysql", "global_priv", "SELECT") {
		t.Error("patterns and objects are not told apart")
	}
	all, _ := parseGrant("GRANT ALL PRIVILEGES ON *.* TO `u`@`%` IDENTIFIED BY PASSWORD '*1' WITH GRANT OPTION")
	if len(myGrants{all}.missing("x", restorePrivileges...)) > 0 {
		t.Error("ALL PRIVILEGES are not all")
	}
}

func TestMyPatterns(t *testing.T) {
	for _, c := range []struct {
		name, pattern string
		want          bool
	}{{"a", "*", true}, {"ab", "a_", true}, {"ab", `a\_`, false}, {"a_", `a\_`, true}, {"abc", "a%", true}, {"abc", "%c", true}, {"abc", "%d", false}, {"", "%", true}, {"a", "", false}, {"a", "ab", false}} {
		if got := matchesPattern(c.name, c.pattern); got != c.want {
			t.Errorf("%q ~ %q: %v", c.name, c.pattern, got)
		}
	}
}

func TestMyToolVersions(t *testing.T) {
	server := myServer{version: "11.4.3", mariaDB: true}
	a := Access{Connection: Connection{Host: "db", Image: "some:image"}}
	for says, reason := range map[string]string{
		"mariadb-dump  Ver 10.19 Distrib 10.11.19-MariaDB, for debian-linux-gnu (x86_64)\n": ReasonClientTooOld, "mariadb-dump from 11.4.2-MariaDB, client 10.19 for Linux (x86_64)\n": "",
		"mariadb-dump from 11.8.0-MariaDB, client 10.19 for Linux (x86_64)\n": "", "mysqldump  Ver 8.0.36 for Linux on x86_64 (MySQL Community Server - GPL)\n": ReasonClientMissing,
	} {
		a.Tools = fakeTools{func(c Command) error {
			_, err := io.WriteString(c.Stdout, says)
			return err
		}}
		_, err := a.findMyTool(t.Context(), server)
		e, _ := errors.AsType[*Error](err)
		if (e == nil) != (reason == "") || e != nil && (e.Reason != reason || !strings.Contains(e.Message, "mariadb:11.4")) {
			t.Errorf("%q: %v", says, err)
		}
	}
	a.Tools = fakeTools{func(Command) error { return fmt.Errorf("x: %w", exec.ErrNotFound) }}
	if e, ok := errors.AsType[*Error](second(a.findMyTool(t.Context(), server))); !ok || e.Reason != ReasonClientMissing {
		t.Error(e)
	}
}

func second[A any](_ A, err error) error { return err }

func TestMyErrors(t *testing.T) {
	a := Access{Connection: Connection{Host: "db", Port: 3306}, Username: "u"}
	for number, want := range map[uint16]struct {
		reason    string
		retryable bool
	}{
		1045: {ReasonAuthenticationFailed, false}, 3159: {ReasonAuthenticationFailed, false}, 1130: {ReasonAuthenticationFailed, false}, 1049: {ReasonDatabaseNotFound, false},
		1044: {ReasonPermissionDenied, false}, 1142: {ReasonPermissionDenied, false}, 1227: {ReasonPermissionDenied, false}, 1040: {ReasonServerUnreachable, true},
		1053: {ReasonServerUnreachable, true}, 1205: {ReasonServerUnreachable, true},
	} {
		// the words are in a language that nobody here reads
		err := a.myError("orders", fmt.Errorf("wrapped: %w", &mysql.MySQLError{Number: number, Message: "ошибка"}))
		if e, ok := errors.AsType[*Error](err); !ok || e.Reason != want.reason || e.Retryable != want.retryable || !strings.Contains(e.Message, "db:3306") {
			t.Errorf("%d: %+v", number, err)
		}
	}
}

func TestAccountsOfStatements(t *testing.T) {
	for statement, want := range map[string]string{
		"CREATE USER IF NOT EXISTS `a``b`@`10.%` IDENTIFIED BY PASSWORD '*1'": "a`b@10.%", "CREATE ROLE IF NOT EXISTS `r`": "r",
		"GRANT SELECT ON `to`.* TO `a`@`%` WITH GRANT OPTION": "a@%", "GRANT `r` TO `a`@`%`": "a@%", "SET DEFAULT ROLE `r` FOR `a`@`%`": "a@%", "GRANT USAGE ON *.* TO `r`": "r",
	} {
		if got := accountOf([]byte(statement)); got != want {
			t.Errorf("%s: %q", statement, got)
		}
	}
}
