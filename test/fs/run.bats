#!/usr/bin/env bats
# run: celldfs-run on real mounts, whose leases are really lost. run_alone.bats has
# its command line, its signals and its terminal.

load helper
load run

TTL=3000
RENEWAL=$((TTL / 3))
MARGIN=950 # what leash_terms() makes of it

eval "$(declare -f teardown | sed '1s/.*/helper_teardown()/')"
teardown() {
	local entry

	end_started
	for entry in "${MOUNTS[@]}"; do
		kill -CONT "${entry##*:}" 2>/dev/null || true
	done
	helper_teardown
}

# node_at NAME NODE [OPTION]: a mount $DIR/NAME under the spy's eyes that keeps its
# lease; $M is that mount from now on.
node_at() {
	spy_at "$1" -o "node=$2,ttl-ms=$TTL${3:+,$3}"
	M=$DIR/$1
}

status_of() { sed -n "s/^$2 //p" "$DIR/$1/.celldfs/status"; }

# clock_ahead NAME: how far the store's clock is ahead of CLOCK_BOOTTIME, at most:
# the quickest of some looks, none of which makes a process.
clock_ahead() {
	local try before after least=100000 ahead lines line

	for ((try = 0; try < 20; try++)); do
		read -r before _ </proc/uptime
		mapfile -t lines <"$DIR/$1/.celldfs/status"
		read -r after _ </proc/uptime
		before=${before/./}0
		after=${after/./}0
		[ $((after - before)) -lt "$least" ] || continue
		least=$((after - before))
		for line in "${lines[@]}"; do
			case $line in
			store_time_ms*) ahead=$((${line#* } - before)) ;;
			esac
		done
	done
	echo "$ahead"
}

# --- The cell ----------------------------------------------------------------------

@test "the cell is this node's while the command runs, and released after it" {
	node_at m a
	is "$(run_x -- sh -c 'cat "$1"; echo $CELLD_CELL $CELLD_NODE $CELLD_EPOCH' \
		sh "$M/cells/x/own" | xargs)" '{node:a,epoch:1} x a 1'
	is "$(cat "$M/cells/x/own")" '{"node":"","epoch":1}'
	status_is 7 run_x -- sh -c 'exit $((6 + $CELLD_EPOCH - 1))'
	is "$(cat "$M/cells/x/own")" '{"node":"","epoch":2}'
	status_is 127 run_x -- "$DIR/none"
	is "$(cat "$M/cells/x/own")" '{"node":"","epoch":3}'
	is "$(status_of m resident_cells)" 0
}

@test "on one mount and on another: refused, or had when it is released" {
	local a

	node_at b b
	node_at a a
	start_run first -- sleep 60
	held
	status_is 111 run_x -n -- touch "$DIR/run"
	grep -q 'x: held through this mount already' "$DIR/said"
	M=$DIR/b
	status_is 111 run_x -n -- touch "$DIR/run"
	grep -q 'x: busy: owned by a at epoch 1' "$DIR/said"
	status_is 111 run_x -w 1 -- touch "$DIR/run"
	grep -q 'within 1 s: x: busy: owned by a' "$DIR/said"
	[ ! -e "$DIR/run" ]

	start_run second -- sh -c 'echo $CELLD_NODE $CELLD_EPOCH'  >"$DIR/second"
	until_true grep -qs waiting "$DIR/second.err"
	kill "${PIDS[first]}"
	status_is 143 wait "${PIDS[first]}"
	status_is 0 wait "${PIDS[second]}"
	is "$(cat "$DIR/second")" 'b 2'
}

@test "a wait that a signal ends leaves no claim" {
	node_at a a
	start_run first -- sleep 60
	held
	start_run second -- touch "$DIR/run"
	until_true grep -qs waiting "$DIR/second.err"
	kill -INT "${PIDS[second]}"
	status_is 130 wait "${PIDS[second]}"
	kill "${PIDS[first]}"
	status_is 143 wait "${PIDS[first]}"
	sleep 1.5
	is "$(cat "$M/cells/x/own")" '{"node":"","epoch":1}'
	is "$(status_of a locks_waiting)" 0
	[ ! -e "$DIR/run" ]
}

@test "its requests: two reads, a claim and a release; none while it runs" {
	node_at m a
	run_x -- true
	: >"$DIR/m.calls"
	run_x -- true
	grep -v ' nodes/' "$DIR/m.calls" >"$DIR/counted" || true
	is "$(counted "$DIR/counted" | sed 's/^[012] /2 /')" "2 2 0"
	start_run first -- sleep 60
	held
	: >"$DIR/m.calls"
	sleep 2
	not grep -q ' cells/' "$DIR/m.calls"
	not grep -q '^get' "$DIR/m.calls"
}

@test "mounts that can never hold a cell: 125" {
	mount_at plain
	mount_at off -o node=a,keeper=off
	mount_at ro -o ro
	mount_at short -o node=b,ttl-ms=1900
	for M in "$DIR"/{plain,off,ro,short}; do
		status_is 125 run_x -- touch "$DIR/run"
	done
	grep -q 'ttl-ms=2000 or more' "$DIR/said"
	[ ! -e "$DIR/run" ]
	is "$(outside keys cells/)" ""
}

@test "nothing mounted: 111, and nothing is made" {
	M=$DIR/none
	status_is 111 run_x -- touch "$DIR/run"
	mkdir -p "$M/cells/x"
	status_is 111 run_x -- touch "$DIR/run"
	is "$(find "$M" -type f)" ""
	[ ! -e "$DIR/run" ]
}

# --- Whichever process dies --------------------------------------------------------

@test "kill -9 of celldfs-run: all are dead, and then the cell is released" {
	local start

	node_at m a
	beating first
	until_true is_beating first
	start=$(boot_ms)
	kill -KILL "${PIDS[first]}"
	until_true grep -q '"node":""' "$M/cells/x/own"
	took 0 1500 "$start"
	# the one that left the group is beyond the promise
	pkill -KILL -f "$DIR/first.2"
	no_beat first.{1,3}
	is "$(run_x -- sh -c 'echo $CELLD_EPOCH')" 2
}

@test "kill -9 of the holder: all are dead at once, 112" {
	local holder start

	node_at m a
	beating first
	until_true is_beating first
	holder=$(holders)
	start=$(boot_ms)
	kill -KILL "$holder"
	status_is 112 wait "${PIDS[first]}"
	dead_by first $((start + 500))
	until_true grep -q '"node":""' "$M/cells/x/own"
}

@test "the mount is told to end while the command runs: it ends in time, 112" {
	local ahead

	node_at m a
	beating first
	until_true is_beating first
	ahead=$(clock_ahead m)
	kill -TERM "$(pid_of m)"
	status_is 112 wait "${PIDS[first]}"
	dead_by first $(($(expires a) - ahead - 100))
}

# --- The release --------------------------------------------------------------------

@test "a release that is not known of: the command's status, and a word" {
	node_at m a deadline-ms=2000
	start_run first -- sh -c 'while [ ! -e "$1" ]; do sleep 0.1; done; exit 6' \
		sh "$DIR/go"
	held
	rules m 'put_if cells/* hang' 'get cells/* hang'
	touch "$DIR/go"
	status_is 6 wait "${PIDS[first]}"
	grep -q 'not known to be released' "$DIR/first.err"
	rules m
	until_true grep -q '"node":""' "$M/cells/x/own"
}

@test "the mount hangs at the release: bounded, and a signal ends the wait" {
	local start

	node_at m a deadline-ms=2000
	start_run first -- sh -c 'while [ ! -e "$1" ]; do sleep 0.1; done; exit 6' \
		sh "$DIR/go"
	held
	start_run second -w 60 -- true
	until_true grep -q waiting "$DIR/second.err"
	kill -STOP "$(pid_of m)"
	touch "$DIR/go"
	start=$(boot_ms)
	status_is 6 wait "${PIDS[first]}"
	took 2500 5000 "$start"
	grep -q 'not known to be released yet' "$DIR/first.err"
	kill -INT "${PIDS[second]}"
	status_is 130 wait "${PIDS[second]}"
}

@test "the mount hangs from the start: 111 in bounded time" {
	local start

	node_at m a
	kill -STOP "$(pid_of m)"
	start=$(boot_ms)
	status_is 111 run_x -w 1 -- touch "$DIR/run"
	took 1000 3000 "$start"
	status_is 111 run_x -- touch "$DIR/run"
	grep -q 'does not answer' "$DIR/said"
	took 10000 16000 "$start"
	[ ! -e "$DIR/run" ]
}

@test "a fenced mount: 111, and why" {
	node_at m a
	lease a $(($(now_ms) + 60000)) | outside put nodes/a.json
	until_true grep -qx 'lease fenced' "$M/.celldfs/status"
	status_is 111 run_x -- touch "$DIR/run"
	grep -q 'lease is fenced: replaced' "$DIR/said"
	[ ! -e "$DIR/run" ]
}

# --- The lease is lost --------------------------------------------------------------

@test "nothing happens while the lease is kept, also with a failed renewal" {
	local TTL=6000 # a disk that is slow for a second is no news

	node_at m a
	start_run first -- sleep 9
	held
	sleep 1
	rules m 'put_if nodes/* drop x2'
	status_is 0 wait "${PIDS[first]}"
}

# disturb KIND NAME: the mount, at a random moment.
disturb() {
	sleep "0.$((RANDOM % 10))$((RANDOM % 10))"
	case $1 in
	stopped) kill -STOP "$(pid_of "$2")" ;;
	hangs) rules "$2" 'put_if nodes/* hang' 'get nodes/* hang' ;;
	killed) kill -KILL "$(pid_of "$2")" ;;
	replaced)
		lease a $(($(now_ms) + 60000)) | outside put nodes/a.json
		boot_ms >"$DIR/$2.replaced"
		;;
	esac
}

# judge KIND NAME AHEAD: how the command of that mount ended. On a machine that is
# slow enough the lease is late before there is any other trouble.
judge() {
	local late='the lease was not seen to be renewed' word

	status_is 112 wait "${PIDS[$2]}"
	case $1 in
	replaced)
		dead_by "$2" $(($(cat "$DIR/$2.replaced") + RENEWAL + MARGIN))
		;;
	*)
		dead_by "$2" $(($(expires a) - $3 - 100))
		;;
	esac
	case $1 in
	stopped) word=$late ;;
	hangs) word='lease is fenced: expired' ;;
	killed) word='the mount is gone' ;;
	replaced) word='lease is fenced: replaced' ;;
	esac
	grep -q "x: lost at epoch 1: .*\($word\|$late\)" "$DIR/$2.err" ||
		{ cat "$DIR/$2.err"; return 1; }
}

# A turn is one run of each kind at once, each on a store of its own. The network is
# cut in test/s3/run_cut.bats.
@test "at random moments the mount stops, its store hangs, it dies, it is replaced: dead 100 ms before the published expiry, or within the margin" {
	local turns=5 turn kind name base=$STORE kinds='stopped hangs killed replaced'
	local -A ahead disturbers

	[ -z "${CELLDFS_LONG:-}" ] || turns=40
	for ((turn = 1; turn <= turns; turn++)); do
		for kind in $kinds; do
			name=$kind$turn
			STORE=$base-$name
			node_at "$name" a
			beating "$name"
		done
		for kind in $kinds; do
			name=$kind$turn
			STORE=$base-$name
			until_true is_beating "$name"
			ahead[$kind]=$(clock_ahead "$name")
			disturb "$kind" "$name" 3>&- &
			disturbers[$kind]=$!
		done
		for kind in $kinds; do
			name=$kind$turn
			STORE=$base-$name
			wait "${disturbers[$kind]}"
			judge "$kind" "$name" "${ahead[$kind]}"
			kill -CONT "$(pid_of "$name")" 2>/dev/null || true
			rules "$name"
			unmount "$name" || { tail "$DIR/$name.log"; return 1; }
			outside rm '*'
		done
	done
	STORE=$base
}

@test "another node takes the cell over only when the command is dead" {
	local turn last first

	for turn in 1 2 3; do
		node_at "a$turn" "a$turn"
		beating "one$turn"
		until_true is_beating "one$turn"
		node_at "b$turn" "b$turn"
		start_run "two$turn" -- "$TOOLS/heartbeat" "$DIR/two$turn"
		until_true grep -qs waiting "$DIR/two$turn.err"
		kill -STOP "$(pid_of "a$turn")"
		status_is 112 wait "${PIDS[one$turn]}"
		until_true test -s "$DIR/two$turn"
		read -r first <"$DIR/two$turn"
		dead_by "one$turn" $((first - 100))
		kill "${PIDS[two$turn]}"
		status_is 143 wait "${PIDS[two$turn]}"
		is "$(cat "$M/cells/x/own")" "{\"node\":\"\",\"epoch\":$((2 * turn))}"
		kill -CONT "$(pid_of "a$turn")"
		unmount "a$turn"
		unmount "b$turn"
	done
}
