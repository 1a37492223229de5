package controllers

import (
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/jobs"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/storage"
)

// This file turns what users wrote into what an agent is told, and into the Secrets that its pod mounts.

func reference(owner flow.Subject, kind string) storage.ObjectReference {
	return storage.ObjectReference{
		Kind: kind, Namespace: owner.GetNamespace(), Name: owner.GetName(), UID: string(owner.GetUID()),
	}
}

// withDatabase lets a blueprint's agent reach a database server.
func withDatabase(b *jobs.Blueprint, db v1alpha1.DatabaseSpec, image string) {
	ref := db.CredentialsSecretRef
	b.ToolsImage = image
	b.Task.Database = &engine.Connection{
		Engine: engine.Name(db.Engine), Host: db.Host, Port: int(db.Port), Databases: databaseNames(db),
		UsernameFile: contract.UsernameFile, PasswordFile: contract.PasswordFile,
		TLSMode: engine.TLSMode(orDefault(db.TLS.Mode, v1alpha1.TLSVerifyFull)), Image: image,
		AuthSource: db.AuthSource,
	}
	username, password := orDefault(ref.UsernameKey, "username"), orDefault(ref.PasswordKey, "password")
	b.Task.DatabaseSecret = &contract.SecretNames{Name: ref.Name, Keys: []string{username, password}}
	b.Secrets = append(b.Secrets, jobs.SecretMount{
		Secret: ref.Name, Dir: contract.DatabaseSecretDir,
		Files: []jobs.SecretFile{{Key: username, File: "username"}, {Key: password, File: "password"}},
	})
	if ca := db.TLS.CASecretRef; ca.Name != "" {
		b.Task.Database.CAFile = contract.DatabaseCAFile
		b.Task.DatabaseCASecret = &contract.SecretNames{Name: ca.Name, Keys: []string{caKey(ca)}}
		b.Secrets = append(b.Secrets, caMount(ca, contract.DatabaseCADir))
	}
}

// withStore lets a blueprint's agent reach an object store.
func withStore(b *jobs.Blueprint, bucket v1alpha1.S3Bucket) {
	b.Task.Store = storeConfig(bucket)
	if ref := bucket.CredentialsSecretRef; ref.Name != "" {
		b.Task.Store.CredentialsDir = contract.StoreSecretDir
		b.Task.StoreSecret = &contract.SecretNames{Name: ref.Name, Keys: []string{"accessKeyID", "secretAccessKey"}}
		b.Secrets = append(b.Secrets, jobs.SecretMount{
			Secret: ref.Name, Dir: contract.StoreSecretDir, Files: []jobs.SecretFile{
				{Key: "accessKeyID", File: "accessKeyID"},
				{Key: "secretAccessKey", File: "secretAccessKey"},
				{Key: "sessionToken", File: "sessionToken"},
			},
		})
	}
	if ca := bucket.CASecretRef; ca.Name != "" {
		b.Task.Store.CAFile = contract.StoreCAFile
		b.Task.StoreCASecret = &contract.SecretNames{Name: ca.Name, Keys: []string{caKey(ca)}}
		b.Secrets = append(b.Secrets, caMount(ca, contract.StoreCADir))
	}
}

func storeConfig(bucket v1alpha1.S3Bucket) *storage.Config {
	custom := bucket.Endpoint != ""
	pathStyle := custom
	if bucket.ForcePathStyle != nil {
		pathStyle = *bucket.ForcePathStyle
	}
	checksums := bucket.Checksums == v1alpha1.ChecksumsWhenSupported || (bucket.Checksums == "" && !custom)
	return &storage.Config{
		Provider: storage.Provider(bucket.Provider), Bucket: bucket.Bucket,
		Endpoint: strings.TrimSuffix(bucket.Endpoint, "/"), Region: orDefault(bucket.Region, "us-east-1"),
		VirtualHostStyle: !pathStyle, PartChecksums: checksums,
	}
}

// maxGzip is the highest level that gzip has; the API allows Zstd's higher ones and promises to take them as this.
const maxGzip = 9

func compressionTask(spec v1alpha1.CompressionSpec) *contract.Compression {
	algorithm := orDefault(spec.Algorithm, v1alpha1.CompressionZstd)
	level := int(max(1, spec.Level))
	if algorithm == v1alpha1.CompressionGzip {
		level = min(level, maxGzip)
	}
	return &contract.Compression{Algorithm: string(algorithm), Level: level}
}

func caMount(ref v1alpha1.SecretKeyRef, dir string) jobs.SecretMount {
	return jobs.SecretMount{Secret: ref.Name, Dir: dir, Files: []jobs.SecretFile{{Key: caKey(ref), File: "ca.crt"}}}
}

func caKey(ref v1alpha1.SecretKeyRef) string { return orDefault(ref.Key, "ca.crt") }

func databaseNames(db v1alpha1.DatabaseSpec) []string {
	names := make([]string, 0, len(db.Names))
	for _, name := range db.Names {
		names = append(names, string(name))
	}
	return names
}

func orDefault[T ~string](value, fallback T) T {
	if value == "" {
		return fallback
	}
	return value
}

// imageFor returns the image with an engine's client tools, which is the agent's own where the engine needs none, or says
// that this operator does not serve the engine.
func (o Options) imageFor(db v1alpha1.DatabaseSpec) (string, error) {
	fallback, serves := o.Images[db.Engine]
	if !serves {
		return "", flow.Stalled(v1alpha1.ReasonEngineNotSupported, "engine %s is not served by this version of Holdfast, "+
			"which serves %s", db.Engine, strings.Join(served(o.Images), ", "))
	}
	return orDefault(db.Image, orDefault(fallback, o.AgentImage)), nil
}

// served names the engines for people.
func served(images map[v1alpha1.Engine]string) []string {
	names := make([]string, 0, len(images))
	for name := range images {
		names = append(names, string(name))
	}
	slices.Sort(names)
	return names
}

// prefixOf the key of an artifact is what stands before namespace, name and file. The safety backup goes below it too: a
// user's rights may end there. A key that others chose may begin with what the API takes for no prefix: then it is none.
func prefixOf(key string) string {
	parts := strings.Split(key, "/")
	prefix := strings.Join(parts[:max(0, len(parts)-3)], "/")
	if len(prefix) > maxPrefix || !prefixPattern.MatchString(prefix) {
		return ""
	}
	return prefix
}

// maxPrefix and prefixPattern are what the schema of storage.s3.prefix takes.
const maxPrefix = 256

var prefixPattern = regexp.MustCompile(`^[A-Za-z0-9!_.*'()-]+(/[A-Za-z0-9!_.*'()-]+)*$`)

// sourceBucket is the place that a restore's URL names, reached as source.s3 says.
func sourceBucket(source v1alpha1.RestoreSource) (v1alpha1.S3Bucket, string, error) {
	bucket, key, err := storage.ParseURL(source.URL)
	if err != nil {
		return v1alpha1.S3Bucket{}, "", flow.Stalled(v1alpha1.ReasonInvalidSource, "spec.source.url: %v", err)
	}
	s3 := source.S3
	if s3.Bucket != "" && s3.Bucket != bucket {
		return v1alpha1.S3Bucket{}, "", flow.Stalled(v1alpha1.ReasonInvalidSource, "spec.source.url names bucket %s, "+
			"spec.source.s3.bucket says %s: leave the latter out, or make them agree", bucket, s3.Bucket)
	}
	if s3.Prefix != "" && !strings.HasPrefix(key, s3.Prefix+"/") {
		return v1alpha1.S3Bucket{}, "", flow.Stalled(v1alpha1.ReasonInvalidSource, "the key of spec.source.url, %q, does "+
			"not begin with spec.source.s3.prefix %q: leave the latter out, or make them agree", key, s3.Prefix)
	}
	return v1alpha1.S3Bucket{S3Access: s3.S3Access, Bucket: bucket, Prefix: orDefault(s3.Prefix, prefixOf(key))}, key, nil
}
