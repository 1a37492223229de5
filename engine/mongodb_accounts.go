package engine

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/engine/internal/mongoarchive"
)

// Users and roles are in collections of the database admin, and in an archive of one database under names that begin with $.
// mongorestore merges them: those that the server has stay as they are.
var accountCollections = []string{"system.users", "system.roles", "system.version"}

const accountsOfDatabase = "$admin."

// accounts tells which users and roles of the artifact are restored, and why others are not.
func (r *mongoRestore) accounts() (route mongoarchive.Route, args []string, why string) {
	server, databases := r.heldAccounts()
	switch {
	case r.Options.OmitPrivileges || !server && databases == 0:
		return nil, nil, ""
	case server && !r.whole():
		return nil, nil, "users and roles of the artifact are left out, since they are of its whole server and spec.database.names chooses databases"
	case server:
		return routeAccounts("admin", ""), nil, ""
	case len(r.items) > 1:
		return nil, nil, "users and roles of the databases are left out: restore one of them, or a dump of a whole server"
	case r.items[0].source != r.items[0].target:
		return nil, nil, "users and roles are left out, since they are of database " + r.items[0].source
	}
	source := r.items[0].source
	return routeAccounts(source, accountsOfDatabase), []string{"--db=" + source, "--restoreDbUsersAndRoles"}, ""
}

// heldAccounts tells whether the artifact holds those of a server, and those of how many databases.
func (r *mongoRestore) heldAccounts() (server bool, databases int) {
	for _, c := range r.prelude.Collections {
		if c.Database == "admin" && c.Name == accountCollections[0] {
			server = true
		}
		if c.Name == accountsOfDatabase+accountCollections[0] {
			databases++
		}
	}
	return server, databases
}

// routeAccounts lets users and roles through, and nothing else.
func routeAccounts(database, prefix string) mongoarchive.Route {
	return func(c mongoarchive.Collection) (mongoarchive.Namespace, bool) {
		name, ok := strings.CutPrefix(c.Name, prefix)
		return c.Namespace(), ok && c.Database == database && slices.Contains(accountCollections, name)
	}
}

// mayMakeAccounts fails before anything is touched where the user may not make what the artifact holds.
func (r *mongoRestore) mayMakeAccounts(ctx context.Context) error {
	route, args, _ := r.accounts()
	if route == nil {
		return nil
	}
	privileges, err := r.privileges(ctx)
	if err != nil {
		return err
	}
	database := "admin"
	if len(args) > 0 {
		database = r.items[0].target
	}
	return r.need(privileges, database, "", "restore, or set spec.options.privileges to Omit, which leaves users and roles out", "createUser", "createRole")
}

// loadAccounts restores users and roles.
func (r *mongoRestore) loadAccounts(ctx context.Context) error {
	route, args, why := r.accounts()
	if why != "" {
		r.notes = append(r.notes, why)
	}
	if route == nil {
		return nil
	}
	err := r.feed(ctx, &mongoarchive.Rewrite{Route: route}, args)
	if failed, ok := errors.AsType[*ToolError](err); ok && strings.Contains(strings.Join(failed.Stderr, "\n"), "no such command: '_mergeAuthzCollections'") {
		r.notes = append(r.notes, "users and roles of the artifact are left out, since the server has no command to restore them by")
		return nil
	}
	return err
}
