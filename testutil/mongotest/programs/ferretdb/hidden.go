package main

import (
	"errors"
	"log/slog"
	"time"
	"unsafe" // for go:linkname as well
)

// handlerOptions has the layout of NewHandlerOpts of FerretDB v1.24.2, which is internal. go.mod pins that version.
type handlerOptions struct {
	logger        *slog.Logger
	connMetrics   unsafe.Pointer
	stateProvider unsafe.Pointer
	tcpHost       string
	replSetName   string
	setupDatabase string
	setupUsername string
	setupPassword string // a struct with this string alone
	setupTimeout  time.Duration
	postgreSQLURL string
	sqliteURL     string
	hanaURL       string
	mySQLURL      string

	disablePushdown         bool
	enableNestedPushdown    bool
	cappedCleanupInterval   time.Duration
	cappedCleanupPercentage uint8
	enableNewAuth           bool
	batchSize               int
	maxBSONObjectSizeBytes  int
}

// handlers are FerretDB's constructors of handlers, by the name of the backend.
//
//go:linkname handlers github.com/FerretDB/FerretDB/internal/handler/registry.registry
var handlers map[string]func(*handlerOptions) (unsafe.Pointer, func(), error)

// applyHidden has the options set that the embeddable package has no field for.
func applyHidden(s settings) error {
	inner := handlers["sqlite"]
	if inner == nil {
		return errors.New("this build of FerretDB has no SQLite backend")
	}
	handlers["sqlite"] = func(o *handlerOptions) (unsafe.Pointer, func(), error) {
		if o.sqliteURL != s.DataURL || o.batchSize != 100 {
			return nil, nil, errors.New("the layout of FerretDB's options is not the one that is known here")
		}
		o.replSetName, o.enableNewAuth, o.cappedCleanupInterval = s.ReplicaSet, true, time.Minute
		o.maxBSONObjectSizeBytes = 16 << 20
		o.setupDatabase, o.setupUsername, o.setupPassword, o.setupTimeout = "admin", s.Username, s.Password, 30*time.Second
		return inner(o)
	}
	return nil
}
