//go:build programs

// Package programs pins the programs that the tests of MongoDB run: MongoDB's own tools, and with the folder ferretdb a
// server that speaks its protocol. hack/programs.sh builds them.
package programs

import (
	_ "github.com/mongodb/mongo-tools/mongodump/main"
	_ "github.com/mongodb/mongo-tools/mongorestore/main"
)
