#!/bin/bash
# holdfast-engine ENGINE: starts a database server of the tests. Its data lie in /data, its certificate in /tls/tls.crt and
# /tls/tls.key, and what it reads first in /credentials/setup: statements for MariaDB, configuration for Redis, in which
# its user is made; the settings of FerretDB, which stands in for MongoDB. A program's name in place of an engine's runs that program.
set -euo pipefail

# make_once FOLDER COMMAND…: has the command fill a folder, whose name it gets as its last argument. One that was cut short
# begins anew.
make_once() {
	local folder="$1"
	shift
	[ -d "$folder" ] && return
	rm -rf "$folder.new"
	"$@" "$folder.new"
	mv "$folder.new" "$folder"
}

make_mariadb() {
	mariadb-install-db --no-defaults --auth-root-authentication-method=normal --skip-test-db --skip-name-resolve --datadir="$1"
}

start_mariadb() {
	make_once /data/mariadb make_mariadb
	exec mariadbd --no-defaults --datadir=/data/mariadb --socket=/tmp/socket --bind-address='*' --port=3306 \
		--init-file=/credentials/setup --ssl-cert=/tls/tls.crt --ssl-key=/tls/tls.key --require-secure-transport=ON \
		--skip-name-resolve --character-set-server=utf8mb4 --event-scheduler=ON --innodb-buffer-pool-size=32M \
		--innodb-log-file-size=32M
}

start_redis() {
	exec redis-server /credentials/setup --dir /data --protected-mode no --appendonly yes --port 0 --unixsocket /tmp/socket --tls-port 6379 \
		--tls-cert-file /tls/tls.crt --tls-key-file /tls/tls.key --tls-ca-cert-file /tls/tls.crt --tls-auth-clients no
}

start_mongodb() {
	mkdir -p /data/mongodb
	FERRETDB_CONFIG_FILE=/credentials/setup exec ferretdb
}

case "${1:-}" in
mariadb | redis | mongodb) "start_$1" ;;
*) exec "$@" ;;
esac
