package storage

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	urlScheme  = "s3://"
	keyTime    = "20060102T150405Z"
	maxKeySize = 1024 // bytes, of every S3 store
)

// bucketName is a little wider than today's rule for new buckets: old ones with capitals and underscores live on.
var bucketName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]$`)

// ArtifactKey returns the key of an artifact: prefix/namespace/name/<started>-<first 8 hex of uid><extension>. The
// extension has its leading dot. The time is written in UTC, so keys of one database sort by age.
func ArtifactKey(prefix, namespace, name string, started time.Time, uid, extension string) string {
	file := started.UTC().Format(keyTime) + "-" + shortUID(uid) + extension
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	return prefix + namespace + "/" + name + "/" + file
}

// ManifestKey returns the key of the manifest of the artifact under key.
func ManifestKey(key string) string {
	return key + ManifestSuffix
}

// keyNamesOwner says whether an artifact's key was made by ArtifactKey for an object with this UID.
func keyNamesOwner(key, uid string) bool {
	_, rest, found := strings.Cut(path.Base(key), "-")
	return found && shortUID(uid) != "" && (rest == shortUID(uid) || strings.HasPrefix(rest, shortUID(uid)+"."))
}

func shortUID(uid string) string {
	short := strings.ReplaceAll(uid, "-", "")
	return short[:min(8, len(short))]
}

// URL returns the URL of the object under key: s3://bucket/key. The key stands in it as it is, nothing is escaped.
func URL(bucket, key string) string {
	return urlScheme + bucket + "/" + key
}

// ParseURL splits the URL of an artifact. What URL returns for a valid bucket and key is parsed to the same. Errors
// are of kind ErrInvalidConfig.
func ParseURL(url string) (bucket, key string, err error) {
	rest, found := strings.CutPrefix(url, urlScheme)
	if !found {
		return "", "", badURL(url, "it does not begin with s3://")
	}
	bucket, key, found = strings.Cut(rest, "/")
	switch problem := bucketProblem(bucket); {
	case problem != "":
		return "", "", badURL(url, problem)
	case !found || key == "":
		return "", "", badURL(url, "it names a bucket and no object in it")
	case strings.HasSuffix(key, ManifestSuffix):
		return "", "", badURL(url, "it names a manifest; leave out "+ManifestSuffix+" at its end")
	}
	if problem := keyProblem(key); problem != "" {
		return "", "", badURL(url, problem)
	}
	return bucket, key, nil
}

func badURL(url, problem string) error {
	return &Error{Kind: ErrInvalidConfig, Subject: fmt.Sprintf("the URL %q", url), Reason: problem,
		Advice: "write it as s3://bucket/key, as it stands in the status of a backup"}
}

func bucketProblem(bucket string) string {
	switch {
	case bucket == "":
		return "no bucket is named"
	case !bucketName.MatchString(bucket) || strings.Contains(bucket, ".."):
		return fmt.Sprintf("%q is no name of a bucket (3 to 63 letters, digits, dots and hyphens)", bucket)
	}
	return ""
}

// keyProblem says what is wrong with a key. Stores disagree on keys that look like paths with empty or dotted
// segments, and XML cannot carry control characters.
func keyProblem(key string) string {
	switch {
	case key == "":
		return "the key is empty"
	case len(key) > maxKeySize:
		return fmt.Sprintf("the key has %d bytes, stores take at most %d", len(key), maxKeySize)
	case !utf8.ValidString(key):
		return "the key is not valid UTF-8"
	case strings.ContainsFunc(key, unicode.IsControl):
		return "the key holds a line break or another control character"
	case strings.HasSuffix(key, "/"):
		return "it names a folder and no object: it ends with a slash"
	}
	return segmentProblem(key)
}

func segmentProblem(key string) string {
	for segment := range strings.SplitSeq(key, "/") {
		switch {
		case segment == "":
			return "the key begins with a slash or holds two in a row"
		case segment == "." || segment == "..":
			return fmt.Sprintf("the key holds a %q between slashes", segment)
		case strings.TrimSpace(segment) != segment:
			return "a part of the key begins or ends with white space"
		}
	}
	return ""
}
