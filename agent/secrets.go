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
	"github.com/holdfast-dev/holdfast/storage"
)

// secret is a Secret of the task and where the user named it.
type secret struct {
	names *contract.SecretNames
	// remedy says what to do when it is absent.
	remedy string
}

func (w *work) databaseSecret() secret {
	return secret{w.task.DatabaseSecret, "create it, or correct the reference (spec.database.credentialsSecretRef, whose usernameKey and " +
		"passwordKey name other keys)"}
}

func (w *work) databaseCA() secret {
	return secret{w.task.DatabaseCASecret, "create it, or correct the reference (spec.database.tls.caSecretRef)"}
}

func (w *work) storeSecret() secret {
	return secret{w.task.StoreSecret, "create it with the keys accessKeyID and secretAccessKey, or correct the reference (" +
		w.storeField("credentialsSecretRef") + ")"}
}

func (w *work) storeCA() secret {
	return secret{w.task.StoreCASecret, "create it, or correct the reference (" + w.storeField("caSecretRef") + ")"}
}

// storeField is where the object of the task has a field of its store.
func (w *work) storeField(name string) string {
	if w.task.Object.Kind == "DatabaseRestore" {
		return "spec.source.s3." + name + ", or spec.storage.s3." + name + " of the DatabaseBackup that spec.source.backupRef names"
	}
	return "spec.storage.s3." + name
}

// readSecret reads one key of a Secret that is mounted as a file: its exact bytes, without one line break at the end,
// which editors and echo leave there. key is the place of the key in the Secret's names.
func (w *work) readSecret(file string, from secret, key int) (string, error) {
	raw, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read a file of a Secret: %w", err)
	}
	value := strings.TrimSuffix(string(raw), "\n")
	if value == "" {
		return "", w.secretMissing(from, key, path.Base(file))
	}
	return value, nil
}

// needCA fails when the file of a CA was named and is not there. No file is no failure: the system's CAs are meant.
func (w *work) needCA(file string, from secret) error {
	if file == "" {
		return nil
	}
	_, err := w.readSecret(file, from, 0)
	return err
}

// secretMissing names the Secret and its key as the user wrote them. It may pass: somebody may create the Secret.
func (w *work) secretMissing(from secret, key int, file string) error {
	name, keyName := "", file
	if from.names != nil {
		name = from.names.Name
		if key < len(from.names.Keys) {
			keyName = from.names.Keys[key]
		}
	}
	return transient(contract.ReasonSecretMissing, "Secret %q of namespace %q is absent or has no key %q: %s",
		name, w.task.Object.Namespace, keyName, from.remedy)
}

// storeSecretMissing names the first key of the store's Secret that is not there.
func (w *work) storeSecretMissing(cause error) error {
	for i, file := range []string{storage.AccessKeyIDFile, storage.SecretAccessKeyFile} {
		if raw, err := os.ReadFile(path.Join(w.task.Store.CredentialsDir, file)); err != nil || len(raw) == 0 {
			return w.secretMissing(w.storeSecret(), i, file)
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
