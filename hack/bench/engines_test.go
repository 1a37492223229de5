//go:build bench

package bench

import (
	"crypto/sha256"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/testutil/mariadbtest"
	"github.com/holdfast-dev/holdfast/testutil/miniotest"
	"github.com/holdfast-dev/holdfast/testutil/mongotest"
	"github.com/holdfast-dev/holdfast/testutil/redistest"
)

// engineBench is one engine's dump and restore against its own tools.
type engineBench struct {
	*world
	title      string
	connection engine.Connection
	// source is the database that is dumped, target the one that it is restored into.
	source, target string
	// dumpLine writes what the engine's own tool dumps to a file through zstd; loadLine restores that file into a fresh
	// database, and is empty where no tool of the engine does.
	dumpLine, loadLine string
	// empty removes what a restore made.
	empty func()
	// bytes of the dump before it is compressed.
	bytes int64

	dump, pipeline, reference *subject
	load, loadReference       *subject
}

// TestEngines measures the engines beside PostgreSQL and writes the report. It fails only when something does not work.
func TestEngines(t *testing.T) {
	load := loadAverage()
	limit := time.Duration(number(t, "BENCH_MINUTES", 5, 1)) * time.Minute
	mib := number(t, "BENCH_ENGINES_MIB", 256, 1)
	var all []*engineBench
	for _, start := range []func(*world, int) *engineBench{startMariaDB, startRedis, startMongoDB} {
		e := start(newEngineWorld(t), mib)
		e.measure(number(t, "BENCH_ROUNDS", 5, 1), limit)
		all = append(all, e)
	}
	if err := os.WriteFile(os.Getenv("BENCH_REPORT"), []byte(engineReport(all, load)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// newEngineWorld is a world without PostgreSQL.
func newEngineWorld(tb testing.TB) *world {
	w := &world{TB: tb, dir: tb.TempDir(), secrets: tb.TempDir(), minio: miniotest.Start(tb)}
	w.bucket, w.keys = w.minio.Bucket(tb), w.minio.CredentialsDir(tb)
	w.env = []string{"PATH=/usr/bin:/bin:" + os.Getenv(mongotest.ProgramsVariable), "HOME=" + w.dir, "LC_ALL=C"}
	return w
}

func (w *world) connectTo(name engine.Name, host string, port int, user, password string) engine.Connection {
	w.write(filepath.Join(w.secrets, "username"), user)
	w.write(filepath.Join(w.secrets, "password"), password)
	return engine.Connection{Engine: name, Host: host, Port: port, TLSMode: engine.TLSDisable,
		UsernameFile: filepath.Join(w.secrets, "username"), PasswordFile: filepath.Join(w.secrets, "password")}
}

func startMariaDB(w *world, mib int) *engineBench {
	s := mariadbtest.Start(w)
	s.Exec(w, "", "CREATE DATABASE shop")
	s.Exec(w, "shop", "CREATE TABLE orders (id INT PRIMARY KEY, customer VARCHAR(80), placed DATETIME, note TEXT, total DECIMAL(10, 2), KEY (placed))",
		fmt.Sprintf("INSERT INTO orders SELECT seq, CONCAT('customer ', seq %% 9973), '2026-01-01' + INTERVAL seq SECOND, "+
			"CONCAT(MD5(seq), ' wishes ', MD5(seq + 1), ' to be sent to ', MD5(seq * 7), REPEAT(' as before', seq %% 7)), seq / 7 FROM seq_1_to_%d", mib*5000),
		"CREATE USER plain@'%' IDENTIFIED BY 'plain'", "GRANT ALL ON *.* TO plain@'%'")
	options := fmt.Sprintf("--no-defaults --host=%s --port=%d --user=plain --password=plain --skip-ssl", s.Host, s.Port)
	return &engineBench{world: w, title: "MariaDB 10.11", source: "shop", target: "restored",
		connection: w.connectTo(engine.MariaDB, s.Host, s.Port, mariadbtest.Superuser, mariadbtest.Password),
		dumpLine:   "mariadb-dump " + options + " --single-transaction --routines --events --hex-blob shop | zstd -q -3 -T0 >reference.zst",
		loadLine:   "mariadb " + options + " -e 'CREATE DATABASE restored'; zstd -q -d -c reference.zst | mariadb " + options + " restored",
		empty:      func() { s.Exec(w, "", "DROP DATABASE restored") }}
}

func startRedis(w *world, mib int) *engineBench {
	s := redistest.Start(w)
	const script = "for i = ARGV[1], ARGV[2] do redis.call('SET', 'order:' .. i, redis.sha1hex(i) .. ' wishes ' .. redis.sha1hex(i + 1) .. string.rep(' as before', i % 40)) " +
		"if i % 10 == 0 then redis.call('HSET', 'customer:' .. i, 'name', redis.sha1hex(i), 'city', 'Paris', 'orders', i) end end"
	const batch = 10000
	for first := 1; first < mib*5000; first += batch {
		s.Do(w, 0, "EVAL", script, 0, first, first+batch-1)
	}
	s.Do(w, 0, "ACL", "SETUSER", "plain", "on", ">plain", "~*", "&*", "+@all")
	return &engineBench{world: w, title: "Redis 7.0", source: "0", target: "1",
		connection: w.connectTo(engine.Redis, s.Host, s.Port, redistest.Superuser, redistest.Password),
		dumpLine: fmt.Sprintf("redis-cli -h %s -p %d --user plain --pass plain --no-auth-warning --rdb - 2>/dev/null | zstd -q -3 -T0 >reference.zst",
			s.Host, s.Port),
		empty: func() { s.Do(w, 1, "FLUSHDB") }}
}

func startMongoDB(w *world, mib int) *engineBench {
	s := mongotest.Start(w)
	const batch = 1000
	for first := 0; first < mib*1500; first += batch {
		var documents []any
		for i := first; i < first+batch; i++ {
			sum := sha256.Sum256([]byte(strconv.Itoa(i)))
			documents = append(documents, bson.D{{Key: "_id", Value: i}, {Key: "customer", Value: fmt.Sprintf("customer %d", i%9973)},
				{Key: "note", Value: fmt.Sprintf("%x wishes %x%s", sum, sum[:8], strings.Repeat(" as before", i%80))}, {Key: "total", Value: float64(i) / 7}})
		}
		s.Insert(w, "shop", "orders", documents...)
	}
	w.write(filepath.Join(w.dir, "mongo.yaml"), fmt.Sprintf("uri: %q\n", (&url.URL{Scheme: "mongodb", Host: net.JoinHostPort(s.Host, strconv.Itoa(s.Port)),
		User: url.UserPassword(mongotest.Superuser, mongotest.Password), Path: "/", RawQuery: "authSource=admin"}).String()))
	return &engineBench{world: w, title: "MongoDB (FerretDB 1.24)", source: "shop", target: "restored",
		connection: w.connectTo(engine.MongoDB, s.Host, s.Port, mongotest.Superuser, mongotest.Password),
		dumpLine:   "mongodump --quiet --config=mongo.yaml --db=shop --archive | zstd -q -3 -T0 >reference.zst",
		loadLine:   "zstd -q -d -c reference.zst | mongorestore --quiet --config=mongo.yaml --archive --nsFrom='shop.*' --nsTo='restored.*'",
		empty:      func() { s.Run(w, "restored", bson.D{{Key: "dropDatabase", Value: 1}}) }}
}

func (e *engineBench) measure(rounds int, limit time.Duration) {
	staging := filepath.Join(e.dir, "staging")
	e.pipeline = &subject{name: e.title + ": dump verb without its decode"}
	e.dump = &subject{name: e.title + ": dump verb", rounds: rounds, run: func(int) figure {
		took := e.dumped(staging)
		e.bytes = took.result.Artifact.UncompressedBytes
		e.pipeline.runs = append(e.pipeline.runs, took.pipeline())
		return took.figure
	}}
	e.reference = e.world.reference(e.title+": its own tool | zstd", rounds, e.dumpLine, "reference.zst")
	interleave(limit, e.reference, e.dump)
	e.measureLoad(rounds, limit)
}

// measureLoad restores what is staged, into a database that is not there.
func (e *engineBench) measureLoad(rounds int, limit time.Duration) {
	e.upload(filepath.Join(e.dir, "staging"), restoreKey)
	artifact, fetched := e.readStagedArtifact(filepath.Join(e.dir, "staging")), filepath.Join(e.dir, "fetched")
	e.load = &subject{name: e.title + ": load verb", rounds: rounds, run: func(int) figure {
		defer e.empty()
		if err := os.RemoveAll(fetched); err != nil {
			e.Fatal(err)
		}
		e.fetchFor(e.connection.Engine, fetched, restoreKey, artifact)
		t := task(contract.VerbLoad)
		connection := e.connection
		connection.Databases = []string{e.target}
		t.Database, t.Restore = &connection, &engine.RestoreOptions{}
		return e.agent(fetched, t).figure
	}}
	if e.loadLine == "" {
		interleave(limit, e.load)
		return
	}
	line := e.world.reference(e.title+": zstd -d | its own tool", rounds, e.loadLine, "")
	e.loadReference = &subject{name: line.name, rounds: rounds, run: func(round int) figure {
		defer e.empty()
		return line.run(round)
	}}
	interleave(limit, e.loadReference, e.load)
}

// dumped stages an artifact, anew each time.
func (e *engineBench) dumped(staging string) outcome {
	if err := os.RemoveAll(staging); err != nil {
		e.Fatal(err)
	}
	t := task(contract.VerbDump)
	connection := e.connection
	connection.Databases = []string{e.source}
	t.Database, t.Compression = &connection, &contract.Compression{Algorithm: "Zstd", Level: 3}
	return e.agent(staging, t)
}

func engineReport(all []*engineBench, load string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured %s on %s. The machine's load was %s when it began.\n\n", time.Now().UTC().Format("2006-01-02 15:04 UTC"),
		cores("the database and MinIO"), load)
	t := table(&b, "Engine", "What", "Against", "Rounds", "Ratio of wall time", "Range", "Wall, s", "Agent's peak memory")
	row := func(e *engineBench, what, against string, ours, theirs, memory *subject) {
		cells := []string{e.title, what, against, strconv.Itoa(len(ours.runs)), "", "", fmt.Sprintf("%.1f", ours.median(wall)), mebibytes(memory.peak())}
		if theirs != nil {
			each := ratios([]*subject{ours}, []*subject{theirs})
			cells[4], cells[5] = fmt.Sprintf("**%.2f**", median(each)), fmt.Sprintf("%.2f–%.2f", slices.Min(each), slices.Max(each))
		}
		t(cells...)
	}
	for _, e := range all {
		tool := programOf(e.dumpLine)
		row(e, "dump pipeline, "+mebibytes(e.bytes), "`"+tool+" … \\| zstd -3 -T0 > file`", e.pipeline, e.reference, e.dump)
		against := "no tool of its own does"
		if e.loadLine != "" {
			against = "`zstd -d \\| " + programOf(e.loadLine[strings.Index(e.loadLine, "| ")+2:]) + "`"
		}
		row(e, "load verb: restore, check, swap", against, e.load, e.loadReference, e.load)
	}
	return b.String()
}

// programOf a command is its first word.
func programOf(line string) string {
	program, _, _ := strings.Cut(line, " ")
	return program
}
