#!/usr/bin/env bats
# race: many processes claim one cell over four mounts of one store. One claim
# of each epoch is acknowledged, and none that was is ever lost.

load helper

# rounds FULL SHORT: the short run is for sanitizers.
rounds() {
	if timed || [ -n "${CELLDFS_LONG:-}" ]; then
		echo "$1"
	else
		echo "$2"
	fi
}

four_mounts() {
	local k

	files=()
	for k in 1 2 3 4; do
		mount_at "m$k" -o log="$DIR/m$k.log"
		files+=("$DIR/m$k/cells/c/own")
	done
	create "${files[0]}" "$(own first 1)"
}

record() { outside get cells/c/own.json; }

# A claim of each epoch, from one more than FIRST without a gap; the last one is
# what the store holds.
check_log() {
	local first=$1 last

	last=$(sort -n "$DIR/claims" | tail -n 1)
	is "$(cut -d' ' -f1 "$DIR/claims" | sort -n | xargs)" \
		"$(seq -s ' ' $((first + 1)) "${last% *}")"
	is "$(record)" "{\"node\":\"${last#* }\",\"epoch\":${last% *}}"
}

@test "64 processes, a barrier a round: one winner per epoch, the rest EBUSY" {
	local rounds

	rounds=$(rounds 100 10)
	four_mounts
	run "$TOOLS/race" --procs 64 --rounds "$rounds" --log "$DIR/claims" \
		"${files[@]}"
	echo "$output"
	is "$status" 0
	is "$(wc -l <"$DIR/claims")" "$rounds"
	check_log 1
	for file in "${files[@]}"; do
		is "$(cat "$file")" "$(record)"
	done
}

# restart NAME: kills its daemon and mounts it again.
restart() {
	local pid entry left=()

	pid=$(pid_of "$1") || true
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null || true
	for entry in "${MOUNTS[@]}"; do
		[ "${entry%%:*}" = "$1" ] || left+=("$entry")
	done
	MOUNTS=("${left[@]}")
	fusermount3 -u "$DIR/$1" 2>/dev/null || fusermount3 -uz "$DIR/$1"
	mount_at "$1" -o log="$DIR/$1.log"
}

@test "the daemons are killed at random: no acknowledged claim is lost" {
	local race kills=0 last

	four_mounts
	"$TOOLS/race" --procs 64 --rounds "$(rounds 200 20)" --tolerate \
		--log "$DIR/claims" "${files[@]}" >"$DIR/race" 2>&1 3>&- &
	race=$!
	while kill -0 "$race" 2>/dev/null; do
		restart "m$((RANDOM % 4 + 1))"
		kills=$((kills + 1))
		sleep "0.$((RANDOM % 3))"
	done
	status=0
	wait "$race" || status=$?
	cat "$DIR/race"
	echo "$kills daemons were killed"
	is "$status" 0
	[ "$kills" -ge 3 ]
	[ "$(wc -l <"$DIR/claims")" -ge 10 ]

	# Every acknowledged claim is of an epoch of its own,
	is "$(cut -d' ' -f1 "$DIR/claims" | sort -n | uniq -d)" ""
	# and the store holds the last one, or a later one whose answer was
	# lost with its daemon.
	[ "$KIND" != sqlite ] || is "$(sqlite3 "${STORE#sqlite:}" \
		'PRAGMA integrity_check')" ok
	last=$(sort -n "$DIR/claims" | tail -n 1)
	[[ $(record) =~ ^\{\"node\":\"([^\"]*)\",\"epoch\":([0-9]+)\}$ ]]
	[ "${BASH_REMATCH[2]}" -ge "${last% *}" ]
	[ "${BASH_REMATCH[2]}" -ne "${last% *}" ] ||
		is "${BASH_REMATCH[1]}" "${last#* }"
	# All mounts see it, and go on from there.
	for file in "${files[@]}"; do
		is "$(cat "$file")" "$(record)"
	done
	swap "${files[3]}" "$(own last $((BASH_REMATCH[2] + 1)))"
	is "$(cat "${files[0]}")" "$(own last $((BASH_REMATCH[2] + 1)))"
}
