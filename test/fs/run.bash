# run: celldfs-run under test. Load it after helper.

RUN=$BUILD/celldfs-run
declare -gA PIDS
declare -ga STARTED

# run_x [OPTION...] -- COMMAND...: on the cell x, or $CELL, of the mount $M; what it
# says goes to $DIR/said.
run_x() {
	local options=()

	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	"$RUN" -m "$M" "${options[@]}" "${CELL-x}" "$@" 2>"$DIR/said" 3>&-
}

# start_run NAME [OPTION...] -- COMMAND...: the same in the background, with the
# signals of a command on a terminal; its pid is ${PIDS[NAME]}, what it says goes
# to $DIR/NAME.err.
start_run() {
	local name=$1 options=()

	shift
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	rm -f "$DIR/$name.err"
	env --default-signal=INT,QUIT "$RUN" -v -m "$M" "${options[@]}" \
		"${CELL-x}" "$@" 2>"$DIR/$name.err" 3>&- &
	PIDS[$name]=$!
	STARTED+=($!)
	STARTED_NAME=$name
}

# held [NAME]: waits until the one that was started last has the cell.
held() {
	until_true grep -qs ': held by node' "$DIR/${1:-$STARTED_NAME}.err"
	until_true leader "${1:-$STARTED_NAME}" >/dev/null
}

# leader NAME: the pid of its command.
leader() { pgrep -P "${PIDS[$1]}" | grep -vxF "$(holders)"; }

# holders: the pids of the holders of this test, by what they have open.
holders() {
	local pid

	for pid in $(pgrep -x celldfs-holder); do
		if readlink "/proc/$pid"/fd/* 2>/dev/null |
			grep -q "^$DIR/"; then
			echo "$pid"
		fi
	done
}

end_started() {
	local pid

	for pid in $(holders) "${STARTED[@]}"; do
		kill -CONT "$pid" 2>/dev/null || true
		kill -KILL "$pid" 2>/dev/null || true
	done
}

# status_is STATUS COMMAND...
status_is() {
	local expected=$1 status=0

	shift
	"$@" || status=$?
	is "$status" "$expected"
}

# not COMMAND...: "! COMMAND" would not end a test.
not() { ! "$@"; }

# until_true COMMAND...: within 30 s.
until_true() {
	local tries

	for ((tries = 0; tries < 1500; tries++)); do
		if "$@"; then
			return 0
		fi
		sleep 0.02
	done
	echo "never true: $*"
	return 1
}

gone() { ! kill -0 "$1" 2>/dev/null; }

# boot_ms: CLOCK_BOOTTIME as heartbeat writes it, to 10 ms.
boot_ms() {
	local up

	read -r up _ </proc/uptime
	echo "${up/./}0"
}

# expires NODE: what is published of its lease, by the store's clock.
expires() {
	outside get "nodes/$1.json" | sed 's/.*"expires_ms":\([0-9]*\).*/\1/'
}

# beating NAME: on $M, a command of three processes that ignore SIGTERM, one of
# which has left the group; their heartbeats are $DIR/NAME.1 to .3.
beating() {
	start_run "$1" -- sh -c '"$1" -i "$2.1" & setsid "$1" -i "$2.2" &
		exec "$1" -i "$2.3"' sh "$TOOLS/heartbeat" "$DIR/$1"
}

is_beating() { [ -s "$DIR/$1.1" ] && [ -s "$DIR/$1.2" ] && [ -s "$DIR/$1.3" ]; }

# dead_by NAME MS: all three were, and are.
dead_by() {
	local file

	for file in "$DIR/$1".{1,2,3}; do
		beaten_before "$file" "$2"
	done
	no_beat "$1".{1,2,3}
}

# took FROM TO SINCE: so many ms have passed, if time is judged.
took() {
	local ms=$(($(boot_ms) - $3))

	[ "$ms" -ge "$1" ] || { echo "took $ms ms, should take $1"; return 1; }
	[ "$ms" -le "$2" ] || ! timed ||
		{ echo "took $ms ms, may take $2"; return 1; }
}

# beaten_before FILE MS: the last heartbeat was before that.
beaten_before() {
	local last

	last=$(tail -n 1 "$1")
	[ "$last" -le "$2" ] ||
		{ echo "$1: alive $((last - $2)) ms after $2"; return 1; }
}

# no_beat FILE...: nothing of that name in $DIR grows any more.
no_beat() {
	local file before=() after=()

	for file in "$@"; do
		before+=("$(cat "$DIR/$file" 2>/dev/null | wc -c)")
	done
	sleep 0.05
	for file in "$@"; do
		after+=("$(cat "$DIR/$file" 2>/dev/null | wc -c)")
	done
	is "${after[*]}" "${before[*]}"
}
