package agent_test

import (
	"path/filepath"
	"testing"

	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/testutil/tlstest"
)

// checkTLSModes backs a database up and restores it in each mode that protects the connection. The server's certificate is for
// 127.0.0.1 alone, and ca is the file of the authority that signed it.
func (f *fixture) checkTLSModes(t *testing.T, database, ca string) {
	t.Helper()
	other := filepath.Join(t.TempDir(), "other.crt")
	tlstest.WriteCA(t, other)
	for name, c := range map[string]struct {
		mode     engine.TLSMode
		host, ca string
		refused  bool
	}{
		"require": {engine.TLSRequire, "127.0.0.1", "", false}, "verify CA": {engine.TLSVerifyCA, "localhost", ca, false},
		"verify full": {engine.TLSVerifyFull, "127.0.0.1", ca, false}, "wrong name": {engine.TLSVerifyFull, "localhost", ca, true},
		"wrong CA": {engine.TLSVerifyCA, "127.0.0.1", other, true}, "wrong CA for full": {engine.TLSVerifyFull, "127.0.0.1", other, true},
		"system CAs": {engine.TLSVerifyFull, "127.0.0.1", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			set := func(j *job) *job {
				j.task.Database.TLSMode, j.task.Database.Host, j.task.Database.CAFile = c.mode, c.host, c.ca
				return j
			}
			j := set(f.job(database))
			if c.refused {
				j.mustFail(contract.VerbDump, contract.ReasonServerCertificate, false, "tls.mode", "tls.caSecretRef")
				return
			}
			r := set(f.restoreJob(j.backup(), database))
			r.fetch()
			r.must(contract.VerbLoad)
		})
	}
	f.t = t
}
