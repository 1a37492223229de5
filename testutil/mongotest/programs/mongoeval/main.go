// Command mongoeval runs commands against a server that speaks MongoDB's protocol, as mongosh would, which comes in no Go module:
// one command a line of its standard input, in extended JSON, in the database that its second argument names. The first names a
// file with the connection string. Of a command that answers with documents it prints them, a line each.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "mongoeval:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if len(os.Args) != 3 {
		return errors.New("usage: mongoeval FILE DATABASE")
	}
	uri, err := os.ReadFile(os.Args[1])
	if err != nil {
		return err
	}
	client, err := mongo.Connect(ctx, options.Client().ApplyURI(strings.TrimSpace(string(uri))).SetDirect(true))
	if err != nil {
		return err
	}
	defer func() { _ = client.Disconnect(ctx) }()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		if err := eval(ctx, client.Database(os.Args[2]), lines.Bytes()); err != nil {
			return fmt.Errorf("%.200s: %w", lines.Text(), err)
		}
	}
	return lines.Err()
}

func eval(ctx context.Context, database *mongo.Database, line []byte) error {
	var command bson.D
	if err := bson.UnmarshalExtJSON(line, false, &command); err != nil {
		return err
	}
	answer, err := database.RunCommand(ctx, command).Raw()
	if err != nil {
		return err
	}
	documents, ok := answer.Lookup("cursor", "firstBatch").ArrayOK()
	if !ok {
		return nil
	}
	values, err := documents.Values()
	for _, value := range values {
		fmt.Println(value)
	}
	return err
}
