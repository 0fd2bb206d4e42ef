#!/usr/bin/env bats
# celldfs.8, HOLDING A CELL, "Waiting for a change": poll(2) and celldfs-watch.

load helper

# polls FILE SCRIPT: runs a Python script with fd = FILE, open to read and read to
# its end; changed(ms) says whether a poll for POLLPRI fires by then, again() reads
# afresh.
polls() {
	python3 - "$1" "$2" <<-'PY'
		import os, select, sys, textwrap, time
		fd = os.open(sys.argv[1], os.O_RDWR)
		def again():
		    os.lseek(fd, 0, 0)
		    while os.read(fd, 4096):
		        pass
		def changed(ms, events=select.POLLPRI):
		    p = select.poll()
		    p.register(fd, events)
		    return [found for _, found in p.poll(ms)]
		def say(*words):
		    print(*words, flush=True)
		again()
		exec(textwrap.dedent(sys.argv[2]))
	PY
}

@test "a record is always readable and writable, and that costs nothing" {
	spy_at m
	create "$DIR/m/cells/x/own" "$(own a 1)"
	run polls "$DIR/m/cells/x/own" "
		open('$DIR/m.calls', 'w').close()
		say(changed(0, select.POLLIN | select.POLLOUT), changed(0, select.POLLIN))
		e = select.epoll(); e.register(fd, select.EPOLLIN | select.EPOLLET)
		say(e.poll(0) == [(fd, select.EPOLLIN)])
		time.sleep(1.5)"
	is "$output" "[5] [1]
True"
	is "$(counted "$DIR/m.calls")" "0 0 0"
}

@test "who asks for POLLPRI is told of a change by another mount, once" {
	mount_at m1 -o watch-ms=300
	mount_at m2
	create "$DIR/m1/cells/x/own" "$(own a 1)"
	polls "$DIR/m1/cells/x/own" "
		say('ready', changed(1000))
		say(changed(20000))
		again()
		say(changed(1000))" >"$DIR/out" &
	until grep -q ready "$DIR/out"; do sleep 0.05; done
	swap "$DIR/m2/cells/x/own" "$(own a 2)"
	wait $!
	is "$(cat "$DIR/out")" "ready []
[2]
[]"
}

@test "a change between the read and the poll is seen; an own write is none" {
	mount_at m1 -o watch-ms=300
	mount_at m2
	create "$DIR/m1/cells/x/own" "$(own a 1)"
	run polls "$DIR/m1/cells/x/own" "
		os.write(fd, b'{\"node\":\"a\",\"epoch\":2}')
		say(changed(1000))
		with open('$DIR/m2/cells/x/own', 'r+b', 0) as other:
		    other.read()
		    other.write(b'{\"node\":\"a\",\"epoch\":3}')
		say(changed(20000))
		say(changed(0))
		again()
		say(changed(0), changed(1000))"
	is "$output" "[]
[2]
[2]
[] []"
}

@test "that the record is gone is a change, and so is that it is there again" {
	mount_at m -o watch-ms=300
	create "$DIR/m/cells/x/own" "$(own a 1)"
	polls "$DIR/m/cells/x/own" "
		say('ready')
		say(changed(20000))" >"$DIR/out" &
	until grep -q ready "$DIR/out"; do sleep 0.05; done
	outside rm cells/x/own.json
	wait $!
	is "$(cat "$DIR/out")" "ready
[2]"
}

@test "a watch costs a read every watch-ms, however many wait, and none later" {
	local n gets pids=()

	spy_at m -o watch-ms=500
	create "$DIR/m/cells/x/own" "$(own a 1)"
	for n in {1..8}; do
		polls "$DIR/m/cells/x/own" "
			say('ready', $n)
			time.sleep(max(0, $(date +%s) + 4 - time.time()))
			changed(3000)" >>"$DIR/out" &
		pids+=($!)
	done
	sleep 4.5
	is "$(wc -l <"$DIR/out")" 8
	: >"$DIR/m.calls"
	sleep 2
	gets=$(counted "$DIR/m.calls")
	wait "${pids[@]}"
	[ "${gets%% *}" -ge 2 ]
	[ "${gets%% *}" -le 5 ]
	sleep 0.6
	: >"$DIR/m.calls"
	sleep 1.2
	is "$(counted "$DIR/m.calls")" "0 0 0"
}

@test "a watch ends when it has fired" {
	spy_at m1 -o watch-ms=300
	mount_at m2
	create "$DIR/m1/cells/x/own" "$(own a 1)"
	polls "$DIR/m1/cells/x/own" "
		say('ready')
		changed(20000)
		say('fired')
		time.sleep(3)" >"$DIR/out" &
	until grep -q ready "$DIR/out"; do sleep 0.05; done
	swap "$DIR/m2/cells/x/own" "$(own a 2)"
	until grep -q fired "$DIR/out"; do sleep 0.05; done
	sleep 0.4
	: >"$DIR/m1.calls"
	sleep 1.2
	is "$(counted "$DIR/m1.calls")" "0 0 0"
	wait $!
}

@test "a store that does not answer neither fires nor blocks anything" {
	spy_at m -o watch-ms=300,deadline-ms=2000
	create "$DIR/m/cells/x/own" "$(own a 1)"
	polls "$DIR/m/cells/x/own" "
		say('ready')
		say(changed(3000))" >"$DIR/out" &
	until grep -q ready "$DIR/out"; do sleep 0.05; done
	rules m 'get * delay 60000'
	timeout 2 cat "$DIR/m/.celldfs/status" >/dev/null
	wait $!
	is "$(tail -1 "$DIR/out")" "[]"
	rules m
}

@test "celldfs-watch prints a line for each change" {
	local tries pid etag

	mount_at m1 -o watch-ms=300
	mount_at m2
	create "$DIR/m1/cells/x/own" "$(own a 1)"
	put nodes/n.json "$(lease n 1)"
	"$BUILD/celldfs-watch" "$DIR/m1/cells/x/own" "$DIR/m1/nodes/n" \
		>"$DIR/out" 2>&1 3>&- &
	pid=$!
	sleep 1
	is "$(cat "$DIR/out")" ""
	swap "$DIR/m2/cells/x/own" "$(own a 2)"
	etag=$(etag "$DIR/m2/cells/x/own")
	for ((tries = 0; tries < 200; tries++)); do
		[ "$(wc -l <"$DIR/out")" -eq 1 ] && break
		sleep 0.05
	done
	put nodes/n.json "$(lease n 2)"
	for ((tries = 0; tries < 200; tries++)); do
		[ "$(wc -l <"$DIR/out")" -eq 2 ] && break
		sleep 0.05
	done
	swap "$DIR/m2/cells/x/own" "$(own "" 2)"
	for ((tries = 0; tries < 200; tries++)); do
		[ "$(wc -l <"$DIR/out")" -eq 3 ] && break
		sleep 0.05
	done
	kill "$pid"
	is "$(sed -n 1p "$DIR/out" | cut -d' ' -f2-)" \
		"$DIR/m1/cells/x/own a 2 $etag"
	[[ $(sed -n 2p "$DIR/out" | cut -d' ' -f2-) == \
		"$DIR/m1/nodes/n n - "* ]]
	[[ $(sed -n 3p "$DIR/out" | cut -d' ' -f2-) == \
		"$DIR/m1/cells/x/own - 2 "* ]]
	[[ $(sed -n 1p "$DIR/out") =~ ^20[0-9-]+T[0-9:]+\.[0-9]{3}Z\  ]]
}

@test "celldfs-watch: usage, and files that are none" {
	run "$BUILD/celldfs-watch"
	is "$status" 2
	run "$BUILD/celldfs-watch" -x
	is "$status" 2
	run "$BUILD/celldfs-watch" --help
	is "$status" 0
	mount_at m
	run "$BUILD/celldfs-watch" "$DIR/m/cells/x/own"
	is "$status" 1
	[[ $output == *"cells/x/own: No such file"* ]]
}
