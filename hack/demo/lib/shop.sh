# shellcheck shell=bash
# The shop: a namespace that enforces the restricted pod security standard, and a PostgreSQL in it.

shop() { kube -n "$NAMESPACE" "$@"; }

make_namespace() {
	await "the namespace of an earlier run is gone" 180 namespace_is_gone
	doing "namespace $NAMESPACE, which enforces the restricted pod security standard" \
		kube apply -f "$DEMO_DIR/manifests/namespace.yaml"
}

namespace_is_gone() { [ -z "$(kube get namespace "$NAMESPACE" --ignore-not-found -o name)" ]; }

start_database() {
	doing "Secrets orders-db, orders-ca and orders-tls: credentials and a private CA" database_secrets
	doing "PostgreSQL orders-db: TLS, data on claim data-orders-db-0 (class csi-btrfs)" \
		kube apply -f "$DEMO_DIR/manifests/orders-db.yaml"
	await "PostgreSQL answers" 180 sql postgres -c 'SELECT 1'
}

# The owner's password holds what breaks careless programs.
database_secrets() {
	(cd "$CLUSTER_DIR" && GOWORK=off go run ./tlsgen "$WORK" "orders-db.$NAMESPACE.svc" orders-db)
	printf 'orders' >"$WORK/username"
	printf '%s' "p@ss:/%'\"$(random_word 24)" >"$WORK/password"
	random_word 32 >"$WORK/superuser"
	shop create secret generic orders-db --from-file="$WORK/username" --from-file="$WORK/password"
	shop create secret generic orders-superuser --from-file=password="$WORK/superuser"
	shop create secret generic orders-tls --from-file="$WORK/tls.crt" --from-file="$WORK/tls.key"
	shop create secret generic orders-ca --from-file="$WORK/ca.crt"
}

# sql DATABASE ARGUMENT…: psql as the server's superuser, inside the server's pod.
sql() {
	local database="$1"
	shift
	shop exec -i orders-db-0 -c postgres -- psql -XqAt -v ON_ERROR_STOP=1 -U postgres -d "$database" "$@"
}

fill_database() {
	doing "database orders, owned by a role that is no superuser" create_database
	doing "customers, products, orders and their lines" load_orders
	fingerprint before
	tell "$(sql orders -c "SELECT format('%s orders of %s customers, worth %s', count(*), count(DISTINCT customer), sum(total)) FROM orders")"
}

create_database() { sql postgres -f - <"$DEMO_DIR/sql/owner.sql"; }

load_orders() { sql orders -c 'SET ROLE orders' -f - <"$DEMO_DIR/sql/orders.sql"; }
