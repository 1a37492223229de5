//go:build e2e

package e2e

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

var (
	//go:embed testdata/mariadb/shop.sql
	mariaDBShop string
	//go:embed testdata/mariadb/content.sql
	mariaDBContent string
)

// mariaDBBroken is a dump whose last statement fails: half a restore is none.
const mariaDBBroken = "-- MariaDB dump 10.19  Distrib 10.11.6-MariaDB, for debian-linux-gnu (x86_64)\n--\n-- Host: localhost    Database: orders\n" +
	"-- ------------------------------------------------------\n-- Server version\t10.11.6-MariaDB\n\nCREATE TABLE half (id int);\n" +
	"INSERT INTO half VALUES (1);\nINSERT INTO nosuch_table VALUES (1);\n\n-- Dump completed on 2026-12-01  9:00:00\n"

// TestMariaDB is the main job of MariaDB, whole.
func TestMariaDB(t *testing.T) {
	runEngine(t, engineCase{
		kind: serverKind{
			engine: v1alpha1.EngineMariaDB, image: enginesImage, port: 3306, container: engineContainer("mariadb"),
			ping: []string{"mariadb", "--no-defaults", "--socket=/tmp/socket", "--user=root", "--execute=SELECT 1"},
		},
		setup: mysqlSetup,
		client: func(database string) []string {
			return []string{"mariadb", "--no-defaults", "--socket=/tmp/socket", "--user=root", "--batch", "--skip-column-names",
				"--default-character-set=utf8mb4", "--database=" + database}
		},
		orders: "orders", copy: "Orders `copy` é/%", wayBack: "way back",
		fill:    mariaDBShop,
		damage:  "DROP TABLE `empty ``table```; CREATE TABLE surplus (id int); DELETE FROM items WHERE id % 2; DROP VIEW paid; UPDATE items SET price = 0;",
		content: mariaDBContent,
		write: "START TRANSACTION; UPDATE counter_a SET n = n + 1; INSERT INTO written VALUES (NULL, REPEAT('x', 1000)); " +
			"UPDATE counter_b SET n = n + 1; COMMIT;",
		balance: "SELECT (SELECT n FROM counter_a), (SELECT n FROM counter_b);",
		broken:  []byte(mariaDBBroken), whyBroken: "RestoreToolFailed",
		failures: []backupFailure{
			{"no-such-database", withDatabase("nosuch"), v1alpha1.ReasonDumpFailed, "DatabaseNotFound", []string{"nosuch", "names"}},
		},
	})
}

// mysqlSetup makes the user, a statement a line. A server runs it at each start.
func mysqlSetup(user, password string) map[string]string {
	quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(password)
	return map[string]string{"setup": fmt.Sprintf("CREATE USER IF NOT EXISTS '%s'@'%%' IDENTIFIED BY '%s';\nGRANT ALL ON *.* TO '%s'@'%%' WITH GRANT OPTION;\n",
		user, quoted, user)}
}
