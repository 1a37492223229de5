//go:build e2e

package e2e

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"testing"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/testutil/redistest"
)

//go:embed testdata/redis/shop.txt
var redisShop string

// TestRedis is the main job of Redis, whole. Its databases are numbers.
func TestRedis(t *testing.T) {
	runEngine(t, engineCase{
		kind: serverKind{
			engine: v1alpha1.EngineRedis, image: enginesImage, port: 6379, container: engineContainer("redis"),
			ping: []string{"redis-cli", "-e", "-s", "/tmp/socket", "DBSIZE"},
		},
		setup: func(user, password string) map[string]string {
			return map[string]string{"setup": fmt.Sprintf("user %s on ~* &* +@all #%x\n", user, sha256.Sum256([]byte(password)))}
		},
		client: func(database string) []string {
			if database == "" {
				database = "0"
			}
			return []string{"redis-cli", "-e", "-s", "/tmp/socket", "-n", database}
		},
		orders: "0", copy: "1", wayBack: "2",
		fill:    redisShop,
		damage:  "DEL stream list\nHSET hash field damaged\nSET surplus 1\nPERSIST expiring\n",
		content: fmt.Sprintf("EVAL %q 0\n", redistest.ContentScript),
		write:   "MULTI\nINCR counter:a\nLPUSH counter:log written\nINCR counter:b\nEXEC",
		balance: "MGET counter:a counter:b\n",
		broken:  []byte("REDIS0010\xfa\x09redis-ver\x067.0.15\xfe\x00\x00\x03key\x05value"), whyBroken: "ArtifactCorrupt",
		failures: []backupFailure{
			{"no-such-database", withDatabase("99"), v1alpha1.ReasonDumpFailed, "DatabaseNotFound", []string{"99", "names"}},
		},
	})
}
