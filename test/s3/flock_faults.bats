#!/usr/bin/env bats
# flock_faults: locks while the gateway conflicts, fails and loses answers: nobody
# holds what another one holds, and nothing is left claimed.

load proxied
load "$HERE/locks"

# weather: other faults every now and then, until it is killed.
weather() {
	local faults=(
		'PUT cells/* answer 409 ConditionalRequestConflict'
		'PUT cells/* answer 503 SlowDown'
		'PUT cells/* answer 500 InternalError'
		'PUT cells/* instead 500 InternalError'
		'PUT cells/* lose' 'PUT cells/* drop' 'PUT cells/* late 300'
		'PUT cells/* cut 0' 'GET cells/* answer 500 InternalError'
		'GET cells/* drop' '* cells/* lose' '#'
	)

	while :; do
		proxy_rules "${faults[RANDOM % ${#faults[@]}]}"
		sleep "0.$((RANDOM % 4 + 1))"
	done
}

@test "40 processes on 4 mounts, through all faults: holds do not overlap, epochs grow" {
	local k files=() rounds=2 status=0

	[ -z "${CELLDFS_LONG:-}" ] || rounds=40
	for k in a b c d; do
		mount_at "$k" -o "node=$k"
		files+=("$(own_at "$k")")
	done
	weather 3>&- &
	LOCKERS+=($!)
	mark
	timeout $((100 + rounds * 40)) python3 "$HERE/locker.py" --count 40 \
		--rounds "$rounds" --tries 20 --log "$DIR/log" "${files[@]}" \
		3>&- || status=$?
	kill "${LOCKERS[0]}"
	wait "${LOCKERS[0]}" || true
	proxy_rules
	is "$status" 0
	is "$(python3 "$HERE/locker.py" --check "$DIR/log")" $((40 * rounds))
	for k in a b c d; do until_status "$k" locks_held 0; done
	requests 'r["op"] in ("PUT", "GET") and r["rule"]' rule | sort | uniq -c
	# what was there in the end is a release, of the last one or a later claim
	[[ $(record) =~ ^\{\"node\":\"\",\"epoch\":([0-9]+)\}$ ]]
	[ "${BASH_REMATCH[1]}" -ge $((40 * rounds)) ]
}

# lock_under ERRNO RULE...: LOCK_NB and unlock under such rules of a cell that was
# released; afterwards it is free. ERRNO is a pattern.
lock_under() {
	local expected=$1 found

	shift
	found=$(py "$@" <<-'PY'
		from locker import *
		fd = opened(OWN)
		path = os.environ['RULES']
		def obey(lines):
		    with open(path + '.new', 'w') as f:
		        f.writelines(l + '\n' for l in lines)
		    os.rename(path + '.new', path)
		obey(a)
		result = flock(fd, NB)
		obey([])
		print(result)
		eq(flock(fd, UN), 0)
	PY
	)
	# shellcheck disable=SC2053 # a pattern
	[[ $found == $expected ]] || { echo "$*: $found"; return 1; }
	until_status a locks_held 0
	flock -w 20 "$OWN" true
	until_status a locks_held 0
	[[ $(record) == '{"node":"",'* ]]
}

@test "a claim under one fault: had, or not had and not left behind" {
	node a deadline-ms=3000
	outside put cells/x/own.json <<<"$(own '' 7)"
	lock_under 0 'PUT cells/* answer 409 ConditionalRequestConflict x2'
	lock_under 0 'PUT cells/* answer 503 SlowDown x1'
	lock_under 0 'PUT cells/* instead 500 InternalError x1'
	lock_under 0 'PUT cells/* answer 500 InternalError x1'
	lock_under 0 'PUT cells/* lose x1'
	lock_under 0 'PUT cells/* drop x1'
	lock_under 0 'PUT cells/* cut 0 x1'
	lock_under EACCES 'PUT cells/* answer 403 AccessDenied'
	# at the deadline, who comes first says why
	lock_under 'E[CT]*' 'PUT cells/* answer 409 ConditionalRequestConflict'
	lock_under ETIMEDOUT 'PUT cells/* lose' 'GET cells/* drop'
	lock_under ETIMEDOUT 'PUT cells/* drop'
	lock_under ETIMEDOUT 'PUT cells/* hang'
}
