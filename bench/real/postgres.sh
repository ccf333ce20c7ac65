#!/bin/sh
# SPDX-License-Identifier: MIT
# Fixed work of postgres, by pgbench; it does not run as root. Usage: postgres.sh WORDS-THAT-MEASURE...
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
[ "$(id -u)" -ne 0 ] || { echo "postgres does not run as root" >&2; exit 1; }
initdb -D "$place/data" -A trust -U u --no-sync >"$place/log" || exit 1
"$@" postgres -D "$place/data" -k "$place" -h '' -c fsync=off >"$place/log" 2>&1 &
until pgbench -i -q -h "$place" -U u postgres >"$place/init" 2>&1; do
	kill -0 $! || exit 1
	sleep 0.2
done
pgbench -h "$place" -U u -c 4 -j 2 -t 2000 -n postgres >"$place/bench" 2>&1
kill -INT "$(head -1 "$place/data/postmaster.pid")"
wait
