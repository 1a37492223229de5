package engine

import (
	"context"
	"errors"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// mongoDump is what a dump will be made with.
type mongoDump struct {
	databases []string
	oplog     bool // operations during the dump are dumped too
	accounts  bool // of the named databases
	note      string
}

// Probe looks at the server and the dump program.
func (mongoDB) Probe(ctx context.Context, a Access) (Server, error) {
	s, err := openMongo(ctx, a)
	if err != nil {
		return Server{}, err
	}
	defer s.close()
	if err := s.serves(); err != nil {
		return Server{}, err
	}
	server := Server{Version: s.build.Version, Format: formatMongoArchive}
	if server.ToolVersion, err = a.findMongoTool(ctx, "mongodump"); err != nil {
		return Server{}, err
	}
	plan, err := s.planDump(ctx)
	if err != nil {
		return Server{}, err
	}
	server.Databases, server.Note = plan.databases, plan.note
	for _, name := range plan.databases {
		server.SizeBytes += s.sizeOf(ctx, name)
	}
	return server, nil
}

// planDump finds out what is dumped, and how.
func (s *mongoSession) planDump(ctx context.Context) (mongoDump, error) {
	privileges, err := s.privileges(ctx)
	if err != nil {
		return mongoDump{}, err
	}
	var plan mongoDump
	if plan.databases, err = s.databasesToDump(ctx, privileges); err != nil {
		return mongoDump{}, err
	}
	var notes []string
	if s.build.FerretDB != "" {
		notes = append(notes, "the server is FerretDB, which has a part of what MongoDB has")
	}
	if s.whole() {
		if err := s.need(privileges, "admin", "system.users", "backup", "find"); err != nil {
			return mongoDump{}, err
		}
		if plan.oplog, err = s.hasOplog(ctx); err != nil {
			return mongoDump{}, err
		}
		if !plan.oplog {
			notes = append(notes, "the dump is not of one moment: writes during it may be in some collections and not in others, as the server is no replica set")
		}
		plan.note = strings.Join(notes, "; ")
		return plan, nil
	}
	notes = append(notes, "the dump is not of one moment: writes during it may be in some collections and not in others; only a dump of a whole server that is a "+
		"replica set is")
	var why string
	if plan.accounts, why, err = s.mayDumpAccounts(ctx); err != nil {
		return mongoDump{}, err
	}
	if why != "" {
		notes = append(notes, why)
	}
	plan.note = strings.Join(notes, "; ")
	return plan, nil
}

// databasesToDump are the named ones, which must be there, or all.
func (s *mongoSession) databasesToDump(ctx context.Context, privileges mongoPrivileges) ([]string, error) {
	names := slices.Clone(s.Databases)
	slices.Sort(names)
	for _, name := range names {
		if slices.Contains(ownDatabases, name) {
			return nil, Permanent(ReasonDatabaseNotConnectable, "database %q is the server's own, and is not dumped by name: leave it out of "+
				"spec.database.names. Users and roles are in a dump of the whole server, and those of a database in its own dump", name)
		}
	}
	if s.whole() {
		there, err := s.databases(ctx)
		if err != nil {
			return nil, err
		}
		if names = userDatabases(there); len(names) == 0 {
			return nil, Permanent(ReasonDatabaseNotFound, "%s has no database to dump", s.where())
		}
	}
	for _, name := range names {
		if err := s.need(privileges, name, "", "backup, or read on the database", "find", "listCollections", "listIndexes"); err != nil {
			return nil, err
		}
		collections, err := s.collections(ctx, name)
		if err != nil {
			return nil, err
		}
		if len(collections) == 0 && !s.whole() {
			return nil, s.noMongoDatabase(name)
		}
	}
	return names, nil
}

// databases of the server, as far as the user may see them.
func (s *mongoSession) databases(ctx context.Context) ([]string, error) {
	var answer struct {
		Databases []struct {
			Name string `bson:"name"`
		} `bson:"databases"`
	}
	if err := s.command(ctx, "admin", bson.D{{Key: "listDatabases", Value: 1}, {Key: "nameOnly", Value: true}}, &answer); err != nil {
		return nil, err
	}
	var names []string
	for _, each := range answer.Databases {
		names = append(names, each.Name)
	}
	slices.Sort(names)
	return names, nil
}

// mongoCollection is what a server says of a collection.
type mongoCollection struct {
	Name    string `bson:"name"`
	Type    string `bson:"type"`
	Options bson.D `bson:"options"`
}

// collections of a database, views included, without those that a restore made for a while.
func (s *mongoSession) collections(ctx context.Context, database string) ([]mongoCollection, error) {
	found, err := s.allCollections(ctx, database)
	return slices.DeleteFunc(found, func(c mongoCollection) bool { return temporaryCollection.MatchString(c.Name) }), err
}

func (s *mongoSession) allCollections(ctx context.Context, database string) ([]mongoCollection, error) {
	cursor, err := s.client.Database(database).ListCollections(ctx, bson.D{})
	if err != nil {
		return nil, s.mongoError(err)
	}
	var found []mongoCollection
	if err := cursor.All(ctx, &found); err != nil {
		return nil, s.mongoError(err)
	}
	slices.SortFunc(found, func(a, b mongoCollection) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// sizeOf a database's documents and indexes; 0 where it may not be known.
func (s *mongoSession) sizeOf(ctx context.Context, database string) int64 {
	var answer struct {
		Data int64 `bson:"dataSize"`
	}
	if err := s.command(ctx, database, bson.D{{Key: "dbStats", Value: 1}}, &answer); err != nil {
		return 0
	}
	return answer.Data
}

// hasOplog tells whether the server keeps a log of its operations, as members of replica sets do. Who dumps a whole
// replica set must be able to read it: without it, the dump would be of no one moment, and nobody would know.
func (s *mongoSession) hasOplog(ctx context.Context) (bool, error) {
	if s.hello.Set == "" {
		return false, nil
	}
	return s.finds(ctx, "local", "oplog.rs", bson.D{})
}

// finds tells whether a collection holds a document.
func (s *mongoSession) finds(ctx context.Context, database, collection string, filter bson.D) (bool, error) {
	err := s.client.Database(database).Collection(collection).FindOne(ctx, filter).Err()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return false, nil
	}
	if err != nil {
		return false, s.mongoError(err)
	}
	return true, nil
}

// mayDumpAccounts tells whether users and roles of named databases are dumped with them, and why not. A server that never
// had one lacks the document that mongodump wants.
func (s *mongoSession) mayDumpAccounts(ctx context.Context) (may bool, why string, err error) {
	for collection, filter := range map[string]bson.D{"system.version": {{Key: "_id", Value: "authSchema"}}, "system.users": {}, "system.roles": {}} {
		found, err := s.finds(ctx, "admin", collection, filter)
		if e, ok := errors.AsType[*Error](err); ok && e.Reason == ReasonPermissionDenied {
			return false, "users and roles of the databases are left out, since user " + s.Username + " may not read admin." + collection + " (role backup)", nil
		}
		if err != nil {
			return false, "", err
		}
		if collection == "system.version" {
			may = found
		}
	}
	return may, "", nil
}
