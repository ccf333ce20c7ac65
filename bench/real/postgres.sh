#!/bin/sh
# SPDX-License-Identifier: MIT
# Fixed work of postgres, by pgbench. Started by root, all of it runs as nobody, who must be able to read the build.
# Usage: postgres.sh WORDS-THAT-MEASURE...
[ "$(id -u)" -ne 0 ] || exec setpriv --reuid=nobody --regid=nogroup --clear-groups env HOME=/ sh "$0" "$@"
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
initdb -D "$place/data" -A trust -U u --no-sync >"$place/log" || exit 1
"$@" postgres -D "$place/data" -k "$place" -h '' -c fsync=off >"$place/log" 2>&1 &
until pgbench -i -q -h "$place" -U u postgres >"$place/init" 2>&1; do
	kill -0 $! || exit 1
	sleep 0.2
done
pgbench -h "$place" -U u -c 4 -j 2 -t 250 -n postgres >"$place/bench" 2>&1
kill -INT "$(head -1 "$place/data/postmaster.pid")"
wait
