//go:build bench

package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/holdfast-dev/holdfast/testutil/miniotest"
	"github.com/holdfast-dev/holdfast/testutil/pgtest"
)

const source = "shop"

// world is what the measurements share: a database, a bucket, and folders.
type world struct {
	testing.TB
	postgres *pgtest.Server
	minio    *miniotest.Server
	bucket   string
	dir      string // for files of all kinds
	secrets  string // of the database
	keys     string // of the store
	env      []string
}

func newWorld(tb testing.TB, mib int) *world {
	w := &world{TB: tb, dir: tb.TempDir(), secrets: tb.TempDir()}
	w.postgres = pgtest.Start(tb, pgtest.DebianVersion, "-c", "autovacuum=off", "-c", "max_wal_size=8GB", "-c", "checkpoint_timeout=1h")
	w.minio = miniotest.Start(tb)
	w.bucket, w.keys = w.minio.Bucket(tb), w.minio.CredentialsDir(tb)
	w.write(filepath.Join(w.secrets, "username"), pgtest.Superuser)
	w.write(filepath.Join(w.secrets, "password"), pgtest.Password)
	w.environment()
	w.fill(mib)
	return w
}

func (w *world) write(path, content string) {
	w.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		w.Fatal(err)
	}
}

// environment of the reference tools: Debian's own client programs, not its wrapper, and an mc that knows the store.
func (w *world) environment() {
	config := filepath.Join(w.dir, "mc")
	if err := os.MkdirAll(filepath.Join(config, "certs", "CAs"), 0o700); err != nil {
		w.Fatal(err)
	}
	ca, err := os.ReadFile(w.minio.CAFile)
	if err != nil {
		w.Fatal(err)
	}
	w.write(filepath.Join(config, "certs", "CAs", "ca.crt"), string(ca))
	host := strings.TrimPrefix(w.minio.Endpoint, "https://")
	w.env = []string{"PATH=" + pgtest.BinDir(w, pgtest.DebianVersion) + ":" + os.Getenv("HOLDFAST_BIN") + ":/usr/bin:/bin",
		"HOME=" + w.dir, "LC_ALL=C", "PGHOST=" + w.postgres.Host, "PGPORT=" + strconv.Itoa(w.postgres.Port), "PGUSER=" + pgtest.Superuser,
		"PGPASSWORD=" + pgtest.Password, "PGSSLMODE=disable", "MC_CONFIG_DIR=" + config,
		"MC_HOST_store=https://" + w.minio.AccessKey + ":" + w.minio.SecretKey + "@" + host,
		"AWS_ACCESS_KEY_ID=" + w.minio.AccessKey, "AWS_SECRET_ACCESS_KEY=" + w.minio.SecretKey, "RESTIC_PASSWORD=bench",
		"BUCKET=store/" + w.bucket, "RESTIC_REPOSITORY=s3:" + w.minio.Endpoint + "/" + w.bucket + "/restic", "RESTIC_CACERT=" + w.minio.CAFile}
}

// shell is a line of the reference: any failing part of it fails it.
func (w *world) shell(line string) *exec.Cmd {
	cmd := exec.Command("/bin/bash", "-euo", "pipefail", "-c", line)
	cmd.Env, cmd.Dir = w.env, w.dir
	return cmd
}

func (w *world) must(cmd *exec.Cmd) {
	w.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
}

// fill makes the database, in two sessions at once.
func (w *world) fill(mib int) {
	w.Helper()
	began := time.Now()
	data, err := filepath.Abs("data.sql")
	if err != nil {
		w.Fatal(err)
	}
	w.postgres.Exec(w, "postgres", "CREATE DATABASE "+source)
	var both sync.WaitGroup
	for part := 1; part <= 2; part++ {
		both.Go(func() {
			line := fmt.Sprintf("psql --no-psqlrc --quiet --dbname=%s --set=mib=%d --set=part=%d --file=%s", source, mib, part, data)
			if out, err := w.shell(line).CombinedOutput(); err != nil {
				w.Errorf("%s: %v\n%s", line, err, out)
			}
		})
	}
	both.Wait()
	if w.Failed() {
		w.FailNow()
	}
	w.postgres.Exec(w, source, "VACUUM (FREEZE, ANALYZE)", "CHECKPOINT")
	sayf("a database of %d MiB was made in %.0f s", w.databaseBytes()>>20, time.Since(began).Seconds())
}

func (w *world) databaseBytes() int64 {
	w.Helper()
	size, err := strconv.ParseInt(w.postgres.Query(w, source, "SELECT pg_database_size(current_database())"), 10, 64)
	if err != nil {
		w.Fatal(err)
	}
	return size
}

// forget deletes an object, so that the store's disk does not fill and a key is free again.
func (w *world) forget(keys ...string) {
	w.Helper()
	for _, key := range keys {
		if err := w.minio.Client(w).RemoveObject(w.Context(), w.bucket, key, minio.RemoveObjectOptions{}); err != nil {
			w.Fatal(err)
		}
	}
}
