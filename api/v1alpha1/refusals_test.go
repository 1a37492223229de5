package v1alpha1_test

import "strings"

// fields maps the path of a field ("spec.database.host") to its value in YAML ("" takes the field away).
type fields map[string]string

type refusal struct {
	name   string
	change fields
	path   string // of the field that the refusal names
	want   string // what the person reads
}

const (
	secretName   = "the name of a Secret holds lower-case letters, digits, - and ."
	secretKey    = "a key of a Secret holds letters, digits, -, _ and ."
	hostMessage  = "host is a DNS name or an IP address, without scheme, port or path; the port has a field of its own"
	prefixForm   = "a prefix is a path without a slash at either end, of letters, digits and ! _ . * ' ( ) -"
	prefixDots   = "a prefix has no part that is . or .."
	endpointForm = "endpoint is a scheme and a host, with a port if need be, and nothing behind: https://minio.minio.svc:9000"
	bucketForm   = "the name of a bucket holds lower-case letters, digits, - and ."
	timeoutForm  = "timeout must be a length of time greater than zero, such as 90s, 10m or 2h"
	readyForm    = "readyTimeout must be a length of time greater than zero, such as 90s, 10m or 2h"
	mongoName    = `a MongoDB database name has at most 63 bytes, none of them a space, a dot or one of /\"$*<>:|?`
	redisName    = `the databases of Redis and Valkey are numbers, such as "0"`
	urlForm      = "a URL is s3://BUCKET/KEY, as the status of a backup has it"
)

// databaseRefusals hold for both kinds: each has a spec.database.
var databaseRefusals = []refusal{
	{"no database", fields{"spec.database": ""}, "spec.database", "Required value"},
	{"no engine", fields{"spec.database.engine": ""}, "spec.database.engine", "Required value"},
	{"unknown engine", fields{"spec.database.engine": "Oracle"}, "spec.database.engine", `supported values: "PostgreSQL", "MySQL", "MariaDB", "MongoDB", "Redis"`},
	{"no host", fields{"spec.database.host": ""}, "spec.database.host", "Required value"},
	{"empty host", fields{"spec.database.host": `""`}, "spec.database.host", "should be at least 1 chars long"},
	{"host with scheme", fields{"spec.database.host": "postgres://db"}, "spec.database.host", hostMessage},
	{"host with port", fields{"spec.database.host": "'db.shop.svc:5432'"}, "spec.database.host", hostMessage},
	{"host as an option", fields{"spec.database.host": "--help"}, "spec.database.host", hostMessage},
	{"host with options", fields{"spec.database.host": "db sslmode=disable"}, "spec.database.host", hostMessage},
	{"host too long", fields{"spec.database.host": strings.Repeat("a", 254)}, "spec.database.host", "may not be more than 253"},
	{"port 0", fields{"spec.database.port": "0"}, "spec.database.port", "should be greater than or equal to 1"},
	{"port too high", fields{"spec.database.port": "65536"}, "spec.database.port", "should be less than or equal to 65535"},
	{"port as text", fields{"spec.database.port": "'5432'"}, "spec.database.port", "must be of type integer"},
	{"database twice", fields{"spec.database.names": "[a, b, a]"}, "spec.database.names[2]", "Duplicate value"},
	{"empty database name", fields{"spec.database.names": `[""]`}, "spec.database.names[0]", "should be at least 1 chars long"},
	{"database name with newline", fields{"spec.database.names": `["a\nb"]`}, "spec.database.names[0]", "a database name holds no control characters"},
	{"database name too long", fields{"spec.database.names": "[" + strings.Repeat("é", 32) + "]"}, "spec.database", "a PostgreSQL database name has at most 63 bytes"},
	{"MariaDB name too long", fields{"spec.database.engine": "MariaDB", "spec.database.names": "[" + strings.Repeat("é", 65) + "]"}, "spec.database", "a MySQL or MariaDB database name has at most 64 characters"},
	{"MongoDB name too long", fields{"spec.database.engine": "MongoDB", "spec.database.names": "[" + strings.Repeat("a", 64) + "]"}, "spec.database", mongoName},
	{"MongoDB name with a collection", fields{"spec.database.engine": "MongoDB", "spec.database.names": "[shop.orders]"}, "spec.database", mongoName},
	{"MongoDB name with a backslash", fields{"spec.database.engine": "MongoDB", "spec.database.names": `['a\b']`}, "spec.database", mongoName},
	{"Redis database by a name", fields{"spec.database.engine": "Redis", "spec.database.names": "[cache]"}, "spec.database", redisName},
	{"Redis database -1", fields{"spec.database.engine": "Redis", "spec.database.names": "['-1']"}, "spec.database", redisName},
	{"Redis database 01", fields{"spec.database.engine": "Redis", "spec.database.names": "['01']"}, "spec.database", redisName},
	{"authSource for PostgreSQL", fields{"spec.database.authSource": "admin"}, "spec.database", "authSource is for MongoDB alone"},
	{"too many databases", fields{"spec.database.names": "[" + strings.Repeat("a,", 64) + "b]"}, "spec.database.names", "must have at most 64 items"},
	{"no credentials", fields{"spec.database.credentialsSecretRef": ""}, "spec.database.credentialsSecretRef", "Required value"},
	{"nameless credentials", fields{"spec.database.credentialsSecretRef": "{}"}, "spec.database.credentialsSecretRef.name", "Required value"},
	{"bad Secret name", fields{"spec.database.credentialsSecretRef.name": "Orders_DB"}, "spec.database.credentialsSecretRef.name", secretName},
	{"Secret name too long", fields{"spec.database.credentialsSecretRef.name": strings.Repeat("a", 254)}, "spec.database.credentialsSecretRef.name", "may not be more than 253"},
	{"bad user key", fields{"spec.database.credentialsSecretRef.usernameKey": "a/b"}, "spec.database.credentialsSecretRef.usernameKey", secretKey},
	{"bad password key", fields{"spec.database.credentialsSecretRef.passwordKey": "../x"}, "spec.database.credentialsSecretRef.passwordKey", secretKey},
	{"unknown TLS mode", fields{"spec.database.tls.mode": "verify-full"}, "spec.database.tls.mode", `supported values: "Disable", "Require", "VerifyCA", "VerifyFull"`},
	{"bad CA name", fields{"spec.database.tls.caSecretRef.name": "CA"}, "spec.database.tls.caSecretRef.name", secretName},
	{"bad CA key", fields{"spec.database.tls.caSecretRef": "{name: ca, key: 'a b'}"}, "spec.database.tls.caSecretRef.key", secretKey},
	{"bad image", fields{"spec.database.image": "'postgres:17 --privileged'"}, "spec.database.image", "image is the reference of a container image, such as postgres:17"},
	{"timeout 0", fields{"spec.timeout": "0s"}, "spec.timeout", timeoutForm},
	{"negative timeout", fields{"spec.timeout": "-1h"}, "spec.timeout", timeoutForm},
	{"timeout in words", fields{"spec.timeout": "'2 hours'"}, "spec.timeout", timeoutForm},
	{"timeout in days", fields{"spec.timeout": "1d"}, "spec.timeout", timeoutForm},
	{"timeout beyond reason", fields{"spec.timeout": strings.Repeat("9", 33) + "h"}, "spec.timeout", "may not be more than 32"},
	{"negative backoffLimit", fields{"spec.backoffLimit": "-1"}, "spec.backoffLimit", "should be greater than or equal to 0"},
	{"backoffLimit too high", fields{"spec.backoffLimit": "21"}, "spec.backoffLimit", "should be less than or equal to 20"},
	{"staging size 0", fields{"spec.staging.size": "0"}, "spec.staging.size", "size must be an amount greater than zero"},
	{"negative staging size", fields{"spec.staging.size": "-1Gi"}, "spec.staging.size", "size must be an amount greater than zero"},
	{"staging size that takes long to read", fields{"spec.staging.size": "1e99999999999"}, "spec.staging.size", "size must be an amount greater than zero"},
	{"resources nobody can read", fields{"spec.podTemplate": `{resources: {requests: {cpu: "1e1.5"}}}`}, "spec.podTemplate.resources.requests.cpu", amountForm},
	{"resources that take long to read", fields{"spec.podTemplate": `{resources: {limits: {memory: "1e-9999999"}}}`}, "spec.podTemplate.resources.limits.memory", amountForm},
	{"staging size in words", fields{"spec.staging.size": "20 GB"}, "spec.staging.size", "should match"},
	{"bad staging class", fields{"spec.staging.storageClassName": "Fast_SSD"}, "spec.staging.storageClassName", "the name of a StorageClass holds lower-case letters, digits, - and ."},
	{"bad service account", fields{"spec.podTemplate.serviceAccountName": "My SA"}, "spec.podTemplate.serviceAccountName", "the name of a ServiceAccount holds lower-case letters, digits, - and ."},
	{"bad priority class", fields{"spec.podTemplate.priorityClassName": "High"}, "spec.podTemplate.priorityClassName", "the name of a PriorityClass holds lower-case letters, digits, - and ."},
}

var backupRefusals = []refusal{
	{"no spec", fields{"spec": ""}, "spec", "Required value"},
	{"no storage", fields{"spec.storage": ""}, "spec.storage", "Required value"},
	{"storage of no kind", fields{"spec.storage": "{}"}, "spec.storage", "storage needs exactly one kind of storage: set s3"},
	{"no provider", fields{"spec.storage.s3.provider": ""}, "spec.storage.s3.provider", "Required value"},
	{"unknown provider", fields{"spec.storage.s3.provider": "GCS"}, "spec.storage.s3.provider", `supported values: "AWS", "S3Compatible"`},
	{"no endpoint", fields{"spec.storage.s3.endpoint": ""}, "spec.storage.s3", "provider S3Compatible needs an endpoint, for example https://minio.minio.svc:9000"},
	{"no store credentials", fields{"spec.storage.s3.credentialsSecretRef": ""}, "spec.storage.s3", "provider S3Compatible needs a credentialsSecretRef"},
	{"bad store Secret", fields{"spec.storage.s3.credentialsSecretRef.name": "S3"}, "spec.storage.s3.credentialsSecretRef.name", secretName},
	{"bad store CA", fields{"spec.storage.s3.caSecretRef.name": "S3"}, "spec.storage.s3.caSecretRef.name", secretName},
	{"endpoint without scheme", fields{"spec.storage.s3.endpoint": "'minio.minio.svc:9000'"}, "spec.storage.s3.endpoint", endpointForm},
	{"endpoint with path", fields{"spec.storage.s3.endpoint": "https://minio/backups"}, "spec.storage.s3.endpoint", endpointForm},
	{"endpoint with password", fields{"spec.storage.s3.endpoint": "https://me:secret@minio"}, "spec.storage.s3.endpoint", endpointForm},
	{"bad region", fields{"spec.storage.s3.region": "Paris"}, "spec.storage.s3.region", "a region holds lower-case letters, digits and -, such as eu-west-3"},
	{"unknown checksums", fields{"spec.storage.s3.checksums": "Never"}, "spec.storage.s3.checksums", `supported values: "WhenSupported", "WhenRequired"`},
	{"no bucket", fields{"spec.storage.s3.bucket": ""}, "spec.storage.s3.bucket", "Required value"},
	{"bucket too short", fields{"spec.storage.s3.bucket": "ab"}, "spec.storage.s3.bucket", "should be at least 3 chars long"},
	{"bucket too long", fields{"spec.storage.s3.bucket": strings.Repeat("a", 64)}, "spec.storage.s3.bucket", "may not be more than 63"},
	{"bucket with a folder", fields{"spec.storage.s3.bucket": "backups/prod"}, "spec.storage.s3.bucket", bucketForm},
	{"prefix with slashes around", fields{"spec.storage.s3.prefix": "/prod/"}, "spec.storage.s3.prefix", prefixForm},
	{"prefix that climbs", fields{"spec.storage.s3.prefix": "prod/../other"}, "spec.storage.s3.prefix", prefixDots},
	{"prefix that stays", fields{"spec.storage.s3.prefix": "."}, "spec.storage.s3.prefix", prefixDots},
	{"prefix too long", fields{"spec.storage.s3.prefix": strings.Repeat("a", 257)}, "spec.storage.s3.prefix", "may not be more than 256"},
	{"unknown compression", fields{"spec.compression.algorithm": "xz"}, "spec.compression.algorithm", `supported values: "Zstd", "Gzip", "None"`},
	{"compression level 0", fields{"spec.compression.level": "0"}, "spec.compression.level", "should be greater than or equal to 1"},
	{"compression level 20", fields{"spec.compression.level": "20"}, "spec.compression.level", "should be less than or equal to 19"},
	{"unknown deletion policy", fields{"spec.deletionPolicy": "Keep"}, "spec.deletionPolicy", `supported values: "Retain", "Delete"`},
	{"unknown snapshot mode", fields{"spec.volumeSnapshot.mode": "Optional"}, "spec.volumeSnapshot.mode", `supported values: "Required", "Disabled"`},
	{"claims without snapshots", fields{"spec.volumeSnapshot": "{mode: Disabled, claims: [data]}"}, "spec.volumeSnapshot", "claims are named, but mode is Disabled: leave one of them out"},
	{"claim twice", fields{"spec.volumeSnapshot.claims": "[a, a]"}, "spec.volumeSnapshot.claims[1]", "Duplicate value"},
	{"bad claim", fields{"spec.volumeSnapshot.claims": "[shop/data]"}, "spec.volumeSnapshot.claims[0]", "the name of a claim holds lower-case letters, digits, - and ."},
	{"too many claims", fields{"spec.volumeSnapshot.claims": "[" + strings.Repeat("a,", 32) + "b]"}, "spec.volumeSnapshot.claims", "must have at most 32 items"},
	{"bad snapshot class", fields{"spec.volumeSnapshot.className": "Btrfs"}, "spec.volumeSnapshot.className", "the name of a VolumeSnapshotClass holds lower-case letters, digits, - and ."},
	{"readyTimeout 0", fields{"spec.volumeSnapshot.readyTimeout": "0s"}, "spec.volumeSnapshot.readyTimeout", readyForm},
	{"negative readyTimeout", fields{"spec.volumeSnapshot.readyTimeout": "-10m"}, "spec.volumeSnapshot.readyTimeout", readyForm},
}

var restoreRefusals = []refusal{
	{"no source", fields{"spec.source": ""}, "spec.source", "Required value"},
	{"empty source", fields{"spec.source": "{}"}, "spec.source", "source needs exactly one of url and backupRef"},
	{"url and backupRef", fields{"spec.source.backupRef": "{name: orders}"}, "spec.source", "source needs exactly one of url and backupRef"},
	{"url without s3", fields{"spec.source.s3": ""}, "spec.source", "url needs s3, and backupRef brings its own"},
	{"backupRef with s3", fields{"spec.source.url": "", "spec.source.backupRef": "{name: orders}"}, "spec.source", "url needs s3, and backupRef brings its own"},
	{"nameless backupRef", fields{"spec.source": "{backupRef: {}}"}, "spec.source.backupRef.name", "Required value"},
	{"bad backupRef", fields{"spec.source": "{backupRef: {name: shop/orders}}"}, "spec.source.backupRef.name", "the name of a DatabaseBackup holds lower-case letters, digits, - and ."},
	{"url of another scheme", fields{"spec.source.url": "https://backups/a"}, "spec.source.url", urlForm},
	{"url of a bucket", fields{"spec.source.url": "s3://backups"}, "spec.source.url", urlForm},
	{"url of a folder", fields{"spec.source.url": "s3://backups/prod/"}, "spec.source.url", "a URL names an object, not a folder"},
	{"url that climbs", fields{"spec.source.url": "s3://backups/prod/../a"}, "spec.source.url", "a URL has no part that is . or .."},
	{"url with newline", fields{"spec.source.url": `"s3://backups/a\nb"`}, "spec.source.url", "a URL holds no control characters"},
	{"url too long", fields{"spec.source.url": "s3://backups/" + strings.Repeat("a", 2048)}, "spec.source.url", "may not be more than 2048"},
	{"no endpoint", fields{"spec.source.s3.endpoint": ""}, "spec.source.s3", "provider S3Compatible needs an endpoint, for example https://minio.minio.svc:9000"},
	{"no store credentials", fields{"spec.source.s3.credentialsSecretRef": ""}, "spec.source.s3", "provider S3Compatible needs a credentialsSecretRef"},
	{"bad source bucket", fields{"spec.source.s3.bucket": "Backups"}, "spec.source.s3.bucket", bucketForm},
	{"bad source prefix", fields{"spec.source.s3.prefix": "/prod"}, "spec.source.s3.prefix", prefixForm},
	{"source prefix that climbs", fields{"spec.source.s3.prefix": "prod/.."}, "spec.source.s3.prefix", prefixDots},
	{"unknown safety mode", fields{"spec.safetyBackup.mode": "Optional"}, "spec.safetyBackup.mode", `supported values: "Required", "Disabled"`},
	{"storage for no safety backup", fields{"spec.safetyBackup": "{mode: Disabled, storage: {s3: {provider: AWS, bucket: backups}}}"}, "spec.safetyBackup", "mode is Disabled, so storage and volumeSnapshot are left out"},
	{"snapshot for no safety backup", fields{"spec.safetyBackup": "{mode: Disabled, volumeSnapshot: {}}"}, "spec.safetyBackup", "mode is Disabled, so storage and volumeSnapshot are left out"},
	{"safety storage of no kind", fields{"spec.safetyBackup": "{storage: {}}"}, "spec.safetyBackup.storage", "storage needs exactly one kind of storage: set s3"},
	{"safety claims without snapshots", fields{"spec.safetyBackup.volumeSnapshot": "{mode: Disabled, claims: [data]}"}, "spec.safetyBackup.volumeSnapshot", "claims are named, but mode is Disabled: leave one of them out"},
	{"unknown ownership", fields{"spec.options.ownership": "Drop"}, "spec.options.ownership", `supported values: "Restore", "Omit"`},
	{"unknown privileges", fields{"spec.options.privileges": "false"}, "spec.options.privileges", "must be of type string"},
}

const (
	calendarForm = "schedule has five fields (minute, hour, day of month, month, day of week) of digits, letters and * / , - such as 0 2 * * *, or is one of"
	zonePrefix   = "a schedule has no TZ= prefix: the time zone goes into spec.timeZone"
	zoneForm     = "timeZone is a name of the IANA time zone database, such as Europe/Paris or UTC"
	amountForm   = `should match '^[0-9]{1,15}(\.[0-9]{1,9})?(m|[kMGTPE]|[KMGTPE]i)?$'`
	withinForm   = "keepWithin must be a length of time of 290 years at most, such as 90m or 48h"
)

var scheduleRefusals = []refusal{
	{"name too long", fields{"metadata.name": strings.Repeat("a", 201)}, "<nil>", "has at most 200 characters"},
	{"no schedule", fields{"spec.schedule": ""}, "spec.schedule", "Required value"},
	{"empty schedule", fields{"spec.schedule": `""`}, "spec.schedule", "should be at least 1 chars long"},
	{"four fields", fields{"spec.schedule": "'0 2 * *'"}, "spec.schedule", calendarForm},
	{"six fields", fields{"spec.schedule": "'0 0 2 * * *'"}, "spec.schedule", calendarForm},
	{"words", fields{"spec.schedule": "every night"}, "spec.schedule", calendarForm},
	{"interval", fields{"spec.schedule": "'@every 1h'"}, "spec.schedule", calendarForm},
	{"reboot", fields{"spec.schedule": "'@reboot'"}, "spec.schedule", calendarForm},
	{"a sign of another cron", fields{"spec.schedule": "'0 2 ? * 1'"}, "spec.schedule", calendarForm},
	{"newline", fields{"spec.schedule": `"0 2 * * *\n"`}, "spec.schedule", calendarForm},
	{"zone in the schedule", fields{"spec.schedule": "'TZ=Europe/Paris 0 2 * * *'"}, "spec.schedule", zonePrefix},
	{"cron's zone in the schedule", fields{"spec.schedule": "'CRON_TZ=UTC 0 2 * * *'"}, "spec.schedule", zonePrefix},
	{"the operator's own zone", fields{"spec.timeZone": "Local"}, "spec.timeZone", zoneForm},
	{"zone with spaces", fields{"spec.timeZone": "'Europe / Paris'"}, "spec.timeZone", zoneForm},
	{"zone as a path", fields{"spec.timeZone": "../../etc/passwd"}, "spec.timeZone", zoneForm},
	{"unknown policy", fields{"spec.concurrencyPolicy": "Queue"}, "spec.concurrencyPolicy", `supported values: "Forbid", "Allow", "Replace"`},
	{"deadline 0", fields{"spec.startingDeadlineSeconds": "0"}, "spec.startingDeadlineSeconds", "greater than or equal to 1"},
	{"negative spread", fields{"spec.spreadSeconds": "-1"}, "spec.spreadSeconds", "greater than or equal to 0"},
	{"negative rule", fields{"spec.retention": "{keepLast: -1}"}, "spec.retention.keepLast", "greater than or equal to 0"},
	{"within in words", fields{"spec.retention": "{keepWithin: two days}"}, "spec.retention.keepWithin", withinForm},
	{"within for longer than time", fields{"spec.retention": "{keepWithin: 2562048h}"}, "spec.retention.keepWithin", withinForm},
	{"template with an exponent", fields{"spec.template.spec.podTemplate": `{resources: {requests: {cpu: "1e1.5"}}}`}, "spec.template.spec.podTemplate.resources.requests.cpu", amountForm},
	{"negative failed history", fields{"spec.failedHistoryLimit": "-1"}, "spec.failedHistoryLimit", "greater than or equal to 0"},
	{"no history", fields{"spec.historyLimit": "0"}, "spec.historyLimit", "greater than or equal to 1"},
	{"no template", fields{"spec.template": ""}, "spec.template", "Required value"},
	{"no spec in the template", fields{"spec.template": "{metadata: {}}"}, "spec.template.spec", "Required value"},
	{"template with a bad host", fields{"spec.template.spec.database.host": "postgres://db"}, "spec.template.spec.database.host", hostMessage},
}
