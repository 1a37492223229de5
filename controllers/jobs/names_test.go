package jobs_test

import (
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/holdfast-dev/holdfast/controllers/jobs"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
)

const (
	oneUID   = "3f2a91c0-1111-4222-8333-444455556666"
	otherUID = "3f2a91c1-1111-4222-8333-444455556666"
)

func TestChildNamesAreLegalWhateverTheOwnersName(t *testing.T) {
	t.Parallel()
	for name, owner := range map[string]string{
		"short":                         "a",
		"plain":                         "orders",
		"a dot":                         "orders.v2",
		"dots only between":             "a.b.c.d",
		"exactly what fits":             strings.Repeat("a", 49),
		"one more than fits":            strings.Repeat("a", 50),
		"a dot where it is cut":         strings.Repeat("a", 48) + "." + strings.Repeat("b", 20),
		"hyphens where it is cut":       strings.Repeat("a", 45) + "------" + strings.Repeat("b", 20),
		"253 characters":                strings.Repeat("x", 253),
		"253 characters with dots":      testutil.LongName(),
		"digits first, as labels allow": "0orders",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, suffix := range []string{"dump", "inspect", "staging", "snap-0a1b2c3d"} {
				child := jobs.ChildName(testutil.Backup(owner).UID(oneUID).Build(), suffix)
				if problems := validation.IsDNS1123Label(child); len(problems) > 0 {
					t.Errorf("%q of owner %q: %v", child, owner, problems)
				}
				if !strings.HasSuffix(child, "-3f2a91c0-"+suffix) {
					t.Errorf("%q does not tell its owner's UID and its part", child)
				}
			}
		})
	}
}

func TestChildNamesKeepWhatFitsOfTheOwnersName(t *testing.T) {
	t.Parallel()
	for owner, want := range map[string]string{
		"orders":                  "orders-3f2a91c0-dump",
		"orders.v2":               "orders-v2-3f2a91c0-dump",
		strings.Repeat("a", 253):  strings.Repeat("a", 49) + "-3f2a91c0-dump",
		strings.Repeat("a.", 100): strings.TrimSuffix(strings.Repeat("a-", 25), "-") + "-3f2a91c0-dump",
	} {
		if got := jobs.ChildName(testutil.Backup(owner).UID(oneUID).Build(), "dump"); got != want {
			t.Errorf("the child of %q is %q, want %q", owner, got, want)
		}
	}
}

func TestChildNamesTellOwnersApartByUID(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, owner := range []string{"orders", testutil.LongName()} {
		for _, uid := range []string{oneUID, otherUID} {
			for _, suffix := range []string{"dump", "upload"} {
				child := jobs.ChildName(testutil.Backup(owner).UID(uid).Build(), suffix)
				if seen[child] {
					t.Errorf("%q names the children of two owners", child)
				}
				seen[child] = true
			}
		}
	}
	if first, again := jobs.ChildName(testutil.Backup("a").UID(oneUID).Build(), "dump"),
		jobs.ChildName(testutil.Backup("a").UID(oneUID).Build(), "dump"); first != again {
		t.Errorf("the same child is called %q and %q", first, again)
	}
}

func TestShortUID(t *testing.T) {
	t.Parallel()
	for uid, want := range map[string]string{oneUID: "3f2a91c0", "a-b": "ab", "": ""} {
		if got := jobs.ShortUID(testutil.Backup("a").UID(uid).Build().UID); got != want {
			t.Errorf("the short form of UID %q is %q, want %q", uid, got, want)
		}
	}
}

func TestShortHash(t *testing.T) {
	t.Parallel()
	if got := jobs.ShortHash("data-orders-db-0"); !regexp.MustCompile(`^[0-9a-f]{8}$`).MatchString(got) {
		t.Errorf("the hash %q is not eight hexadecimal digits", got)
	}
	if jobs.ShortHash("data-orders-db-0") == jobs.ShortHash("data-orders-db-1") {
		t.Error("two claims have the same hash")
	}
}
