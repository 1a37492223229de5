package agent_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/testutil/redistest"
)

// sends starts what answers like a server, and sends this where a snapshot is asked for. It returns a fixture with it.
func sends(t *testing.T, snapshot string) *fixture {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go answer(conn, snapshot)
		}
	}()
	address := listener.Addr().(*net.TCPAddr)
	return newFixtureFor(t, engine.Redis, "127.0.0.1", address.Port, credentials(t, "default", redistest.Password))
}

func answer(conn net.Conn, snapshot string) {
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	for {
		words, err := command(in)
		if err != nil {
			return
		}
		switch words[0] {
		case "INFO":
			const text = "redis_version:99.0.0\r\nrole:master\r\ndb0:keys=1,expires=0"
			_, _ = fmt.Fprintf(conn, "$%d\r\n%s\r\n", len(text), text)
		case "PSYNC":
			_, _ = io.WriteString(conn, snapshot)
			return
		default:
			_, _ = io.WriteString(conn, "+OK\r\n")
		}
	}
}

// command reads one command in the server's protocol.
func command(in *bufio.Reader) ([]string, error) {
	var count int
	if _, err := fmt.Fscanf(in, "*%d\r\n", &count); err != nil {
		return nil, err
	}
	words := make([]string, count)
	for i := range words {
		var length int
		if _, err := fmt.Fscanf(in, "$%d\r\n", &length); err != nil {
			return nil, err
		}
		raw := make([]byte, length+2)
		if _, err := io.ReadFull(in, raw); err != nil {
			return nil, err
		}
		words[i] = string(raw[:length])
	}
	return words, nil
}

// What a server, or something between, may send instead of a whole snapshot never becomes a backup.
func TestRedisSnapshotsThatAreNotWhole(t *testing.T) {
	t.Parallel()
	good := rdbFile("\xfe\x00\x00\x01k\x03old")
	const full = "+FULLRESYNC 8de1787ba490483314a4d30f1c628bc5025eb761 0\r\n\n\n"
	mark := strings.Repeat("m", 40)
	known := func(file string) string { return fmt.Sprintf("%s$%d\r\n%s", full, len(file), file) }
	for title, c := range map[string]struct {
		snapshot, reason string
		retryable        bool
		words            []string
	}{
		"cut":              {known(good)[:len(known(good))-9], contract.ReasonDumpIncomplete, true, []string{"before its snapshot was whole"}},
		"a shorter length": {fmt.Sprintf("%s$%d\r\n%s", full, len(good)-8, good), contract.ReasonDumpIncomplete, true, []string{"before its snapshot was whole"}},
		"more behind it":   {known(good + "x"), contract.ReasonDumpIncomplete, true, []string{"more bytes"}},
		"a bit flipped":    {known(strings.Replace(good, "old", "ole", 1)), contract.ReasonDumpIncomplete, true, []string{"checksum"}},
		"without its mark": {full + "$EOF:" + mark + "\r\n" + good, contract.ReasonDumpIncomplete, true, []string{"before its snapshot was whole"}},
		"another mark":     {full + "$EOF:" + mark + "\r\n" + good + strings.Repeat("n", 40), contract.ReasonDumpIncomplete, true, []string{"had announced"}},
		"nothing":          {full, contract.ReasonDumpIncomplete, true, []string{"before its snapshot was whole"}},
		"no snapshot":      {"+CONTINUE\r\n", contract.ReasonDumpToolFailed, true, []string{"CONTINUE"}},
		"cannot now":       {"-NOMASTERLINK Can't SYNC while not connected with my master\r\n", contract.ReasonServerUnreachable, true, []string{"NOMASTERLINK"}},
		"not served":       {"-ERR unknown command 'PSYNC'\r\n", contract.ReasonServerNotSupported, false, []string{"hosted servers"}},
		"a new type":       {known(rdbFile("\xfe\x00\x1c\x05array\x01x")), contract.ReasonServerNotSupported, false, []string{`"array"`, "newer version of Holdfast"}},
		"a new record":     {known(rdbFile("\xf3\x01")), contract.ReasonServerNotSupported, false, []string{"record of the type 243"}},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			j := sends(t, c.snapshot).job("0")
			j.mustFail(contract.VerbDump, c.reason, c.retryable, c.words...)
			if left := j.staged(); left != "" {
				t.Errorf("left on staging: %s", left)
			}
		})
	}
	sends(t, known(good)).job("0").must(contract.VerbDump)
	sends(t, full+"$EOF:"+mark+"\r\n"+good+mark).job("0").must(contract.VerbDump)
}
