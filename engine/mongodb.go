package engine

import (
	"context"
	"errors"
	"io"
	"regexp"
	"slices"

	"github.com/holdfast-dev/holdfast/engine/internal/mongoarchive"
)

// formatMongoArchive is an archive as mongodump writes it, of one database or of several.
const formatMongoArchive = "mongoarchive"

func init() { engines = append(engines, mongoDB{}) }

// mongoDB is the engine for MongoDB 4.4 and newer, and for servers that speak its protocol.
type mongoDB struct{}

func (mongoDB) Name() Name           { return MongoDB }
func (mongoDB) DefaultPort() int     { return 27017 }
func (mongoDB) DefaultImage() string { return "mongo:8.0" }
func (mongoDB) ForeignFormats() []string {
	return []string{"an archive by mongodump --archive, of any number of databases, also with --gzip or --oplog"}
}

func (mongoDB) Formats() map[string]string { return map[string]string{formatMongoArchive: ".archive"} }

// ownDatabases are the server's own. Its users and roles are in admin.
var ownDatabases = []string{"admin", "config", "local"}

// temporaryPrefix begins the names of the collections that a restore makes for a while. They belong to no dump.
const temporaryPrefix = "holdfast_tmp_"

var temporaryCollection = regexp.MustCompile(`^` + temporaryPrefix + `[0-9a-f]{12}_(new|old|mark)`)

// Sniff tells an archive by its magic number.
func (mongoDB) Sniff(head []byte) (string, bool) {
	return formatMongoArchive, mongoarchive.HasMagic(head)
}

// Inspect reads the prelude. One that is longer than the head does not tell which databases there are.
func (mongoDB) Inspect(_ string, head io.Reader) (Contents, error) {
	r, err := mongoarchive.NewReader(head)
	if r == nil {
		return Contents{}, err
	}
	contents := Contents{ServerVersion: r.Prelude.Header.ServerVersion, ToolVersion: r.Prelude.Header.ToolVersion}
	switch {
	case errors.Is(err, mongoarchive.ErrCut) && contents.ServerVersion != "":
		return contents, nil
	case err != nil:
		return Contents{}, err
	}
	contents.Databases = userDatabases(r.Prelude.Databases())
	return contents, nil
}

// userDatabases are those that are not the server's own.
func userDatabases(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(ownDatabases, name) })
}

// Check reads an archive to its end. It must be whole, and hold something.
func (mongoDB) Check(ctx context.Context, _ Runner, _ string, dump io.Reader) error {
	r, err := mongoarchive.NewReader(dump)
	if err != nil {
		return err
	}
	if len(userDatabases(r.Prelude.Databases())) == 0 {
		return errors.New("the archive holds no database")
	}
	for ctx.Err() == nil {
		if _, err := r.Next(); errors.Is(err, io.EOF) && !errors.Is(err, mongoarchive.ErrCut) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}
