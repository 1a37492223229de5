package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/contract"
)

const (
	databaseSecretHint = "create it, or name its keys with spec.database.credentialsSecretRef.usernameKey/passwordKey"
	storeSecretHint    = "create it with the keys accessKeyID and secretAccessKey, or name another in credentialsSecretRef"
)

// readSecret reads one key of a Secret that is mounted as a file: its exact bytes, without one line break at the end,
// which editors and echo leave there. key is the place of the key in names.
func readSecret(file string, names *contract.SecretNames, key int, hint string) (string, error) {
	raw, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read a file of a Secret: %w", err)
	}
	value := strings.TrimSuffix(string(raw), "\n")
	if value == "" {
		return "", secretMissing(names, key, path.Base(file), hint)
	}
	return value, nil
}

// secretMissing names the Secret and its key as the user wrote them. It may pass: somebody may create the Secret.
func secretMissing(names *contract.SecretNames, key int, file, hint string) error {
	name, keyName := "", file
	if names != nil {
		name = names.Name
		if key < len(names.Keys) {
			keyName = names.Keys[key]
		}
	}
	return transient(contract.ReasonSecretMissing, "Secret %q is absent or has no key %q: %s", name, keyName, hint)
}

// storeSecretMissing names the first key of the store's Secret that is not there.
func (w *work) storeSecretMissing(cause error) error {
	for i, file := range []string{"accessKeyID", "secretAccessKey"} {
		if raw, err := os.ReadFile(path.Join(w.task.Store.CredentialsDir, file)); err != nil || len(raw) == 0 {
			return secretMissing(w.task.StoreSecret, i, file, storeSecretHint)
		}
	}
	return cause
}

// shortestHidden is the shortest secret that is hidden in texts: a shorter one would garble every message, and says
// nothing in one.
const shortestHidden = 4

// redactor takes secrets out of texts.
type redactor struct {
	mu      sync.Mutex
	secrets []string
}

// hide makes a secret, and the ways in which it may be quoted, unreadable from now on.
func (r *redactor) hide(secret string) {
	if len(secret) < shortestHidden {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	escape := strings.NewReplacer(`\`, `\\`, `'`, `\'`, `"`, `\"`, `:`, `\:`)
	json := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	r.secrets = append(r.secrets, secret, url.QueryEscape(secret), url.PathEscape(secret), escape.Replace(secret),
		strings.ReplaceAll(secret, "'", "''"), json.Replace(secret))
}

func (r *redactor) redact(text string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, secret := range r.secrets {
		text = strings.ReplaceAll(text, secret, "[removed]")
	}
	return text
}

// redactingWriter takes secrets out of whole lines on their way to a log.
type redactingWriter struct {
	out  io.Writer
	hide *redactor
}

func (w redactingWriter) Write(line []byte) (int, error) {
	if _, err := io.WriteString(w.out, w.hide.redact(string(line))); err != nil {
		return 0, err
	}
	return len(line), nil
}
