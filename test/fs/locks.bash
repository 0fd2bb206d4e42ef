# locks: mounts that are nodes, and processes that take the locks of cells. Load it
# after helper.
#
# A test's processes (locker.py) are killed before the mounts are ended, which
# their open files would keep busy.

load "$HERE/watched"

eval "mounts_$(declare -f teardown)"

teardown() {
	[ ${#LOCKERS[@]} -eq 0 ] || kill -KILL "${LOCKERS[@]}" 2>/dev/null || true
	[ ${#LOCKERS[@]} -eq 0 ] || wait "${LOCKERS[@]}" 2>/dev/null || true
	mounts_teardown
}

LOCKERS=()

# node NAME [OPTIONS]: a mount NAME under the spy's eyes, of the node NAME. py
# works on the first one's cells/x/own.
node() {
	spy_at "$1" -o "node=$1${2:+,$2}"
	[ -z "${OWN-}" ] || return 0
	OWN=$DIR/$1/cells/x/own
	CALLS=$DIR/$1.calls
	export OWN CALLS DIR
}

# own_at NODE [CELL]: the path of a cell's record.
own_at() { echo "$DIR/$1/cells/${2-x}/own"; }

# record [CELL]: what the store has.
record() { outside get "cells/${1-x}/own.json"; }

# until_record RECORD [CELL]
until_record() {
	local end=$((SECONDS + 20))

	until [ "$(record "${2-x}")" = "$1" ]; do
		[ "$SECONDS" -lt "$end" ] && continue
		echo "the record is $(record "${2-x}"), not $1"
		return 1
	done
}

# locker NAME ARGUMENT...: locker.py in the background; what it says goes to
# $DIR/NAME.said, its pid is $pid.
locker() {
	local name=$1

	shift
	python3 "$HERE/locker.py" "$@" >"$DIR/$name.said" 2>&1 3>&- &
	pid=$!
	LOCKERS+=("$pid")
}

# said NAME: "MS PID RESULT EPOCH" of those that have their lock, or do not get it.
said() { awk '$3 != "opened"' "$DIR/$1.said"; }

# until_said NAME [COUNT [WORD]]: so many lines of that result.
until_said() {
	local end=$((SECONDS + 20)) count=${2-1} word=${3-0}

	until [ "$(awk -v w="$word" '$3 == w' "$DIR/$1.said" | wc -l)" -ge \
		"$count" ]; do
		sleep 0.02
		[ "$SECONDS" -lt "$end" ] && continue
		echo "$1 has said:"
		cat "$DIR/$1.said"
		return 1
	done
}

# result NAME: the errno's name or 0, and the epoch.
result() { said "$1" | cut -d' ' -f3-; }

# took NAME SINCE: so many ms after that it had its lock, or did not get it.
took() { echo $(($(said "$1" | head -n 1 | cut -d' ' -f1) - $2)); }

# told_by NAME MS SINCE: it had its answer, the first of them, within that, if time
# is judged.
told_by() {
	echo "$1 was answered after $(took "$1" "$3") ms"
	! timed || [ "$(took "$1" "$3")" -le "$2" ]
}

# waits NODE COUNT: so many wait for a lock there.
waits() { until_status "$1" locks_waiting "$2"; }

# holder NAME FILE: a locker that has its lock; its pid is $pid.
holder() {
	locker "$@"
	until_said "$1"
}

# crash NAME: its daemon is killed, and the mount taken away.
crash() {
	local entry left=()

	pid=$(pid_of "$1")
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null || true
	for entry in "${MOUNTS[@]}"; do
		[ "${entry%%:*}" = "$1" ] || left+=("$entry")
	done
	MOUNTS=("${left[@]}")
	fusermount3 -uz "$DIR/$1"
}

# counted_for NAME GLOB: "gets puts" of the mount's requests for such keys.
counted_for() {
	local key gets=0 puts=0 call

	while read -r call key _; do
		# shellcheck disable=SC2053 # a pattern
		[[ $key == $2 ]] || continue
		[ "$call" != get ] || gets=$((gets + 1))
		[ "$call" != put_if ] || puts=$((puts + 1))
	done <"$DIR/$1.calls"
	echo "$gets $puts"
}
