#!/usr/bin/env bats
# hanging: a store that is slow or does not answer. The mount's own answers do
# not wait for it, an interrupt ends a wait, and every operation has an end.

load helper

# clocked SCRIPT ARGUMENT...: as errno_of, and how many ms it took, without
# Python's own start.
clocked() {
	errno_of '
import time
start = time.monotonic()
try:
    exec(a[0], {"os": os, "a": a[1:]})
finally:
    print(int((time.monotonic() - start) * 1000), end=" ")
' "$@"
}

# ended ERRNO FROM TO MS ACTUAL: what clocked said is ERRNO, after FROM to TO ms;
# under a sanitizer three times as much.
ended() {
	local most=$3

	timed || most=$((3 * most))
	is "$5" "$1"
	[ "$4" -ge "$2" ]
	[ "$4" -le "$most" ] || { echo "took $4 ms, may take $most"; return 1; }
}

# A mount and a record that it knows, so that only opens ask for it.
a_mount() {
	spy_at m1 "$@"
	here=$DIR/m1/cells/c/own
	create "$here" "$(own n1 1)"
	cat "$here" >/dev/null
}

# readers COUNT: that many more start to read the record, each with the signals
# of a command on a terminal; their pids are added to $pids.
readers() {
	local n

	for ((n = 0; n < $1; n++)); do
		env --default-signal=INT cat "$here" >/dev/null \
			2>>"$DIR/readers" 3>&- &
		pids+=($!)
	done
}

# The pool has 64 threads, and at most 56 requests are inside the store.
@test "80 stuck readers: status, df and ls answer, and all end by the deadline" {
	local start pid

	a_mount -o deadline-ms=8000
	rules m1 'get cells/* hang'
	pids=()
	start=$(now_ms)
	readers 80
	until_status m1 requests_waiting 24
	is "$(status_of m1 requests_in_store)" 56

	start=$(now_ms)
	grep -q '^version ' "$DIR/m1/.celldfs/status"
	within 2000 "$start"
	start=$(now_ms)
	df "$DIR/m1" >/dev/null
	within 2000 "$start"
	start=$(now_ms)
	is "$(ls "$DIR/m1" | xargs)" "cells nodes"
	within 2000 "$start"
	start=$(now_ms)
	is "$(stat -c %F "$DIR/m1/cells/other")" directory
	within 2000 "$start"

	# What is asked for while they hang ends as they do.
	start=$(now_ms)
	for pid in "${pids[@]}"; do
		status=0
		wait "$pid" || status=$?
		is "$status" 1
	done
	within 9500 "$start"
	is "$(grep -c 'timed out' "$DIR/readers")" 80

	rules m1
	is "$(cat "$here")" "$(own n1 1)"
	swap "$here" "$(own n1 2)"
	is "$(status_of m1 requests_in_store)" 0
	is "$(status_of m1 requests_waiting)" 0
}

@test "a read of a store that hangs is ETIMEDOUT at the deadline" {
	a_mount -o deadline-ms=3000
	rules m1 'get cells/* hang'
	ended ETIMEDOUT 3000 4000 $(clocked 'os.open(a[0], os.O_RDONLY)' "$here")
	rules m1
	is "$(cat "$here")" "$(own n1 1)"
}

@test "a write of a store that hangs ends at the deadline, and says so" {
	a_mount -o deadline-ms=3000
	arm "$here" "$(etag "$here")"
	rules m1 'put_if cells/* hang' 'get cells/* hang'
	ended ETIMEDOUT 1500 4000 $(clocked '
os.write(os.open(a[0], os.O_WRONLY), a[1].encode())' "$here" "$(own n1 2)")
	rules m1
	is "$(cat "$here")" "$(own n1 1)"
}

@test "Ctrl-C ends a reader that is inside, and one that waits for its turn" {
	local start pid

	a_mount -o deadline-ms=30000
	rules m1 'get cells/* hang'
	pids=()
	readers 56
	until_status m1 requests_in_store 56
	readers 4
	until_status m1 requests_waiting 4

	kill -INT "${pids[58]}"
	is_gone "${pids[58]}" 2000
	until_status m1 requests_waiting 3
	is "$(status_of m1 requests_in_store)" 56

	# One inside: its place goes to one that waits.
	kill -INT "${pids[10]}"
	is_gone "${pids[10]}" 2000
	until_status m1 requests_waiting 2
	is "$(status_of m1 requests_in_store)" 56

	start=$(now_ms)
	kill -INT "${pids[@]}" 2>/dev/null || true
	for pid in "${pids[@]}"; do
		status=0
		wait "$pid" || status=$?
		is "$status" $((128 + 2))
	done
	within 4000 "$start"
	until_status m1 requests_in_store 0
	rules m1
	is "$(cat "$here")" "$(own n1 1)"
}

@test "Ctrl-C ends a listing and a write" {
	local pid

	a_mount -o deadline-ms=30000
	arm "$here" "$(etag "$here")"
	rules m1 'list * hang' 'put_if cells/* hang'
	env --default-signal=INT ls "$DIR/m1/cells" >/dev/null 2>&1 3>&- &
	pid=$!
	until_status m1 requests_in_store 1
	kill -INT "$pid"
	is_gone "$pid" 2000
	until_status m1 requests_in_store 0

	env --default-signal=INT bash -c 'echo "$1" >"$2"' bash \
		"$(own n1 2)" "$here" >/dev/null 2>&1 3>&- &
	pid=$!
	until_status m1 requests_in_store 1
	kill -INT "$pid"
	is_gone "$pid" 2000
	rules m1
	is "$(cat "$here")" "$(own n1 1)"
	[[ $(outcome "$here") == interrupted* ]]
}

# --- Lookups -----------------------------------------------------------------

@test "a lookup that must ask is ETIMEDOUT after 2 s" {
	a_mount -o deadline-ms=15000
	rules m1 'get cells/* hang'
	ended ETIMEDOUT 2000 3000 $(clocked 'os.stat(a[0])' "$DIR/m1/cells/x/own")
}

@test "a lookup that must ask is ETIMEDOUT after 2 s when the pool is full, too" {
	a_mount -o deadline-ms=15000
	rules m1 'get cells/c/* hang'
	pids=()
	readers 60
	until_status m1 requests_waiting 4
	ended ETIMEDOUT 2000 3000 $(clocked 'os.stat(a[0])' "$DIR/m1/cells/x/own")
	kill -INT "${pids[@]}"
	wait "${pids[@]}" || true
}

@test "a shorter deadline holds for lookups as well" {
	a_mount -o deadline-ms=500
	rules m1 'get cells/* hang'
	ended ETIMEDOUT 500 1500 $(clocked 'os.stat(a[0])' "$DIR/m1/cells/x/own")
}

# --- Four writers ------------------------------------------------------------

# writers: four read the record, and when all have, write at once.
writers() {
	python3 - "$here" "$DIR/go" "$1" 3>&- <<-'PY'
		import errno, os, signal, subprocess, sys, time
		path, go, kill_after = sys.argv[1:]
		pids, ready = [], os.pipe()
		started = os.pipe()
		for k in range(4):
		    pid = os.fork()
		    if pid == 0:
		        fd = os.open(path, os.O_RDWR)
		        os.read(fd, 4096)
		        os.write(ready[1], b"r")
		        os.close(started[1])
		        os.read(started[0], 1) # until the parent closes it
		        record = b'{"node":"n1","epoch":2,"writer":%d}' % k
		        try:
		            os.write(fd, record)
		        except OSError as e:
		            os._exit(1 if e.errno == errno.EBUSY else 2)
		        os._exit(0)
		    pids.append(pid)
		for k in range(4):
		    os.read(ready[0], 1)
		os.close(started[1])
		start = time.monotonic()
		if kill_after != "-":
		    time.sleep(float(kill_after))
		    start = time.monotonic()
		    for pid in pids:
		        os.kill(pid, signal.SIGKILL)
		ends = [os.waitpid(pid, 0)[1] for pid in pids]
		took = time.monotonic() - start
		print(int(took * 1000),
		      *sorted(os.waitstatus_to_exitcode(end) for end in ends))
	PY
}

@test "four writers of one record on a slow store: at once, and one wins" {
	local took codes

	a_mount
	rules m1 'put_if * delay 3000'
	read -r took codes < <(writers -)
	is "$codes" "0 1 1 1"
	[ "$took" -ge 3000 ]
	! timed || [ "$took" -lt 5000 ]
	grep -q '"epoch":2,"writer":[0-3]}' "$here"
}

@test "four writers of one record can be killed while the store is slow" {
	local took codes

	a_mount
	rules m1 'put_if * delay 8000'
	read -r took codes < <(writers 1)
	is "$codes" "-9 -9 -9 -9"
	! timed || [ "$took" -lt 2000 ]
	# None of them had sent anything.
	until_status m1 requests_in_store 0
	rules m1
	is "$(cat "$here")" "$(own n1 1)"
	swap "$here" "$(own n1 2)"
}

@test "a slow writer holds up no reader and no stat of the same record" {
	local pid start

	a_mount
	arm "$here" "$(etag "$here")"
	rules m1 'put_if * delay 3000'
	bash -c 'echo "$1" >"$2"' bash "$(own n1 2)" "$here" 3>&- &
	pid=$!
	until_status m1 requests_in_store 1
	start=$(now_ms)
	is "$(cat "$here")" "$(own n1 1)"
	stat "$here" >/dev/null
	etag "$here" >/dev/null
	within 1500 "$start"
	kill -0 "$pid"
	wait "$pid"
	is "$(cat "$here")" "$(own n1 2)"
}
