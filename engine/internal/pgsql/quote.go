// Package pgsql reads and writes PostgreSQL's SQL as text: quoting, and just enough of the lexer to split a script
// into statements without running anything.
package pgsql

import "strings"

// Identifier quotes a name for SQL.
func Identifier(name string) string {
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// Literal quotes a text for SQL, whatever standard_conforming_strings says.
func Literal(text string) string {
	quoted := "'" + strings.ReplaceAll(text, "'", "''") + "'"
	if strings.Contains(text, `\`) {
		return " E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}

// ConnValue quotes a value of a libpq connection string: key='value'.
func ConnValue(value string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "'"
}

// PassfileLine is a line of a libpq password file that gives a password for every server. The password must hold no
// line break.
func PassfileLine(password string) string {
	return "*:*:*:*:" + strings.NewReplacer(`\`, `\\`, `:`, `\:`).Replace(password)
}
