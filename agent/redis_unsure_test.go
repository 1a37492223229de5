package agent_test

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/holdfast-dev/holdfast/contract"
)

// losesAnswer starts a way to a server on which the connection that sends this is lost: the server gets it, and its answer comes
// to nobody. Where gone is set, no further connection is taken.
func losesAnswer(t *testing.T, server, to string, gone bool) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = client.Close() }()
				if relayUntil(client, server, to) && gone {
					_ = listener.Close()
				}
			}()
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port
}

// relayUntil passes everything on, both ways, and nothing back once the client has sent this: then it waits until the server has
// done it, which an answer shows.
func relayUntil(client net.Conn, address, sent string) (lost bool) {
	server, err := net.Dial("tcp", address)
	if err != nil {
		return false
	}
	defer func() { _ = server.Close() }()
	pass := make(chan bool, 1)
	pass <- true
	go func() {
		buffer := make([]byte, 64<<10)
		for {
			n, err := client.Read(buffer)
			if bytes.Contains(buffer[:n], []byte(sent)) {
				<-pass
			}
			if _, failed := server.Write(buffer[:n]); err != nil || failed != nil {
				_ = server.(*net.TCPConn).CloseWrite()
				return
			}
		}
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return false
		}
		select {
		case <-pass:
			_, err = io.Copy(client, bytes.NewReader(buffer[:n]))
			pass <- true
		default:
			return true
		}
		if err != nil {
			return false
		}
	}
}

// A swap whose answer is lost was done: it is found out at once or, where the server cannot be asked, by the next try, which does not
// do it again over what clients wrote since. Nothing that was swapped out is given up as if it had been loaded.
func TestRedisSwapWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	for _, config := range []string{"databases 16", "databases 1"} {
		for _, gone := range []bool{false, true} {
			f := newRedisFixture(t, config)
			f.db.Do(t, 0, "SET", "k", "old")
			key := f.backup("0")
			f.db.Do(t, 0, "SET", "k", "new")
			r := f.restoreJob(key)
			r.fetch()
			// the last command of a swap sets one of these marks
			sent := map[string]string{"databases 16": "replaced ", "databases 1": "done-in-place "}[config] + r.task.Object.UID
			r.task.Database.Port = losesAnswer(t, f.db.Address(), sent, gone)
			result := r.run(contract.VerbLoad)
			if !gone && result.Failure != nil {
				t.Fatalf("%s: %+v", config, *result.Failure)
			}
			if gone {
				checkFailure(t, result, contract.ReasonServerUnreachable, true, "is found out by the next try")
			}
			if got := f.db.Do(t, 0, "GET", "k"); got != "old" {
				t.Fatalf("%s, gone %t: the swap was not done: %s", config, gone, got)
			}
			f.db.Do(t, 0, "SET", "k", "newest")
			r.task.Database.Port = f.db.Port
			r.must(contract.VerbLoad)
			if got := f.db.Do(t, 0, "GET", "k") + " " + f.db.Keys(t); got != "newest db0=1" {
				t.Errorf("%s, gone %t: the server holds %s", config, gone, got)
			}
		}
	}
}
