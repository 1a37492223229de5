# shellcheck shell=bash
# The object store, past Holdfast: a bucket, a user who may use that bucket alone, and a look at what lies in it.

MINIO_ON_HOST=https://127.0.0.1:30900

mc_() { "$BIN/mc" --quiet --config-dir "$WORK/mc" "$@"; }

root_credential() { kube -n minio get secret minio-root -o "jsonpath={.data.$1}" | base64 -d; }

connect_store() {
	mkdir -p "$WORK/mc/certs/CAs"
	kube -n minio get secret minio-ca -o 'jsonpath={.data.ca\.crt}' | base64 -d >"$WORK/mc/certs/CAs/minio.crt"
	# Made of letters and digits alone, so they need no quoting in a URL.
	MC_HOST_demo="https://$(root_credential accessKeyID):$(root_credential secretAccessKey)@${MINIO_ON_HOST#https://}"
	export MC_HOST_demo
	wait_until 30 mc_ ls demo
}

make_bucket() {
	doing "bucket $BUCKET in MinIO, and a user who may use that bucket alone" fresh_bucket
	doing "Secrets s3 and s3-ca: how to reach it" store_secrets
}

# fresh_bucket also removes what an earlier run of the demo left in it.
fresh_bucket() {
	connect_store
	mc_ mb --ignore-existing "demo/$BUCKET"
	# The safety backup lies beside the source, below source.s3.prefix, which the sample leaves out.
	mc_ rm --recursive --force "demo/$BUCKET/$PREFIX/$NAMESPACE/" "demo/$BUCKET/$NAMESPACE/" || true
	printf "%s-backups" "$NAMESPACE" >"$WORK/accessKeyID"
	random_word 40 >"$WORK/secretAccessKey"
	mc_ admin policy create demo "$NAMESPACE" "$DEMO_DIR/manifests/bucket-policy.json"
	mc_ admin user add demo "$(cat "$WORK/accessKeyID")" "$(cat "$WORK/secretAccessKey")"
	mc_ admin policy attach demo "$NAMESPACE" --user "$(cat "$WORK/accessKeyID")"
}

store_secrets() {
	shop create secret generic s3 --from-file="$WORK/accessKeyID" --from-file="$WORK/secretAccessKey"
	shop create secret generic s3-ca --from-file=ca.crt="$WORK/mc/certs/CAs/minio.crt"
}

# look_into_bucket trusts nothing that Holdfast says: another client reads the artifact and hashes it.
look_into_bucket() {
	local object="demo/${URL#s3://}" said found
	tell "An independent look at the bucket, with MinIO's own client:"
	shown "mc ls --recursive $BUCKET/$PREFIX/"
	NOW="listing the bucket"
	mc_ ls --recursive "demo/$BUCKET/$PREFIX/" | indent
	NOW="reading the artifact"
	found="$(mc_ cat "$object" | sha256sum | cut -d' ' -f1)"
	said="$(field databasebackup orders .status.artifact.sha256)"
	tell "SHA-256 of what lies there: $found"
	[ "$found" = "$said" ] || give_up "the status of the backup says SHA-256 $said, and the store holds $found"
	tell "The status and the manifest say the same."
	mc_ cat "$object.manifest.json" >>"$LOG"
	mc_ cat "$object.manifest.json" | grep -qF "$said" || give_up "the manifest beside the artifact does not say SHA-256 $said"
}
