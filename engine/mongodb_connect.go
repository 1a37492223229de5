package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// Error codes of MongoDB.
const (
	mongoUnauthorized       = 13
	mongoAuthFailed         = 18
	mongoIllegalOperation   = 20
	mongoNamespaceNotFound  = 26
	mongoNamespaceExists    = 48
	mongoCommandNotFound    = 59
	mongoInvalidNamespace   = 73
	mongoNotOnView          = 166
	mongoNotImplemented     = 238
	mongoInterruptedByStop  = 11600
	mongoInterruptedByState = 11602
)

// mongoSession is a client of a server, or of a replica set, and what that says of itself.
type mongoSession struct {
	Access
	client *mongo.Client
	hello  mongoHello
	build  mongoBuild
}

type mongoHello struct {
	Set     string   `bson:"setName"`
	Hosts   []string `bson:"hosts"`
	Primary string   `bson:"primary"`
	Message string   `bson:"msg"`
	Writes  bool     `bson:"isWritablePrimary"`
}

type mongoBuild struct {
	Version  string `bson:"version"`
	FerretDB string `bson:"ferretdbVersion"`
}

func (a Access) mongoPort() int {
	if a.Port == 0 {
		return mongoDB{}.DefaultPort()
	}
	return a.Port
}

func (a Access) mongoAddress() string { return net.JoinHostPort(a.Host, strconv.Itoa(a.mongoPort())) }

func (a Access) authSource() string {
	if a.AuthSource == "" {
		return "admin"
	}
	return a.AuthSource
}

// openMongo connects, to the whole of a replica set where the server is a member of one: a Service may lead each
// connection to another member, and writes are for the primary.
func openMongo(ctx context.Context, a Access) (*mongoSession, error) {
	if err := a.reachMongo(ctx); err != nil {
		return nil, err
	}
	s := &mongoSession{Access: a}
	if err := s.connect(ctx, ""); err != nil {
		return nil, err
	}
	if s.hello.Set == "" {
		return s, nil
	}
	s.close()
	if err := s.connect(ctx, s.hello.Set); err != nil {
		return nil, err
	}
	return s, nil
}

// connect opens a client, of one server where no set is named.
func (s *mongoSession) connect(ctx context.Context, set string) error {
	security, err := s.tlsConfig()
	if err != nil {
		return err
	}
	o := options.Client().SetHosts([]string{s.mongoAddress()}).SetConnectTimeout(connectTimeout).SetServerSelectionTimeout(connectTimeout).
		SetAppName("holdfast").SetWriteConcern(writeconcern.Majority()).SetMaxPoolSize(4).
		SetAuth(options.Credential{AuthSource: s.authSource(), Username: s.Username, Password: s.Password, PasswordSet: true})
	if set == "" {
		o.SetDirect(true)
	} else {
		o.SetReplicaSet(set)
	}
	if security != nil {
		security.ServerName = "" // each member has its own
		o.SetTLSConfig(security)
	}
	if s.client, err = mongo.Connect(o); err != nil {
		return Permanent(ReasonInvalidTask, "the connection to %s cannot be described: %w", s.where(), err)
	}
	if err := s.introduce(ctx); err != nil {
		s.close()
		return err
	}
	return nil
}

// introduce asks the server what it is. That it lets the user in shows in the answer to the second question.
func (s *mongoSession) introduce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*connectTimeout)
	defer cancel()
	if err := s.command(ctx, "admin", bson.D{{Key: "hello", Value: 1}}, &s.hello); err != nil {
		return err
	}
	return s.command(ctx, "admin", bson.D{{Key: "buildInfo", Value: 1}}, &s.build)
}

// reachMongo tells at once what a driver would tell after it has tried for a while, and less clearly.
func (a Access) reachMongo(ctx context.Context) error {
	security, err := a.tlsConfig()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", a.mongoAddress())
	if err != nil {
		return a.mongoError(err)
	}
	defer func() { _ = conn.Close() }()
	if security == nil {
		return nil
	}
	err = tls.Client(conn, security).HandshakeContext(ctx)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	if plain || errors.Is(err, io.EOF) || err != nil && strings.Contains(err.Error(), "connection reset") {
		return Permanent(ReasonServerCertificate, "%s offers no TLS, and tls.mode is %s: switch TLS on in the server (net.tls.mode), or set "+
			"spec.database.tls.mode to Disable: %w", a.where(), a.TLSMode, err)
	}
	if err != nil {
		return a.mongoError(err)
	}
	return nil
}

func (s *mongoSession) close() {
	if s.client != nil {
		_ = s.client.Disconnect(context.Background())
	}
}

// command runs one command and reads its answer.
func (s *mongoSession) command(ctx context.Context, database string, command bson.D, into any) error {
	result := s.client.Database(database).RunCommand(ctx, command)
	if into == nil {
		into = &bson.M{}
	}
	if err := result.Decode(into); err != nil {
		if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) {
			return context.Cause(ctx)
		}
		return s.mongoError(err)
	}
	return nil
}

func mongoCode(err error, codes ...int) bool {
	failed, ok := errors.AsType[mongo.ServerError](err)
	return ok && slices.ContainsFunc(codes, failed.HasErrorCode)
}

// serverSaid tells an answer from a connection that broke, or a server that stops.
func serverSaid(err error) bool {
	_, answered := errors.AsType[mongo.ServerError](err)
	return answered && !mongoCode(err, mongoInterruptedByStop, mongoInterruptedByState) && !mongo.IsNetworkError(err)
}

// broken tells a connection that broke.
func broken(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || mongo.IsNetworkError(err)
}

// mongoError says why a server refused a connection or a command. It goes by codes and types.
func (a Access) mongoError(err error) error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case mongoCode(err, mongoAuthFailed), strings.Contains(err.Error(), "auth error") && !broken(err):
		return Permanent(ReasonAuthenticationFailed, "%s does not let user %q in: check the name and the password in the Secret of "+
			"spec.database.credentialsSecretRef, and that the user was made in database %q (spec.database.authSource): %w", a.where(), a.Username,
			a.authSource(), err)
	case mongoCode(err, mongoUnauthorized):
		return Permanent(ReasonPermissionDenied, "user %q may not do what is needed on %s: %w: grant it a role that allows it (backup to back up, "+
			"restore to restore, or readWrite on the databases)", a.Username, a.where(), err)
	case certificateRejected(err):
		return Permanent(ReasonServerCertificate, "the certificate of %s is not accepted (tls.mode %s): %w: set tls.caSecretRef "+
			"to the authority that signed it, or a host that the certificate names", a.where(), a.TLSMode, err)
	case serverSaid(err):
		return Transient(ReasonServerUnreachable, "a command to %s failed: %w", a.where(), err)
	}
	hint := "check spec.database.host and port, that the server runs and is MongoDB, and that network policies let this pod reach it"
	if a.TLSMode == TLSDisable {
		hint += "; a server that takes connections with TLS only closes others (spec.database.tls.mode)"
	}
	return Transient(ReasonServerUnreachable, "%s cannot be reached: %w: %s", a.where(), err, hint)
}

// serves fails where a server is of a kind or age that is not served.
func (s *mongoSession) serves() error {
	switch {
	case s.hello.Message == "isdbgrid":
		return Permanent(ReasonServerNotSupported, "%s is a mongos of a sharded cluster, of which mongodump gets no consistent dump and which its own backup "+
			"tools are for: back up each shard's replica set with the balancer stopped, or use the cluster's own backup", s.where())
	case older(s.build.Version, oldestMongoDB):
		return Permanent(ReasonServerNotSupported, "%s has MongoDB %s; Holdfast serves version %s and newer", s.where(), s.build.Version, oldestMongoDB)
	}
	return nil
}

const oldestMongoDB = "4.4"

func (a Access) noMongoDatabase(name string) *Error {
	return Permanent(ReasonDatabaseNotFound, "%s has no database %q, or user %q may not see it: check spec.database.names", a.where(), name, a.Username)
}

// namespace of a collection, as commands want it.
func mongoNamespace(database, collection string) string {
	return fmt.Sprintf("%s.%s", database, collection)
}
