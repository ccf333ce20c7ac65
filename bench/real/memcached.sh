#!/bin/sh
# SPDX-License-Identifier: MIT
# Fixed work of memcached. Usage: memcached.sh WORDS-THAT-MEASURE...
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"$@" memcached -u "$(id -un)" -s "$place/socket" -a 0666 -t 2 -m 64 -P "$place/pid" &
until [ -S "$place/socket" ] && [ -s "$place/pid" ]; do
	kill -0 $! || exit 1
	sleep 0.05
done
python3 - "$place/socket" <<'END'
import socket, sys
for turn in range(4):
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(sys.argv[1])
        answers = peer.makefile("rb")
        for i in range(20000):
            size = i * 37 % 2000
            peer.sendall(b"set k%d 0 0 %d\r\n%s\r\nget k%d\r\n" % (i * 7 % 9001, size, b"x" * size, i * 11 % 9001))
            while answers.readline() not in (b"STORED\r\n",):
                pass
            while answers.readline() != b"END\r\n":
                pass
END
kill "$(cat "$place/pid")"
wait
