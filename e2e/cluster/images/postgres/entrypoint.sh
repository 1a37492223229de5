#!/bin/bash
# Starts PostgreSQL; on an empty data directory, makes a server first. It knows POSTGRES_USER,
# POSTGRES_PASSWORD or POSTGRES_PASSWORD_FILE, POSTGRES_DB and PGDATA as the published image does,
# takes further arguments for postgres, and speaks TLS when /tls/tls.crt and /tls/tls.key are there.
# It runs as any user that /etc/passwd knows, on a read-only root with /tmp and
# /var/run/postgresql writable.
set -euo pipefail

: "${PGDATA:=/var/lib/postgresql/data}"
: "${POSTGRES_USER:=postgres}"
: "${POSTGRES_DB:=$POSTGRES_USER}"
export PGDATA

die() {
	echo "error: $*" >&2
	exit 1
}

password() {
	if [ -n "${POSTGRES_PASSWORD_FILE:-}" ]; then
		cat "$POSTGRES_PASSWORD_FILE"
	else
		printf '%s' "${POSTGRES_PASSWORD:-}"
	fi
}

make_server() {
	[ -n "$(password)" ] || die "a new server needs a password in POSTGRES_PASSWORD or POSTGRES_PASSWORD_FILE"
	(umask 077 && mkdir -p "$PGDATA")
	initdb --username="$POSTGRES_USER" --pwfile=<(password; echo) --encoding=UTF8 --locale=C.UTF-8 \
		--auth-local=trust --auth-host=scram-sha-256 --no-sync
	echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
	if [ "$POSTGRES_DB" != postgres ]; then
		postgres --single -D "$PGDATA" postgres <<<"CREATE DATABASE \"${POSTGRES_DB//\"/\"\"}\"" >/dev/null
	fi
	sync -f "$PGDATA"
}

# PostgreSQL wants its key to be readable by nobody else, and a mounted Secret is not that.
use_tls() {
	local key=/var/run/postgresql/server.key
	install -m 0600 /tls/tls.key "$key"
	tls=(-c ssl=on -c ssl_cert_file=/tls/tls.crt -c "ssl_key_file=$key")
}

case "${1:-postgres}" in
postgres) shift || true ;;
-*) ;;
*) exec "$@" ;;
esac

[ -s "$PGDATA/PG_VERSION" ] || make_server
tls=()
if [ -e /tls/tls.crt ] && [ -e /tls/tls.key ]; then use_tls; fi
exec postgres -D "$PGDATA" -c 'listen_addresses=*' "${tls[@]}" "$@"
