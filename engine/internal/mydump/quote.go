package mydump

import (
	"encoding/json"
	"strings"
)

// QuoteName quotes a name as an identifier.
func QuoteName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// optionEscapes are what option files understand inside double quotes.
var optionEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\b", `\b`)

// OptionValue quotes a value for an option file of the client programs.
func OptionValue(value string) string { return `"` + optionEscapes.Replace(value) + `"` }

// headerPrefix begins the first line of every artifact of Holdfast's.
const headerPrefix = "-- holdfast: "

// Header is the first line of an artifact, a comment to everybody else.
type Header struct {
	Version       int      `json:"version"`
	ServerVersion string   `json:"serverVersion"`
	ToolVersion   string   `json:"toolVersion"`
	Databases     []string `json:"databases"`
	// Several says that the script creates its databases and changes between them, as --databases makes it do.
	Several bool `json:"several,omitempty"`
	// Accounts says that the script begins with the server's accounts and their grants.
	Accounts bool `json:"accounts,omitempty"`
}

// Line of the header, with its line break.
func (h Header) Line() (string, error) {
	raw, err := json.Marshal(h) // which escapes line breaks
	return headerPrefix + string(raw) + "\n", err
}

// ParseHeader reads the header off the beginning of a script. There is none in a script that somebody else wrote.
func ParseHeader(head []byte) (header Header, ok bool) {
	line, _, whole := strings.Cut(string(head), "\n")
	rest, ours := strings.CutPrefix(line, headerPrefix)
	return header, ours && whole && json.Unmarshal([]byte(rest), &header) == nil
}

// CommentedDatabase is the database that a dump program's first comment names, or none.
func CommentedDatabase(head []byte) string {
	for line := range strings.Lines(string(head[:min(len(head), 4096)])) {
		if _, name, found := strings.Cut(strings.TrimRight(line, "\r\n"), "    Database: "); found && strings.HasPrefix(line, "-- Host: ") {
			return name
		}
	}
	return ""
}
