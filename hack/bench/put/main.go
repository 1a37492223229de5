// Command put uploads one file with package storage and nothing else, so that its speed can be told from the agent's.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/holdfast-dev/holdfast/storage"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: put STORE-CONFIG-AS-JSON KEY FILE")
		os.Exit(2)
	}
	if err := put(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "put:", err)
		os.Exit(1)
	}
}

func put(ctx context.Context, rawConfig, key, path string) (err error) {
	var config storage.Config
	if err := json.Unmarshal([]byte(rawConfig), &config); err != nil {
		return fmt.Errorf("read the store's config: %w", err)
	}
	store, err := storage.New(ctx, config)
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	_, err = store.Put(ctx, key, file, info.Size())
	return err
}
