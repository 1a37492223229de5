// Command ferretdb is FerretDB v1 with its SQLite backend, for tests: FERRETDB_CONFIG_FILE names a JSON file with its settings.
// FerretDB's own main cannot be built from its Go module, which lacks the file that tells its version, and its embeddable
// package knows neither authentication nor replica sets.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/FerretDB/FerretDB/ferretdb"
)

// settings of a server.
type settings struct {
	Listener   ferretdb.ListenerConfig
	DataURL    string // file:/folder/
	ReplicaSet string
	Username   string // of the first user, in the database admin
	Password   string
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "ferretdb:", err)
		os.Exit(1)
	}
}

func run() error {
	raw, err := os.ReadFile(os.Getenv("FERRETDB_CONFIG_FILE"))
	if err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	var s settings
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	if err := applyHidden(s); err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	server, err := ferretdb.New(&ferretdb.Config{Listener: s.Listener, Logger: logger, Handler: "sqlite", SQLiteURL: s.DataURL})
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	return server.Run(ctx)
}
