#!/usr/bin/env bats
# crowd: many writers, many records, awkward names, against the gateway.

load proxied

@test "64 writers of one cell over 4 mounts, all at once: one winner a round, the rest EBUSY" {
	local k files=() rounds=50

	[ -z "${CELLDFS_LONG:-}" ] || rounds=200
	for k in 1 2 3 4; do
		mount_at "m$k"
		files+=("$DIR/m$k/cells/c/own")
	done
	own first 1 | outside put cells/c/own.json
	# so that they are in flight together
	proxy_rules 'PUT cells/c/* delay 200'
	mark
	run "$TOOLS/race" --procs 64 --rounds "$rounds" --log "$DIR/claims" \
		"${files[@]}"
	echo "$output"
	is "$status" 0
	is "$(wc -l <"$DIR/claims")" "$rounds"
	is "$(outside get cells/c/own.json)" "$(cat "${files[0]}")"
	# They did meet at the gateway, and it said what it says to losers.
	requests 'r["op"] == "PUT"' puts | sort -n | tail -n 1 >"$DIR/most"
	requests 'r["op"] == "PUT"' upstream | sort | uniq -c
	echo "$(cat "$DIR/most") PUTs at once"
	[ "$(cat "$DIR/most")" -ge 32 ]
	# Each epoch was written once.
	is "$(requests 'r["op"] == "PUT" and r["upstream"] == 200' | wc -l)" \
		"$rounds"
}

@test "64 creators of one record over 4 mounts: one makes it" {
	local k round

	for k in 1 2 3 4; do mount_at "m$k"; done
	proxy_rules 'PUT cells/* delay 200'
	for round in 1 2 3; do
		python3 - "$DIR" "$round" <<-'PY' >"$DIR/ends"
			import errno, os, sys, threading
			barrier, ends = threading.Barrier(64), [None] * 64
			def create(k):
			    path = '%s/m%d/cells/new%s/own' % (sys.argv[1],
			                                       k % 4 + 1, sys.argv[2])
			    fd = os.open(path, os.O_CREAT | os.O_WRONLY, 0o644)
			    barrier.wait()
			    try:
			        os.write(fd, b'{"node":"n%d","epoch":1}' % k)
			        ends[k] = 'n%d' % k
			    except OSError as e:
			        ends[k] = errno.errorcode[e.errno]
			threads = [threading.Thread(target=create, args=(k,))
			           for k in range(64)]
			for t in threads: t.start()
			for t in threads: t.join()
			print(*ends, sep='\n')
		PY
		is "$(grep -c EBUSY "$DIR/ends")" 63
		is "$(outside get "cells/new$round/own.json")" \
			"{\"node\":\"$(grep -v EBUSY "$DIR/ends")\",\"epoch\":1}"
	done
}

@test "awkward names: made, listed, read and swapped; what is no name is left out" {
	local name names

	mount_at m
	names=('a:b' 'a$b' '...' '..a' 'a..' '.hidden' '-' '$' ':' 'A-Z_a.z'
		"$(printf 'n%.0s' {1..255})")
	for name in "${names[@]}"; do
		create "$DIR/m/cells/$name/own" "$(own n1 1)"
		swap "$DIR/m/cells/$name/own" "$(own n1 2)"
		is "$(outside get "cells/$name/own.json")" "$(own n1 2)"
		is "$(cat "$DIR/m/cells/$name/own")" "$(own n1 2)"
	done
	is "$(ls -A "$DIR/m/cells" | wc -l)" ${#names[@]}
	# of another program, and none that a mount shows
	for name in 'a b' 'a+b' 'a%20b' '..' '.' "$(printf 'n%.0s' {1..256})" \
		$'tab\there' 'ü'; do
		own n1 1 | outside put "cells/$name/own.json"
	done
	is "$(ls -A "$DIR/m/cells" | wc -l)" ${#names[@]}
}

# kib NAME FIELD: of a daemon's memory.
kib() { awk -v f="$2:" '$1 == f { print $2 }' "/proc/$(pid_of "$1")/status"; }

@test "10,000 cells: all listed, in 10 requests, and each opens" {
	local idle

	mount_at m
	own n1 1 | outside fill cells/c%05d/own.json 1 10000
	idle=$(kib m VmRSS)
	mark
	"$TOOLS/getdents" "$DIR/m/cells" 4096 >"$DIR/listed"
	is "$(requests 'r["op"] == "LIST"' | wc -l)" 10
	is "$(grep -c '^c[0-9]\{5\}$' "$DIR/listed")" 10000
	is "$(sort -u "$DIR/listed" | wc -l)" 10002
	echo "$(($(kib m VmHWM) - idle)) KiB above idle"
	[ $(($(kib m VmHWM) - idle)) -lt 32768 ]
	is "$(cat "$DIR"/m/cells/c*[05]00/own | sort | uniq -c | xargs)" \
		"20 $(own n1 1 | xargs)"
}

@test "100,000 cells: listed in 100 requests, within 32 MiB" {
	local idle

	mount_at m
	proxy_rules 'LIST cells/ invent 100000'
	ls "$DIR/m/nodes"
	idle=$(kib m VmRSS)
	mark
	"$TOOLS/getdents" "$DIR/m/cells" 4096 >"$DIR/listed"
	is "$(wc -l <"$DIR/listed")" 100002
	is "$(sort -u "$DIR/listed" | wc -l)" 100002
	is "$(requests 'r["op"] == "LIST"' | wc -l)" 100
	echo "$(($(kib m VmHWM) - idle)) KiB above idle"
	timed || return 0
	[ $(($(kib m VmHWM) - idle)) -lt 32768 ]
}
