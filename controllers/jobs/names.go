// Package jobs turns an object's task into a Job, and a Job into its outcome. It decides nothing about what comes next.
package jobs

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxName keeps names usable as label values and host names, which is stricter than most kinds ask for.
const maxName = 63

// ChildName is the deterministic name of what belongs to an owner: the beginning of the owner's name, the beginning
// of its UID, which tells a recreated owner's children from its forerunner's, and a suffix. It is at most 63 characters.
func ChildName(owner client.Object, suffix string) string {
	tail := "-" + ShortUID(owner.GetUID()) + "-" + suffix
	head := owner.GetName()
	if len(head) > maxName-len(tail) {
		head = head[:maxName-len(tail)]
	}
	// A dot is fine in an object's name, and in no label of a host name.
	return strings.Trim(strings.ReplaceAll(head, ".", "-"), "-") + tail
}

// ShortUID is the first eight hexadecimal digits of a UID.
func ShortUID(uid types.UID) string {
	digits := strings.ReplaceAll(string(uid), "-", "")
	return digits[:min(8, len(digits))]
}

// ShortHash stands for a text where there is no room for it.
func ShortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}
