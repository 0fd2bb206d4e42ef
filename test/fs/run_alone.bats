#!/usr/bin/env bats
# run_alone: celldfs-run by itself, on a directory that looks like a mount (see
# imitation.py): its command line, exit statuses, signals, terminal, and when it
# kills. run.bats does the same with leases that are really lost.

load helper
load run

setup() {
	DIR=$(mktemp -d "${TMPDIR:-/tmp}/celldfs-test.XXXXXX")
	M=$DIR/m
	STARTED=()
}

teardown() {
	end_started
	rm -rf "$DIR"
}

# imitate [TTL_MS]: M is the mount of node a, with a cell x at epoch 7.
imitate() {
	local tries

	python3 "$HERE/imitation.py" "$M" a "${1:-3000}" 3>&- &
	STARTED+=($!)
	for ((tries = 0; tries < 200; tries++)); do
		[ -e "$M/.celldfs/status" ] && break
		sleep 0.05
	done
	mkdir "$M/cells/x"
	OWN=$M/cells/x/own
	echo '{"node":"a","epoch":7}' >"$OWN"
	setfattr -n user.celld.node -v a "$OWN" 2>/dev/null ||
		skip "no user attributes on this filesystem: set TMPDIR"
	setfattr -n user.celld.epoch -v 7 "$OWN"
}

# order WORD...: see imitation.py.
order() {
	echo "$*" >"$M.orders.new"
	mv "$M.orders.new" "$M.orders"
}

# dead_before_end FILE...: the last heartbeats were 100 ms before the end that
# the last renewal gave.
dead_before_end() {
	local file

	for file in "$@"; do
		beaten_before "$file" $(($(cat "$M.ends") - 100))
	done
}

# --- What the command gets, and what it leaves ---------------------------------

@test "the command has the cell, and what it needs to know of it" {
	imitate
	is "$(run_x -- sh -c 'echo $CELLD_CELL $CELLD_NODE $CELLD_EPOCH "$@"' \
		sh a 'b  c' -n)" "x a 7 a b  c -n"
	run_x -- sh -c '! flock -n "$1" true' sh "$OWN"
	flock -n "$OWN" true
}

@test "its exit status is the command's, or 128 and the signal" {
	imitate
	status_is 0 run_x -- true
	status_is 5 run_x -- sh -c 'exit 5'
	status_is 112 run_x -- sh -c 'exit 112'
	status_is 137 run_x -- sh -c 'kill -KILL $$'
	status_is 143 run_x -- sh -c 'kill $$'
	status_is 127 run_x -- "$DIR/none"
	status_is 127 run_x -- no-such-command
	status_is 126 run_x -- "$DIR"
	flock -n "$OWN" true
}

@test "usage: 2, and nothing is run" {
	imitate
	no() { status_is 2 env -u CELLDFS_MOUNT "$RUN" "$@"; }
	no
	no -m "$M" x
	no -m "$M" x --
	no -m "$M" x true
	no -m "$M" x true --
	no -m "$M" -- touch "$DIR/run"
	no x -- touch "$DIR/run"
	no -m "" x -- touch "$DIR/run"
	no -m "$M" '' -- touch "$DIR/run"
	no -m "$M" .. -- touch "$DIR/run"
	no -m "$M" 'a b' -- touch "$DIR/run"
	no -m "$M" "$(printf '%256d' 0)" -- touch "$DIR/run"
	no -m "$M" -n -w 1 x -- touch "$DIR/run"
	no -m "$M" -w -1 x -- touch "$DIR/run"
	no -m "$M" -w 1s x -- touch "$DIR/run"
	no -m "$M" -w nan x -- touch "$DIR/run"
	no -m "$M" -z x -- touch "$DIR/run"
	no -m "$M" "$OWN" -- touch "$DIR/run"
	no "$M/cells/x" -- touch "$DIR/run"
	no "$M/x/own" -- touch "$DIR/run"
	no "$M/cells/x/y/own" -- touch "$DIR/run"
	no /own -- touch "$DIR/run"
	[ ! -e "$DIR/run" ]
	"$RUN" --help | grep -q '^usage: celldfs-run '
	"$RUN" -h | grep -q '^Exit status: '
}

@test "the mount: -m, CELLDFS_MOUNT, or the path of the record" {
	imitate
	"$RUN" -m "$M" x -- true
	CELLDFS_MOUNT=$M "$RUN" x -- true
	CELLDFS_MOUNT=$DIR/none "$RUN" -m "$M" x -- true
	CELLDFS_MOUNT=$DIR/none "$RUN" "$OWN" -- true
	is "$("$RUN" "$OWN" -- sh -c 'echo $CELLD_CELL')" x
	(cd "$M" && "$RUN" cells/x/own -- true)
	(cd "$M/cells" && "$RUN" ../cells/x/own -- true)
}

@test "no mount is not a free cell" {
	mkdir -p "$M/cells/x"
	status_is 111 run_x -- touch "$DIR/run"
	grep -q 'nothing is mounted' "$DIR/said"
	status_is 111 "$RUN" -m "$DIR/none" x -- touch "$DIR/run"
	[ ! -e "$DIR/run" ]
	is "$(find "$M" -type f)" ""
}

@test "a mount that can never hold a cell: 125" {
	imitate
	kill -STOP "${STARTED[0]}"
	status() {
		sed -i "s/^$1 .*/$1 $2/" "$M/.celldfs/status"
		status_is "$3" run_x -- touch "$DIR/run"
		grep -q "$4" "$DIR/said"
	}
	run_x -- true
	status ttl_ms 1999 125 'too short'
	status keeper off 125 'keeper=off'
	status node - 125 'no node name'
	sed -i 's/^node .*/node a/; s/^keeper .*/keeper on/' "$M/.celldfs/status"
	sed -i 's/^ttl_ms .*/ttl_ms 3000/' "$M/.celldfs/status"
	run_x -- true
	status lease fenced 111 'lease is fenced'
	[ ! -e "$DIR/run" ]
}

@test "a record that is not what the lock says is not held" {
	imitate
	setfattr -n user.celld.node -v b "$OWN"
	status_is 111 run_x -- touch "$DIR/run"
	grep -q 'names b at epoch 7' "$DIR/said"
	setfattr -x user.celld.node "$OWN"
	status_is 111 run_x -- touch "$DIR/run"
	[ ! -e "$DIR/run" ]
}

@test "held by another: waits, for ever, so long, or not at all" {
	local start

	imitate
	start_run first -- sleep 60
	held
	start=$(boot_ms)
	status_is 111 run_x -n -- touch "$DIR/run"
	took 0 1500 "$start"
	start=$(boot_ms)
	status_is 111 run_x -w 0.5 -- touch "$DIR/run"
	took 500 1500 "$start"
	grep -q 'within 0.5 s: x: held through this mount already' "$DIR/said"
	status_is 111 run_x -w 0 -- touch "$DIR/run"
	[ ! -e "$DIR/run" ]
	start_run second -w 30 -- true
	until_true grep -q waiting "$DIR/second.err"
	kill "${PIDS[first]}"
	status_is 0 wait "${PIDS[second]}"
	start_run third -- sleep 1
	held
	run_x -- true
}

@test "a signal ends the wait, and the process by that signal" {
	local name pid

	imitate
	start_run first -- sleep 60
	held
	for name in INT TERM HUP USR1; do
		env --default-signal="$name" "$RUN" -m "$M" -v x -- \
			touch "$DIR/run" 2>"$DIR/waits" 3>&- &
		pid=$!
		until_true grep -q waiting "$DIR/waits"
		kill -s "$name" "$pid"
		status_is $((128 + $(kill -l "$name"))) wait "$pid"
	done
	[ ! -e "$DIR/run" ]
	is "$(pgrep -c -x celldfs-holder -s "$(holders | xargs | tr ' ' ,)")" 1
}

# --- Descriptors ----------------------------------------------------------------

@test "the command has nothing open on the mount, and all that it was given" {
	imitate
	sh -c 'ls /proc/self/fd; cat <&9' 9<<<given 3>&- >"$DIR/plain"
	run_x -- sh -c 'ls /proc/self/fd; cat <&9' 9<<<given >"$DIR/fds"
	is "$(cat "$DIR/fds")" "$(cat "$DIR/plain")"
	run_x -- ls -l /proc/self/fd >"$DIR/fds"
	not grep -q "$M" "$DIR/fds"
}

@test "neither process keeps what it was given" {
	local name

	imitate
	start_run first -- sleep 60 9<"$DIR" 70<"$DIR"
	held
	for name in "${PIDS[first]}" "$(holders)"; do
		ls -l "/proc/$name/fd" >"$DIR/fds"
		not grep -qE "$DIR( |\$)" "$DIR/fds"
	done
	# what reads its output does not wait for those that hang
	kill -STOP "$(holders)"
	kill "${PIDS[first]}"
	until_true gone "$(leader first)"
}

@test "without standard files" {
	imitate
	status_is 3 "$RUN" -v -m "$M" x -- sh -c 'echo >"$0/run"; exit 3' "$DIR" \
		<&- >&- 2>&-
	[ -e "$DIR/run" ]
	is "$("$RUN" -m "$M" x -- sh -c 'echo out' <&- 2>&-)" out
}

# --- Signals --------------------------------------------------------------------

@test "signals are passed on to the group, and nothing else happens" {
	local name

	imitate
	for name in HUP INT QUIT TERM USR1 USR2; do
		start_run first -- bash -c '
			trap "echo $0; kill %1; exit 3" "$0"
			sleep 60 & echo ready; wait' "$name" >"$DIR/traps"
		until_true grep -q ready "$DIR/traps"
		kill -s "$name" "${PIDS[first]}"
		status_is 3 wait "${PIDS[first]}"
		grep -qx "$name" "$DIR/traps"
		rm "$DIR/traps"
	done
	start_run first -- sh -c '"$1" "$2/1" & "$1" "$2/2"; exit 1' \
		sh "$TOOLS/heartbeat" "$DIR"
	until_true test -s "$DIR/1"
	until_true test -s "$DIR/2"
	kill "${PIDS[first]}"
	status_is 143 wait "${PIDS[first]}"
	no_beat 1 2
}

@test "what was ignored stays ignored" {
	imitate
	(trap '' HUP && exec "$RUN" -m "$M" x -- sh -c '
		kill -HUP $$ $PPID; grep SigIgn /proc/self/status') >"$DIR/ignored"
	is "$(cut -f2 "$DIR/ignored")" 0000000000000001
	is "$(run_x -- grep SigIgn /proc/self/status | cut -f2)" \
		"$(grep SigIgn /proc/self/status | cut -f2)"
	is "$(run_x -- grep SigBlk /proc/self/status | cut -f2)" \
		"$(grep SigBlk /proc/self/status | cut -f2)"
}

# --- What is left behind --------------------------------------------------------

@test "what the command leaves behind is ended before the cell is released" {
	local start

	imitate
	start=$(boot_ms)
	status_is 4 run_x -- sh -c '
		"$1" "$2/term" & "$1" -i "$2/kill" & setsid "$1" "$2/away" &
		(setsid "$1" -i "$2/far" &) ; sleep 0.5; exit 4' \
		sh "$TOOLS/heartbeat" "$DIR"
	took 500 3000 "$start"
	flock -n "$OWN" true
	no_beat term kill away far
}

@test "a command that is started by exec: its shell's children are not touched" {
	imitate
	bash -c 'sleep 3 & echo $! >"$1"; exec "$2" -m "$3" x -- true' \
		bash "$DIR/child" "$RUN" "$M"
	kill "$(cat "$DIR/child")"
}

# --- The leash --------------------------------------------------------------------

@test "nothing happens while the lease is renewed" {
	local ttl

	for ttl in 2000 3000; do
		rm -rf "$M"
		imitate "$ttl"
		status_is 0 run_x -- sleep 5
		kill "${STARTED[@]}"
	done
}

@test "no renewal: SIGTERM, then SIGKILL for the whole group, in time; 112" {
	imitate
	start_run first -- bash -c '
		trap "date +%s%N >\"\$2/termed\"" TERM
		for n in 1 2 3; do "$1" -i "$2/$n" & done
		setsid "$1" -i "$2/away" &
		while :; do sleep 0.1; done' bash "$TOOLS/heartbeat" "$DIR"
	held
	sleep 1.$((RANDOM % 9))
	order still
	status_is 112 wait "${PIDS[first]}"
	[ -e "$DIR/termed" ]
	dead_before_end "$DIR"/{1,2,3,away}
	grep -q 'x: lost at epoch 7: the lease was not seen' "$DIR/first.err"
	until_true flock -n "$OWN" true
}

@test "no renewal: a command that heeds SIGTERM has time for it" {
	imitate
	start_run first -- bash -c '
		trap "sleep 0.2; echo done >\"\$2/done\"; exit 0" TERM
		"$1" "$2/1" & while :; do sleep 0.1; done' \
		bash "$TOOLS/heartbeat" "$DIR"
	held
	order still
	status_is 112 wait "${PIDS[first]}"
	[ -e "$DIR/done" ]
	dead_before_end "$DIR/1"
}

@test "a stopped command is ended as well" {
	imitate
	start_run first -- bash -c 'trap "echo >\"\$0/termed\"; exit" TERM
		while :; do sleep 0.1; done' "$DIR"
	held
	kill -STOP "-$(leader first)"
	order still
	status_is 112 wait "${PIDS[first]}"
	[ -e "$DIR/termed" ]
}

@test "the lease is lost: dead within the margin; 112, and why" {
	local start word

	imitate
	for word in replaced removed; do
		order held
		start_run first -- "$TOOLS/heartbeat" -i "$DIR/1"
		held
		start=$(boot_ms)
		order fenced $word
		status_is 112 wait "${PIDS[first]}"
		took 0 950 "$start"
		grep -q "lease is fenced: $word" "$DIR/first.err"
		beaten_before "$DIR/1" $((start + 950))
	done
}

@test "the mount goes away: the command ends, 112" {
	local start

	imitate
	start_run first -- "$TOOLS/heartbeat" "$DIR/1"
	held
	kill "${STARTED[0]}"
	mv "$M/.celldfs/status" "$M/.celldfs/gone"
	start=$(boot_ms)
	status_is 112 wait "${PIDS[first]}"
	took 0 1500 "$start"
	grep -q 'the mount is gone' "$DIR/first.err"
}

@test "a reader of its messages that does not read holds nothing up" {
	local pid

	imitate
	mkfifo "$DIR/pipe"
	exec 9<>"$DIR/pipe"
	# full
	timeout 1 dd if=/dev/zero bs=4096 of="$DIR/pipe" oflag=nonblock \
		2>/dev/null || true
	# what has left the group is killed by the process that has the words
	"$RUN" -m "$M" x -- sh -c '
		setsid "$1" -i "$2/1" & exec "$1" -i "$2/2"' \
		sh "$TOOLS/heartbeat" "$DIR" 2>"$DIR/pipe" 3>&- &
	pid=$!
	STARTED+=("$pid")
	until_true test -s "$DIR/1"
	order still
	sleep 3
	dead_before_end "$DIR/1"
	cat <&9 >/dev/null 3>&- &
	STARTED+=($!)
	status_is 112 wait "$pid"
	exec 9>&-
}

@test "one within another: all are ended, and both say so" {
	imitate
	mkdir "$M/cells/y"
	cp -p --preserve=xattr "$OWN" "$M/cells/y/own"
	start_run first -- "$RUN" -m "$M" y -- sh -c '
		echo $CELLD_CELL >"$2/cell"; "$1" -i "$2/1" & exec "$1" -i "$2/2"' \
		sh "$TOOLS/heartbeat" "$DIR"
	until_true test -s "$DIR/2"
	is "$(cat "$DIR/cell")" y
	order still
	status_is 112 wait "${PIDS[first]}"
	dead_before_end "$DIR/1" "$DIR/2"
	grep -q 'x: lost' "$DIR/first.err"
	grep -q 'y: lost' "$DIR/first.err"
	flock -w 5 "$M/cells/y/own" true
}

# --- Whichever process stops or dies ----------------------------------------------

# A group, one that has left it, and none of them heeds SIGTERM.
beating() {
	start_run first -- sh -c '
		"$1" -i "$2/1" & "$1" -i "$2/2" & exec "$1" -i "$2/3"' \
		sh "$TOOLS/heartbeat" "$DIR"
	held
	until_true test -s "$DIR/3"
}

@test "the holder hangs: dead in time, 112, and nobody waits for it" {
	local end name

	imitate
	beating
	sleep 0.$((RANDOM % 9))
	kill -STOP "$(holders)"
	end=$(cat "$M.ends") # or an earlier one is what it knew
	status_is 112 wait "${PIDS[first]}"
	for name in 1 2 3; do
		beaten_before "$DIR/$name" $((end - 100))
	done
}

@test "the holder dies: dead at once, 112" {
	local holder start

	imitate
	beating
	holder=$(holders)
	start=$(boot_ms)
	kill -KILL "$holder"
	status_is 112 wait "${PIDS[first]}"
	took 0 1500 "$start"
	beaten_before "$DIR/1" $((start + 500))
	no_beat 1 2 3
	grep -q 'process that held it has died' "$DIR/first.err"
}

@test "celldfs-run is killed: all are dead at once, and then the cell is free" {
	local start

	imitate
	beating
	start=$(boot_ms)
	kill -KILL "${PIDS[first]}"
	flock -w 5 "$OWN" true
	took 0 1000 "$start"
	no_beat 1 2 3
	beaten_before "$DIR/1" "$(boot_ms)"
	is "$(holders)" ""
}

@test "celldfs-run is stopped: dead in time, by the holder" {
	imitate
	beating
	kill -STOP "${PIDS[first]}"
	sleep 4
	is "$(find "$DIR/3" -newermt '-1 second')" "$DIR/3"
	order still
	sleep 3.2
	dead_before_end "$DIR"/{1,2,3}
	not flock -n "$OWN" true
	kill -CONT "${PIDS[first]}"
	status_is 112 wait "${PIDS[first]}"
}

@test "celldfs-run is stopped for long, and goes on as if nothing was" {
	imitate
	beating
	kill -STOP "${PIDS[first]}"
	sleep 5
	kill -CONT "${PIDS[first]}"
	sleep 1
	kill -0 "${PIDS[first]}"
	kill -KILL "$(leader first)"
	status_is 137 wait "${PIDS[first]}"
	no_beat 1 2 3
}

@test "celldfs-run is killed while the holder hangs: the command is dead" {
	imitate
	start_run first -- "$TOOLS/heartbeat" -i "$DIR/1"
	held
	kill -STOP "$(holders)"
	kill -KILL "${PIDS[first]}"
	sleep 0.2
	no_beat 1
	kill -CONT "$(holders)"
	flock -w 5 "$OWN" true
}

@test "killed at random moments of its start: no lock stays, nothing lives" {
	local n

	imitate
	for ((n = 0; n < 15; n++)); do
		"$RUN" -m "$M" x -- sh -c '"$1" -i "$2/1" & exec "$1" -i "$2/2"' \
			sh "$TOOLS/heartbeat" "$DIR" 2>>"$DIR/err" 3>&- &
		sleep "0.0$((RANDOM % 10))"
		kill -KILL $!
		flock -w 5 "$OWN" true
		no_beat 1 2
	done
}

# --- The terminal ------------------------------------------------------------------

# A key right after what is seen would come while the shell forks: dash then
# hears no Ctrl-C, and does not stop, with celldfs-run or without.
on_terminal() {
	PATH=$BUILD:$PATH CELLDFS_MOUNT=$M python3 "$HERE/terminal.py" 3>&-
}

@test "Ctrl-C ends the command, a loop around it, and a script" {
	imitate
	on_terminal <<-END
		type celldfs-run x -- sh -c 'echo g''o; sleep 60'
		see go
		pause 0.3
		key C
		see ready>
		type echo st:\$?
		see st:130
		type for i in 1 2 3; do celldfs-run x -- sh -c 'echo g''o; sleep 60'; echo af''ter; done
		see go
		pause 0.3
		key C
		see ready>
		type echo en''d
		see end
		type bash -c "celldfs-run x -- sh -c 'echo g''o; sleep 60'; echo af''ter"
		see go
		pause 0.3
		key C
		see ready>
		type echo en''d
		see end
	END
	flock -n "$OWN" true
}

@test "Ctrl-Z stops the command, fg goes on, and it can read the terminal" {
	imitate
	on_terminal <<-END
		type celldfs-run x -- sh -c 'echo g''o; read line; echo "in:\$line"; exit 7'
		see go
		pause 0.3
		key Z
		see Stopped
		see ready>
		type flock -n $OWN true; echo st:\$?
		see st:1
		type fg
		see celldfs-run
		type hello
		see in:hello
		see ready>
		type echo st:\$?
		see st:7
	END
}

@test "in a pipeline the terminal is handed over when it is wanted" {
	imitate
	on_terminal <<-END
		type celldfs-run x -- sh -c 'echo g''o; read line </dev/tty; echo "got:\$line"' | sed 's/got/ha''d/'
		type hello
		see had:hello
		see ready>
		type celldfs-run x -- sleep 60 | cat
		pause 0.7
		key C
		see ready>
		type echo en''d
		see end
	END
}

@test "in the background, brought forward, and stopped" {
	imitate
	on_terminal <<-END
		type celldfs-run x -- sh -c 'read line; echo "got:\$line"; sleep 60' &
		see ready>
		pause 0.5
		type fg
		type hello
		see got:hello
		pause 0.3
		key Z
		see Stopped
		type bg
		see celldfs-run
		see ready>
		type kill %1; wait %1; echo st:\$?
		see st:143
	END
}

@test "stopped by Ctrl-Z while the lease is lost: dead in time, 112 on fg" {
	imitate
	on_terminal <<-END
		type celldfs-run x -- $TOOLS/heartbeat -i $DIR/1
		mark $DIR/1
		pause 0.3
		key Z
		see Stopped
		type echo still >$M.orders
		pause 3
		type echo alive:\$(ps -C heartbeat -o args= | grep -c $DIR/1)
		see alive:0
		type fg
		see lost at epoch 7
		see ready>
		type echo st:\$?
		see st:112
	END
	dead_before_end "$DIR/1"
}
