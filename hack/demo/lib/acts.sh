# shellcheck shell=bash
# What a user of Holdfast does: back up, and restore by URL. In between, what nobody wants to do.

take_backup() {
	local sample="$SAMPLES/databasebackup.yaml"
	shown "kubectl apply -f $(relative "$sample")"
	without_comments "$sample" | indent
	NOW="applying $sample"
	kube apply -f "$sample" >>"$LOG" 2>&1
	printf '\n'
	follow databasebackup orders 600
	URL="$(field databasebackup orders .status.url)"
	printf '\n'
	shown "kubectl -n $NAMESPACE get dbb"
	shop get databasebackups | indent
	tell "Its URL, all that a restore will need: $BOLD$URL$PLAIN"
	printf '\n'
}

without_comments() { grep -vE '^ *#' "$1"; }

# forget_backup shows that the object in the cluster is not needed, and that deleting it deletes no backup.
forget_backup() {
	shown "kubectl -n $NAMESPACE delete dbb orders"
	doing "the object is gone; its deletionPolicy is Retain, so the artifact stays" \
		shop delete databasebackup orders --timeout=120s
}

wreck_database() {
	local sql="$DEMO_DIR/sql/damage.sql"
	tell "Then somebody runs this in production:"
	grep -v '^--' "$sql" | indent
	NOW="damaging the database"
	sql orders -c 'SET ROLE orders' -f - <"$sql" >>"$LOG" 2>&1
	fingerprint damaged
	tell "$(sql orders -c "SELECT format('%s orders, worth %s', count(*), sum(total)) FROM orders"). The lines of the orders are gone."
}

restore_by_url() {
	local sample="$SAMPLES/databaserestore_url.yaml"
	with_url "$sample" >"$WORK/restore.yaml"
	shown "kubectl apply -f $(relative "$sample")      # with the URL put in"
	without_comments "$WORK/restore.yaml" | indent
	NOW="applying the restore"
	kube apply -f "$WORK/restore.yaml" >>"$LOG" 2>&1
	printf '\n'
	follow databaserestore orders-by-url 900
	SAFETY_URL="$(field databaserestore orders-by-url .status.url)"
	printf '\n'
	shown "kubectl -n $NAMESPACE get dbr"
	shop get databaserestores | indent
}

with_url() { sed "s|^\( *url:\) .*|\1 $URL|" "$1"; }
