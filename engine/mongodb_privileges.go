package engine

import (
	"context"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// mongoPrivileges are what a user may do; not known where the server does not tell.
type mongoPrivileges struct {
	known bool
	list  []mongoPrivilege
}

type mongoPrivilege struct {
	Resource struct {
		Database   *string `bson:"db"`
		Collection *string `bson:"collection"`
		Any        bool    `bson:"anyResource"`
	} `bson:"resource"`
	Actions []string `bson:"actions"`
}

// privileges asks what the user may do.
func (s *mongoSession) privileges(ctx context.Context) (mongoPrivileges, error) {
	var answer struct {
		Info struct {
			Privileges *[]mongoPrivilege `bson:"authenticatedUserPrivileges"`
		} `bson:"authInfo"`
	}
	err := s.command(ctx, "admin", bson.D{{Key: "connectionStatus", Value: 1}, {Key: "showPrivileges", Value: true}}, &answer)
	if err != nil || answer.Info.Privileges == nil {
		return mongoPrivileges{}, err
	}
	return mongoPrivileges{known: true, list: *answer.Info.Privileges}, nil
}

// covers tells whether a privilege is for a collection, or for all of a database's but its system's where none is named.
func (p mongoPrivilege) covers(database, collection string) bool {
	r := p.Resource
	switch {
	case r.Any:
		return true
	case r.Database == nil || r.Collection == nil:
		return false
	case *r.Database != "" && *r.Database != database:
		return false
	case *r.Collection == "":
		return !strings.HasPrefix(collection, "system.")
	}
	return *r.Collection == collection
}

// lacks returns those of some actions that the user may not do.
func (p mongoPrivileges) lacks(database, collection string, actions ...string) []string {
	if !p.known {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(actions), func(action string) bool {
		return slices.ContainsFunc(p.list, func(each mongoPrivilege) bool {
			return each.covers(database, collection) && (slices.Contains(each.Actions, action) || slices.Contains(each.Actions, "anyAction"))
		})
	})
}

// need fails when a user may not do something, and says which role would allow it.
func (s *mongoSession) need(p mongoPrivileges, database, collection, role string, actions ...string) error {
	lacks := p.lacks(database, collection, actions...)
	if len(lacks) == 0 {
		return nil
	}
	on := "database " + database
	if collection != "" {
		on = mongoNamespace(database, collection)
	}
	return Permanent(ReasonPermissionDenied, "user %q lacks %s on %s of %s: grant it the role %s", s.Username, strings.Join(lacks, ", "), on, s.where(), role)
}
