#!/bin/sh
# SPDX-License-Identifier: MIT
# Fixed work of nginx. Usage: nginx.sh WORDS-THAT-MEASURE...
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
port=$((20000 + $$ % 20000))
seq 20000 >"$place/page"
chmod -R a+rX "$place"
printf 'daemon off; master_process off; pid %s/pid; error_log /dev/null; events {}
http { access_log off; gzip on; gzip_types *; server { listen 127.0.0.1:%s; root %s; } }\n' \
	"$place" "$port" "$place" >"$place/conf"
"$@" nginx -c "$place/conf" &
until ab -q -n 1 "http://127.0.0.1:$port/page" >"$place/one" 2>&1; do
	kill -0 $! || exit 1
	sleep 0.05
done
ab -q -n 2000 -c 20 -H 'Accept-Encoding: gzip' "http://127.0.0.1:$port/page" >"$place/bench"
kill -QUIT "$(cat "$place/pid")"
wait
