package engine

import (
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// mongoOperations translates the operations during a dump to the temporary names, for mongorestore to apply. What it does not
// know stops the restore: an operation under an old name would change the database that is still in use.
type mongoOperations struct {
	restore *mongoRestore
	count   int
}

// internalOperations say nothing of what is restored, or are for the server itself.
var (
	internalOperations = []string{"n", "cd", "ci", "cu", "km"}
	internalCommands   = []string{"startIndexBuild", "abortIndexBuild", "setMultikeyMetadata"}
	transactionEnds    = []string{"commitTransaction", "abortTransaction"}
	indexDrops         = []string{"dropIndexes", "dropIndex", "deleteIndexes", "deleteIndex"}
)

func (o *mongoOperations) translate(document []byte) ([]byte, error) {
	var entry bson.D
	if err := bson.Unmarshal(document, &entry); err != nil {
		return nil, fmt.Errorf("an operation of the archive's oplog cannot be read: %w", err)
	}
	translated, err := o.entry(entry)
	if err != nil || translated == nil {
		return nil, err
	}
	o.count++
	return bson.Marshal(translated)
}

// entry translates one operation; nil where it is left out.
func (o *mongoOperations) entry(entry bson.D) (bson.D, error) {
	kind, namespace := text(entry, "op"), text(entry, "ns")
	if slices.Contains(internalOperations, kind) {
		return nil, nil
	}
	database, name, _ := strings.Cut(namespace, ".")
	if kind == "c" {
		return o.command(entry, database)
	}
	item := o.itemOf(database)
	if item == nil {
		return nil, nil
	}
	if !slices.Contains([]string{"i", "u", "d"}, kind) {
		return nil, o.unknown(kind, namespace)
	}
	if strings.HasPrefix(name, "system.") && !strings.HasPrefix(name, "system.buckets.") || temporaryCollection.MatchString(name) {
		return nil, nil
	}
	return replaced(entry, "ns", mongoNamespace(item.target, o.temporary(item, name))), nil
}

func (o *mongoOperations) itemOf(database string) *mongoItem {
	at := slices.IndexFunc(o.restore.items, func(i *mongoItem) bool { return i.source == database })
	if at < 0 {
		return nil
	}
	return o.restore.items[at]
}

func (o *mongoOperations) temporary(item *mongoItem, name string) string {
	series, buckets := strings.CutPrefix(name, "system.buckets.")
	if buckets {
		return "system.buckets." + o.restore.temporary("new", item.target, series)
	}
	return o.restore.temporary("new", item.target, name)
}

func (o *mongoOperations) unknown(what, on string) error {
	return Permanent(ReasonRestoreToolFailed, "the artifact's oplog holds the operation %q on %s, which was made during the dump and cannot be restored beside a "+
		"database that is in use: restore the artifact by hand (mongorestore --archive --oplogReplay) to an empty server, or take another dump", what, on)
}

// command translates an operation that is a command: its first field names it, and mostly its collection.
func (o *mongoOperations) command(entry bson.D, database string) (bson.D, error) {
	value, _ := lookup(entry, "o")
	object, _ := value.(bson.D)
	if len(object) == 0 {
		return nil, o.unknown("c", database)
	}
	name := object[0].Key
	switch {
	case slices.Contains(internalCommands, name):
		return nil, nil
	case slices.Contains(transactionEnds, name):
		return entry, nil
	case name == "applyOps":
		return o.several(entry, object)
	}
	item := o.itemOf(database)
	if item == nil {
		return nil, nil
	}
	collection, ok := object[0].Value.(string)
	if !ok {
		return nil, o.unknown(name, database)
	}
	if temporaryCollection.MatchString(collection) {
		return nil, nil
	}
	return o.definition(entry, object, item, collection)
}

// definition translates a command that makes, changes or drops a collection or an index.
func (o *mongoOperations) definition(entry, object bson.D, item *mongoItem, collection string) (bson.D, error) {
	name := object[0].Key
	at := slices.IndexFunc(item.parts, func(p *mongoPart) bool { return p.Name == collection })
	if view, _ := lookup(object, "viewOn"); view != nil || at >= 0 && item.parts[at].fixed || strings.HasPrefix(collection, "system.") {
		return nil, o.unknown(name, mongoNamespace(item.source, collection))
	}
	switch {
	case name == "create":
		if at < 0 {
			item.parts = append(item.parts, newMongoPart(item.source, collection))
		}
	case at < 0:
		return nil, o.unknown(name, mongoNamespace(item.source, collection))
	case name == "drop":
		item.parts = slices.Delete(item.parts, at, at+1)
	case name == "createIndexes":
		item.parts[at].addIndex(object[1:])
		return nil, nil
	case name == "commitIndexBuild":
		indexes, _ := lookup(object, "indexes")
		list, _ := indexes.(bson.A)
		for _, each := range list {
			if index, ok := each.(bson.D); ok {
				item.parts[at].addIndex(index)
			}
		}
		return nil, nil
	case slices.Contains(indexDrops, name):
		item.parts[at].dropIndex(text(object, "index"))
		return nil, nil
	default:
		return nil, o.unknown(name, mongoNamespace(item.source, collection))
	}
	object = replaced(object, name, o.temporary(item, collection))
	return replaced(replaced(entry, "o", object), "ns", item.target+".$cmd"), nil
}

// several translates the operations of a transaction, or of a bulk.
func (o *mongoOperations) several(entry, object bson.D) (bson.D, error) {
	list, _ := object[0].Value.(bson.A)
	translated := bson.A{}
	for _, each := range list {
		inner, ok := each.(bson.D)
		if !ok {
			return nil, o.unknown("applyOps", text(entry, "ns"))
		}
		one, err := o.entry(inner)
		if err != nil {
			return nil, err
		}
		if one != nil {
			translated = append(translated, one)
		}
	}
	return replaced(entry, "o", replaced(object, object[0].Key, translated)), nil
}

func (p *mongoPart) addIndex(index bson.D) {
	p.dropIndex(text(index, "name"))
	p.metadata.Indexes = append(p.metadata.Indexes, index)
}

func (p *mongoPart) dropIndex(name string) {
	p.metadata.Indexes = slices.DeleteFunc(p.metadata.Indexes, func(i bson.D) bool { return text(i, "name") == name })
}

func text(document bson.D, key string) string {
	value, _ := lookup(document, key)
	found, _ := value.(string)
	return found
}

// replaced is a document with another value of one field.
func replaced(document bson.D, key string, value any) bson.D {
	changed := slices.Clone(document)
	for i := range changed {
		if changed[i].Key == key {
			changed[i].Value = value
		}
	}
	return changed
}
