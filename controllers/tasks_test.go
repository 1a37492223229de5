package controllers

import (
	"cmp"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/contract"
	"github.com/holdfast-dev/holdfast/controllers/flow"
	"github.com/holdfast-dev/holdfast/controllers/jobs"
	"github.com/holdfast-dev/holdfast/controllers/testutil"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/storage"
)

func TestStoreConfig(t *testing.T) {
	t.Parallel()
	const endpoint = "https://minio.minio.svc:9000"
	for name, test := range map[string]struct {
		access v1alpha1.S3Access
		want   storage.Config
	}{
		"AWS itself": {
			v1alpha1.S3Access{Provider: v1alpha1.S3ProviderAWS, Region: "eu-west-3"},
			storage.Config{Provider: storage.ProviderAWS, Region: "eu-west-3", VirtualHostStyle: true, PartChecksums: true},
		},
		"AWS, path style": {
			v1alpha1.S3Access{Provider: v1alpha1.S3ProviderAWS, ForcePathStyle: ptr.To(true)},
			storage.Config{Provider: storage.ProviderAWS, Region: "us-east-1", PartChecksums: true},
		},
		"AWS's client at another endpoint": {
			v1alpha1.S3Access{Provider: v1alpha1.S3ProviderAWS, Endpoint: endpoint},
			storage.Config{Provider: storage.ProviderAWS, Region: "us-east-1", Endpoint: endpoint},
		},
		"AWS without checksums": {
			v1alpha1.S3Access{Provider: v1alpha1.S3ProviderAWS, Checksums: v1alpha1.ChecksumsWhenRequired},
			storage.Config{Provider: storage.ProviderAWS, Region: "us-east-1", VirtualHostStyle: true},
		},
		"compatible": {
			v1alpha1.S3Access{Provider: v1alpha1.S3ProviderS3Compatible, Endpoint: endpoint + "/"},
			storage.Config{Provider: storage.ProviderS3Compatible, Region: "us-east-1", Endpoint: endpoint},
		},
		"compatible with checksums": {
			v1alpha1.S3Access{Provider: v1alpha1.S3ProviderS3Compatible, Endpoint: endpoint, Checksums: v1alpha1.ChecksumsWhenSupported},
			storage.Config{Provider: storage.ProviderS3Compatible, Region: "us-east-1", Endpoint: endpoint, PartChecksums: true},
		},
		"compatible, virtual hosts": {
			v1alpha1.S3Access{Provider: v1alpha1.S3ProviderS3Compatible, Endpoint: endpoint, ForcePathStyle: ptr.To(false)},
			storage.Config{Provider: storage.ProviderS3Compatible, Region: "us-east-1", Endpoint: endpoint, VirtualHostStyle: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.want.Bucket = "backups"
			if got := storeConfig(v1alpha1.S3Bucket{S3Access: test.access, Bucket: "backups", Prefix: "prod"}); *got != test.want {
				t.Errorf("the agent is told\n%+v, want\n%+v", *got, test.want)
			}
		})
	}
}

func TestWithStoreMountsWhatIsNamed(t *testing.T) {
	t.Parallel()
	var b jobs.Blueprint
	withStore(&b, *testutil.Bucket())
	want := []jobs.SecretMount{
		{Secret: "s3", Dir: contract.StoreSecretDir, Files: []jobs.SecretFile{
			{Key: "accessKeyID", File: "accessKeyID"}, {Key: "secretAccessKey", File: "secretAccessKey"}, {Key: "sessionToken", File: "sessionToken"},
		}},
		{Secret: "s3-ca", Dir: contract.StoreCADir, Files: []jobs.SecretFile{{Key: "tls.crt", File: "ca.crt"}}},
	}
	if !reflect.DeepEqual(b.Secrets, want) {
		t.Errorf("mounts are\n%v, want\n%v", b.Secrets, want)
	}
	if b.Task.Store.CredentialsDir != contract.StoreSecretDir || b.Task.Store.CAFile != contract.StoreCAFile {
		t.Errorf("the agent is told of %q and %q", b.Task.Store.CredentialsDir, b.Task.Store.CAFile)
	}
	if got := b.Task.StoreSecret; got.Name != "s3" || !reflect.DeepEqual(got.Keys, []string{"accessKeyID", "secretAccessKey"}) {
		t.Errorf("messages would name %+v", got)
	}
	if got := b.Task.StoreCASecret; got.Name != "s3-ca" || !reflect.DeepEqual(got.Keys, []string{"tls.crt"}) {
		t.Errorf("messages would name %+v for the CA", got)
	}
}

func TestWithStoreLeavesCredentialsToTheChainOfTheSDK(t *testing.T) {
	t.Parallel()
	var b jobs.Blueprint
	withStore(&b, v1alpha1.S3Bucket{S3Access: v1alpha1.S3Access{Provider: v1alpha1.S3ProviderAWS}, Bucket: "backups"})
	if len(b.Secrets) > 0 || b.Task.StoreSecret != nil || b.Task.Store.CredentialsDir != "" || b.Task.Store.CAFile != "" {
		t.Errorf("mounts %v, task %+v", b.Secrets, b.Task)
	}
}

func TestWithDatabase(t *testing.T) {
	t.Parallel()
	db := testutil.Database("orders", "a \"b\"")
	db.Port, db.CredentialsSecretRef.UsernameKey, db.CredentialsSecretRef.PasswordKey = 5433, "user", "pass"
	db.TLS.Mode, db.TLS.CASecretRef.Key = v1alpha1.TLSVerifyCA, "root.pem"
	var b jobs.Blueprint
	withDatabase(&b, db, "postgres:16")
	want := engine.Connection{
		Engine: engine.PostgreSQL, Host: "orders-db.shop.svc", Port: 5433, Databases: []string{"orders", "a \"b\""},
		UsernameFile: contract.UsernameFile, PasswordFile: contract.PasswordFile, TLSMode: engine.TLSVerifyCA,
		CAFile: contract.DatabaseCAFile, Image: "postgres:16",
	}
	if !reflect.DeepEqual(*b.Task.Database, want) || b.ToolsImage != "postgres:16" {
		t.Errorf("the agent is told\n%+v, want\n%+v", *b.Task.Database, want)
	}
	mounts := []jobs.SecretMount{
		{Secret: "orders-db", Dir: contract.DatabaseSecretDir, Files: []jobs.SecretFile{{Key: "user", File: "username"}, {Key: "pass", File: "password"}}},
		{Secret: "orders-ca", Dir: contract.DatabaseCADir, Files: []jobs.SecretFile{{Key: "root.pem", File: "ca.crt"}}},
	}
	if !reflect.DeepEqual(b.Secrets, mounts) {
		t.Errorf("mounts are\n%v, want\n%v", b.Secrets, mounts)
	}
	if got := b.Task.DatabaseCASecret; got.Name != "orders-ca" || !reflect.DeepEqual(got.Keys, []string{"root.pem"}) {
		t.Errorf("messages would name %+v for the CA", got)
	}
}

func TestWithDatabaseDefaults(t *testing.T) {
	t.Parallel()
	db := testutil.Database()
	db.TLS = v1alpha1.DatabaseTLS{}
	var b jobs.Blueprint
	withDatabase(&b, db, "postgres:17")
	if got := b.Task.Database; got.TLSMode != engine.TLSVerifyFull || got.CAFile != "" || len(got.Databases) != 0 || got.Port != 0 {
		t.Errorf("the agent is told %+v: a connection is verified unless somebody says otherwise", got)
	}
	if want := []string{"username", "password"}; !reflect.DeepEqual(b.Task.DatabaseSecret.Keys, want) {
		t.Errorf("the keys are %v, want %v", b.Task.DatabaseSecret.Keys, want)
	}
	if len(b.Secrets) != 1 {
		t.Errorf("mounts are %v, want the credentials alone", b.Secrets)
	}
}

// What a task says of Secrets are their names and where their files lie: a task is an argument that all can read.
func TestTasksHoldNoSecret(t *testing.T) {
	t.Parallel()
	var b jobs.Blueprint
	withDatabase(&b, testutil.Database("orders"), "postgres:17")
	withStore(&b, *testutil.Bucket())
	raw, err := json.Marshal(b.Task)
	if err != nil {
		t.Fatal(err)
	}
	var task map[string]any
	if err := json.Unmarshal(raw, &task); err != nil {
		t.Fatal(err)
	}
	eachText(task, "", func(path, value string) {
		name := strings.ToLower(path)
		if strings.Contains(name, "password") && !strings.HasPrefix(value, "/holdfast/secrets/") {
			t.Errorf("%s of the task is %q, and no path of a file", path, value)
		}
	})
}

func eachText(value any, path string, visit func(path, value string)) {
	switch value := value.(type) {
	case map[string]any:
		for key, one := range value {
			eachText(one, path+"."+key, visit)
		}
	case []any:
		for _, one := range value {
			eachText(one, path, visit)
		}
	case string:
		visit(path, value)
	}
}

func TestImageFor(t *testing.T) {
	t.Parallel()
	o := Options{AgentImage: "holdfast:1", Images: map[v1alpha1.Engine]string{
		v1alpha1.EnginePostgreSQL: "postgres:17", v1alpha1.EngineMariaDB: "mariadb:11.8", v1alpha1.EngineRedis: ""}}
	for _, test := range []struct {
		engine      v1alpha1.Engine
		image, want string
	}{
		{v1alpha1.EnginePostgreSQL, "", "postgres:17"},
		{v1alpha1.EnginePostgreSQL, "registry.shop/postgres:16", "registry.shop/postgres:16"},
		{v1alpha1.EngineRedis, "", "holdfast:1"}, // it needs no client tools
		{v1alpha1.EngineRedis, "registry.shop/valkey:8", "registry.shop/valkey:8"},
	} {
		db := testutil.Database()
		db.Engine, db.Image = test.engine, test.image
		if got, err := o.imageFor(db); err != nil || got != test.want {
			t.Errorf("the image of %s with %q is %q (%v), want %q", test.engine, test.image, got, err, test.want)
		}
	}
	db := testutil.Database()
	db.Engine = v1alpha1.EngineMongoDB
	if stall, ok := flow.AsStall(second(o.imageFor(db))); !ok || stall.Reason != v1alpha1.ReasonEngineNotSupported ||
		!strings.Contains(stall.Message, "MongoDB") || !strings.Contains(stall.Message, "which serves MariaDB, PostgreSQL, Redis") {
		t.Errorf("an engine that is not served gave %v", stall)
	}
}

func second[A any](_ A, err error) error { return err }

func TestSourceBucket(t *testing.T) {
	t.Parallel()
	const key = "prod/shop/orders/20261130T200000Z-3f2a91c0.pgdump.zst"
	for name, test := range map[string]struct {
		url, bucket, prefix string
		says                []string // of the Stall; none: it agrees
	}{
		"url alone":                    {url: "s3://backups/" + key},
		"bucket agrees":                {url: "s3://backups/" + key, bucket: "backups"},
		"prefix agrees":                {url: "s3://backups/" + key, prefix: "prod"},
		"long prefix agrees":           {url: "s3://backups/" + key, prefix: "prod/shop"},
		"bucket differs":               {url: "s3://backups/" + key, bucket: "other", says: []string{"backups", "other", "spec.source.s3.bucket"}},
		"prefix differs":               {url: "s3://backups/" + key, prefix: "test", says: []string{"test", "spec.source.s3.prefix"}},
		"prefix is half a name":        {url: "s3://backups/" + key, prefix: "pro", says: []string{"spec.source.s3.prefix"}},
		"manifest instead of artifact": {url: "s3://backups/" + key + storage.ManifestSuffix, says: []string{"manifest"}},
		"no key":                       {url: "s3://backups/", says: []string{"spec.source.url"}},
		"another scheme":               {url: "https://backups/" + key, says: []string{"s3://"}},
		"a part of the key is dots":    {url: "s3://backups/prod/../x", says: []string{".."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := v1alpha1.RestoreSource{URL: test.url, S3: &v1alpha1.S3Source{S3Access: testutil.Access(), Bucket: test.bucket, Prefix: test.prefix}}
			bucket, got, err := sourceBucket(source)
			if test.says == nil {
				if err != nil || got != key || bucket.Bucket != "backups" || bucket.Prefix != cmp.Or(test.prefix, "prod") ||
					!reflect.DeepEqual(bucket.S3Access, testutil.Access()) {
					t.Errorf("the place is %+v, key %q (%v)", bucket, got, err)
				}
				return
			}
			stall, ok := flow.AsStall(err)
			if !ok || stall.Reason != v1alpha1.ReasonInvalidSource {
				t.Fatalf("the error is %v, want a Stall for %s", err, v1alpha1.ReasonInvalidSource)
			}
			for _, text := range test.says {
				if !strings.Contains(stall.Message, text) {
					t.Errorf("the message lacks %q: %s", text, stall.Message)
				}
			}
		})
	}
}

// The safety backup of a restore from somebody else's key must be one that the API takes.
func TestPrefixOfAKey(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"prod/shop/orders/x.pgdump.zst": "prod", "a/b/shop/orders/x.pgdump": "a/b", "shop/orders/x.pgdump": "", "x.dump": "",
		"my dumps/a/b/x.dump": "", "größe/a/b/x.dump": "", strings.Repeat("p", 257) + "/a/b/x.dump": "",
	} {
		if got := prefixOf(key); got != want {
			t.Errorf("%q: %q, want %q", key, got, want)
		}
	}
}
