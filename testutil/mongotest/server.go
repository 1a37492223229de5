// Package mongotest starts servers that speak MongoDB's protocol for tests: FerretDB v1 with its SQLite backend, on a free port of
// the loopback interface, with their data in a temporary folder, and stopped with the test. It and MongoDB's own tools are built
// from Go modules, as no registry in reach has a mongod.
package mongotest

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-dev/holdfast/testutil/servertest"
	"github.com/holdfast-dev/holdfast/testutil/tlstest"
)

const (
	// Superuser of every server, in its database admin.
	Superuser = "root"
	// Password of the superuser: one that every kind of careless quoting breaks.
	Password = "m@:/%'\" \\ß$x#;`?&+,=\\n{}"
)

// Server is a running FerretDB.
type Server struct {
	Host string
	Port int

	dir        string
	replicaSet string
	tls        *tlstest.Certificate
	client     *mongo.Client

	process servertest.Process
}

// Start starts a server for one test.
func Start(tb testing.TB) *Server {
	tb.Helper()
	return start(tb, &Server{})
}

// StartReplicaSet starts a server that says it is the primary of a replica set, and logs its operations.
func StartReplicaSet(tb testing.TB) *Server {
	tb.Helper()
	s := start(tb, &Server{replicaSet: "rs0"})
	s.Run(tb, "local", bson.D{{Key: "create", Value: "oplog.rs"}, {Key: "capped", Value: true}, {Key: "size", Value: 64 << 20}})
	return s
}

// StartTLS starts a server that takes connections with TLS only, with a certificate for 127.0.0.1 that a CA of its own signed.
func StartTLS(tb testing.TB) (s *Server, caFile string) {
	tb.Helper()
	certificate := tlstest.Loopback(tb)
	return start(tb, &Server{tls: &certificate}), certificate.CAFile
}

func start(tb testing.TB, s *Server) *Server {
	tb.Helper()
	if err := s.launch(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Remove)
	return s
}

func (s *Server) launch() error {
	s.Host = "127.0.0.1"
	var err error
	if s.dir, err = os.MkdirTemp("/dev/shm", "holdfast-mongo-"); err != nil { // each collection that is made is synced to disk elsewhere
		s.dir, err = os.MkdirTemp("", "holdfast-mongo-")
	}
	if err != nil {
		return err
	}
	if s.Port, err = servertest.FreePort(); err == nil {
		err = s.configure()
	}
	if err == nil {
		err = s.Restart()
	}
	if err == nil {
		err = s.firstStart()
	}
	if err != nil {
		s.Remove()
		return fmt.Errorf("FerretDB: %w\n%s", err, s.process.Log())
	}
	return nil
}

// configure writes what testutil/mongotest/programs/ferretdb reads.
func (s *Server) configure() error {
	listener := map[string]string{}
	address := net.JoinHostPort(s.Host, strconv.Itoa(s.Port))
	if s.tls == nil {
		listener["TCP"] = address
	} else {
		listener["TLS"] = address
		for key, content := range map[string][]byte{"TLSCertFile": s.tls.Certificate, "TLSKeyFile": s.tls.Key} {
			listener[key] = filepath.Join(s.dir, key)
			if err := os.WriteFile(listener[key], content, 0o600); err != nil {
				return err
			}
		}
	}
	if err := os.Mkdir(filepath.Join(s.dir, "data"), 0o700); err != nil {
		return err
	}
	raw, err := json.Marshal(map[string]any{"Listener": listener, "DataURL": "file:" + filepath.Join(s.dir, "data") + "/",
		"ReplicaSet": s.replicaSet, "Username": Superuser, "Password": Password})
	if err != nil {
		return err
	}
	return os.WriteFile(s.config(), raw, 0o600)
}

func (s *Server) config() string { return filepath.Join(s.dir, "config.json") }

// Restart starts the server on its port with its data, and waits until it takes commands.
func (s *Server) Restart() error {
	dir, err := Programs()
	if err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(dir, "ferretdb"))
	cmd.Dir, cmd.Env = s.dir, []string{"FERRETDB_CONFIG_FILE=" + s.config()}
	return s.process.Start(s.process.Prepare(cmd, nil), s.ask)
}

// ask whether it takes connections.
func (s *Server) ask(ctx context.Context) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(s.Host, strconv.Itoa(s.Port)))
	if err != nil {
		return err
	}
	return conn.Close()
}

// firstStart makes what a mongod makes with its first user, and mongodump asks for.
func (s *Server) firstStart() error {
	var err error
	if s.client, err = s.open(Superuser, Password); err != nil {
		return err
	}
	_, err = s.client.Database("admin").Collection("system.version").InsertOne(context.Background(), bson.D{{Key: "_id", Value: "authSchema"},
		{Key: "currentVersion", Value: 5}})
	return err
}

func (s *Server) open(user, password string) (*mongo.Client, error) {
	o := options.Client().SetHosts([]string{net.JoinHostPort(s.Host, strconv.Itoa(s.Port))}).SetDirect(true).SetServerSelectionTimeout(time.Minute).
		SetAuth(options.Credential{AuthSource: "admin", Username: user, Password: password})
	if s.tls != nil {
		o.SetTLSConfig(&tls.Config{InsecureSkipVerify: true}) //nolint:gosec // whether it is checked is what tests are for
	}
	return mongo.Connect(o)
}

// Kill ends the server at once, as a crash of its machine would, and waits until it is gone.
func (s *Server) Kill() { s.process.Kill() }

// Remove ends the server and deletes what it kept.
func (s *Server) Remove() {
	if s.client != nil {
		_ = s.client.Disconnect(context.Background())
	}
	s.Kill()
	_ = os.RemoveAll(s.dir)
}

// Client of the superuser.
func (s *Server) Client() *mongo.Client { return s.client }

// Run runs commands as the superuser.
func (s *Server) Run(tb testing.TB, database string, commands ...bson.D) {
	tb.Helper()
	for _, command := range commands {
		if err := s.client.Database(database).RunCommand(context.Background(), command).Err(); err != nil {
			tb.Fatalf("%s: %v", command[0].Key, err)
		}
	}
}

// Insert inserts documents.
func (s *Server) Insert(tb testing.TB, database, collection string, documents ...any) {
	tb.Helper()
	if _, err := s.client.Database(database).Collection(collection).InsertMany(context.Background(), documents); err != nil {
		tb.Fatalf("insert into %s.%s: %v", database, collection, err)
	}
}
