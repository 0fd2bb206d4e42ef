# fleet: nodes that keep their leases, and Python scripts that look at them. Load
# it after helper.

TTL=3000 # ms

# node NAME [OPTION...]: a mount NAME of the node NAME, which keeps its lease.
node() { node_at "$1" "$@"; }

# node_at MOUNT NODE [OPTION...]
node_at() {
	local mount=$1 node=$2

	shift 2
	mount_at "$mount" -o "node=$node,ttl-ms=$TTL" "$@"
}

# spied_node NAME [OPTION...]: as node, with the spy between.
spied_node() {
	local name=$1

	shift
	spy_at "$name" -o "node=$name,ttl-ms=$TTL" "$@"
}

# clocked_node NAME [OPTION...]: as node, with a wall clock that is wrong by as
# many ms as $DIR/NAME.clock says now.
clocked_node() {
	local name=$1

	shift
	mount_with with_clock "$name" -o "node=$name,ttl-ms=$TTL" "$@"
}

with_clock() {
	LD_PRELOAD=$TOOLS/wallclock.so CELLDFS_WALLCLOCK=$2.clock \
		exec "$BUILD/celldfs" "$@"
}

# a_store: the store is there, with nothing in it, before the first mount.
a_store() { "$BUILD/celldfs" probe "$STORE" >/dev/null; }

# begin MOUNT NODE [OPTION...]: as node_at, but does not wait until it serves;
# see serves. PROGRAM is another one than celldfs.
begin() {
	local mount=$1 node=$2

	shift 2
	mkdir -p "$DIR/$mount"
	CELLDFS_SPY_LOG=$DIR/$mount.calls CELLDFS_SPY_RULES=$DIR/$mount.rules \
		"${PROGRAM:-$BUILD/celldfs}" "$STORE" "$DIR/$mount" -f \
		-o "node=$node,ttl-ms=$TTL" "$@" >"$DIR/$mount.out" \
		2>>"$DIR/$mount.log" 3>&- &
	MOUNTS+=("$mount:$!")
}

# serves MOUNT: waits until it does.
serves() {
	local tries

	for ((tries = 0; tries < 600; tries++)); do
		mountpoint -q "$DIR/$1" && [ -e "$DIR/$1/.celldfs/status" ] &&
			return 0
		kill -0 "$(pid_of "$1")" 2>/dev/null || break
		sleep 0.02
	done
	cat "$DIR/$1.log"
	return 1
}

# says FILE PATTERN: waits for a line there that matches.
says() {
	local tries

	for ((tries = 0; tries < 1000; tries++)); do
		grep -q -- "$2" "$1" 2>/dev/null && return 0
		sleep 0.02
	done
	echo "not in $1: $2"
	cat "$1"
	return 1
}

# ended MOUNT STATUS: the daemon ends, with that.
ended() {
	local status=0

	wait_gone "$(pid_of "$1")"
	wait "$(pid_of "$1")" || status=$?
	is "$status" "$2"
}

# crash NAME: kill -9, and its mount point is free again.
crash() {
	kill -KILL "$(pid_of "$1")"
	wait_gone "$(pid_of "$1")"
	fusermount3 -u "$DIR/$1"
}

# fleet [ARGUMENT...]: runs the Python script on its input; what it can use is in
# fleet.py.
fleet() { DIR=$DIR python3 "$HERE/fleet.py" "$@"; }
