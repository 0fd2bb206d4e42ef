#!/usr/bin/env bats
# blackhole: a gateway that takes requests and never answers.

load proxied

# since MS: how many ms ago that was.
since() { echo $(($(now_ms) - $1)); }

@test "a read fails by itself at the deadline" {
	local begun

	mount_at m -o deadline-ms=5000
	own a 1 | outside put cells/c/own.json
	cat "$DIR/m/cells/c/own"
	proxy_rules '* * hang'
	begun=$(now_ms)
	is "$(errno_of 'open(a[0]).read()' "$DIR/m/cells/c/own")" ETIMEDOUT
	[ "$(since "$begun")" -ge 4000 ]
	[ "$(since "$begun")" -lt 7000 ]
}

# stopped SIGNAL LIMIT_MS PID...: all have ended LIMIT_MS after SIGNAL.
stopped() {
	local signal=$1 limit=$2 begun pid

	shift 2
	begun=$(now_ms)
	kill -"$signal" "$@"
	for pid in "$@"; do
		wait "$pid" || true
	done
	echo "$signal: $(since "$begun") ms"
	[ "$(since "$begun")" -lt "$limit" ]
}

# until_asked COUNT FILTER: so many of them are at the proxy.
until_asked() {
	local tries

	for ((tries = 0; tries < 100; tries++)); do
		[ "$(requests "$2" | wc -l)" -lt "$1" ] || return 0
		sleep 0.05
	done
	return 1
}

# python SCRIPT ARGUMENT... &: signals end it, as they end a shell's command.
python() {
	exec python3 -c 'import os, signal, sys; a = sys.argv[2:]
signal.signal(signal.SIGINT, signal.SIG_DFL)
exec(sys.argv[1])' "$@" 3>&-
}

@test "Ctrl-C and SIGTERM end a read within 2 s" {
	local signal

	mount_at m -o deadline-ms=60000
	own a 1 | outside put cells/c/own.json
	cat "$DIR/m/cells/c/own"
	proxy_rules '* * hang'
	for signal in INT TERM; do
		mark
		python 'open(a[0]).read()' "$DIR/m/cells/c/own" &
		until_asked 1 'r["op"] == "GET"'
		stopped "$signal" 2000 $!
	done
}

@test "Ctrl-C and SIGTERM end a write within 3 s, and it may have happened" {
	local signal

	mount_at m -o deadline-ms=60000
	for signal in INT TERM; do
		own a 1 | outside put cells/$signal/own.json
		mark
		proxy_rules 'PUT * lose' "GET cells/$signal/* pass x2" 'GET * hang'
		python 'fd = os.open(a[0], os.O_RDWR)
os.read(fd, 4096)
os.write(fd, a[1].encode())' "$DIR/m/cells/$signal/own" "$(own a 2)" &
		until_asked 1 'r["op"] == "PUT"'
		stopped "$signal" 3500 $!
		proxy_rules
		# the outcome stays to be read
		is "$(outside get "cells/$signal/own.json")" "$(own a 2)"
		[[ $(outcome "$DIR/m/cells/$signal/own") == unknown* ]]
	done
}

@test "more stuck readers than threads: df, status and healthy cells go on" {
	local k readers=() begun

	mount_at m -o deadline-ms=8000
	own a 1 | outside fill cells/stuck%d/own.json 1 80
	own a 1 | outside put cells/well/own.json
	cat "$DIR"/m/cells/*/own >/dev/null
	proxy_rules 'GET cells/stuck*/own.json hang'
	mark
	for k in {1..40}; do
		cat "$DIR/m/cells/stuck$k/own" 2>/dev/null 3>&- &
		readers+=($!)
	done
	until_asked 20 'r["op"] == "GET"'
	begun=$(now_ms)
	df "$DIR/m" >/dev/null
	cat "$DIR/m/.celldfs/status" >/dev/null
	[ "$(since "$begun")" -lt 1000 ]
	begun=$(now_ms)
	is "$(cat "$DIR/m/cells/well/own")" "$(own a 1)"
	swap "$DIR/m/cells/well/own" "$(own a 2)"
	echo "a healthy cell took $(since "$begun") ms"
	[ "$(since "$begun")" -lt 2000 ]
	for k in {41..80}; do
		cat "$DIR/m/cells/stuck$k/own" 2>/dev/null 3>&- &
		readers+=($!)
	done
	sleep 0.5
	begun=$(now_ms)
	df "$DIR/m" >/dev/null
	cat "$DIR/m/.celldfs/status"
	[ "$(since "$begun")" -lt 1000 ]
	stopped TERM 2500 "${readers[@]}"
}

@test "a mount on a black hole fails with the reason, by its deadline" {
	local status=0

	proxy_rules '* * hang'
	mkdir "$DIR/m"
	timeout 20 "$BUILD/celldfs" "$STORE" "$DIR/m" -o deadline-ms=3000 \
		2>"$DIR/stderr" 3>&- || status=$?
	is "$status" 1
	is "$(wc -l <"$DIR/stderr")" 1
	if mountpoint -q "$DIR/m"; then return 1; fi
}
