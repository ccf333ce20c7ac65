#!/bin/sh
# SPDX-License-Identifier: MIT
# Fixed work of redis; sixteen requests at once, so that system calls are not most of it. Usage: redis.sh WORDS-THAT-MEASURE...
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"$@" redis-server --port 0 --unixsocket "$place/socket" --save '' --appendonly no --dir "$place" >"$place/log" 2>&1 &
until redis-cli -s "$place/socket" ping >"$place/ping" 2>&1; do
	kill -0 $! || exit 1
	sleep 0.05
done
redis-benchmark -s "$place/socket" -q -c 20 -r 100000 -n 50000 -P 16 -d 100 -t set,get,lpush,lpop,sadd,hset,zadd >"$place/bench"
redis-cli -s "$place/socket" shutdown nosave
wait
