#!/usr/bin/env bats
# celldfs.8, HOLDING A CELL: what goes wrong with a lock: waiters that are
# interrupted, a store that hangs or loses answers, a mount that is fenced, ends or
# is replaced. No claim is left behind by any of it.

bats_require_minimum_version 1.5.0
load helper
load locks

# sigint COMMAND...: with the signals of a command on a terminal.
sigint() { env --default-signal=INT "$@"; }

# undone NODE [CELL]: nothing is held or waited for there, and the cell was
# released or never claimed.
undone() {
	local tries found

	until_status "$1" locks_waiting 0
	until_status "$1" locks_held 0
	for ((tries = 0; tries < 50; tries++)); do
		found=$(record "${2-x}")
		[[ -n $found && $found != '{"node":"",'* ]] || return 0
	done
	echo "left: $found"
	return 1
}

# ---- waiters that go ----

@test "flock: Ctrl-C and kill -9 end a wait within 0.3 s, and leave no claim" {
	local signal best since

	node a
	mount_at b -o node=b
	holder h1 "$(own_at a here)"
	holder h2 "$(own_at b there)"
	for cell in here there; do
		for signal in INT KILL; do
			best=9999
			for k in 1 2; do
				locker "w$cell$signal$k" "$(own_at a "$cell")"
				waits a 1
				since=$(now_ms)
				kill "-$signal" "$pid"
				while kill -0 "$pid" 2>/dev/null; do :; done
				since=$(($(now_ms) - since))
				[ "$since" -ge "$best" ] || best=$since
				waits a 0
			done
			echo "$cell $signal: $best ms"
			! timed || [ "$best" -le 300 ]
		done
	done
	# it is free for the next at once
	kill -KILL "${LOCKERS[0]}" "${LOCKERS[1]}"
	until_record "$(own '' 1)" here
	until_record "$(own '' 1)" there
}

# gone_while [OPTION] RULE...: a waiter is killed while the rules delay its claim.
gone_while() {
	local signal since option=

	[[ $1 != --* ]] || { option=$1; shift; }
	for signal in INT KILL; do
		rules a "$@"
		locker "w$signal" "$OWN" $option
		waits a 1
		sleep 0.5
		since=$(now_ms)
		kill "-$signal" "$pid"
		is_gone "$pid" 1000
		rules a
		undone a
	done
	# and the next gets it
	flock -w 20 "$OWN" true
	undone a
}

@test "flock: killed while the store hangs, with the claim's PUT not sent yet: no orphan" {
	node a deadline-ms=8000
	outside put cells/x/own.json <<<"$(own '' 7)"
	gone_while 'put_if cells/* delay 3000'
}

@test "flock: killed while the claim's PUT is in flight: it is given back" {
	node a deadline-ms=8000
	gone_while 'put_if cells/* late 3000'
	[[ $(record) == "$(own '' 3)" ]]
}

@test "flock: killed, and the claim's outcome is unknown: it is given back" {
	node a deadline-ms=1000
	outside put cells/x/own.json <<<"$(own '' 7)"
	cat "$OWN"
	gone_while --write 'put_if cells/* lose' 'get cells/* fail timeout'
}

# nb_under RULE...: LOCK_NB meanwhile; "MS RESULT".
nb_under() {
	py "$@" <<-'PY'
		from locker import *
		fd = opened(OWN)
		rules('a', *a)
		start = time.monotonic()
		result = flock(fd, NB)
		print(int((time.monotonic() - start) * 1000), result)
		rules('a')
	PY
}

@test "flock: LOCK_NB of a store that hangs is ETIMEDOUT by the deadline, and leaves no claim" {
	local found

	node a deadline-ms=1500
	outside put cells/x/own.json <<<"$(own '' 7)"
	for rule in 'put_if cells/* hang' 'put_if cells/* late 3000'; do
		found=$(nb_under "$rule" 'get cells/* hang')
		echo "$found"
		is "${found#* }" ETIMEDOUT
		! timed || [ "${found% *}" -le 2500 ]
		undone a
	done
	# what it cannot read
	OWN=$(own_at a new)
	found=$(nb_under 'get cells/* hang')
	echo "$found"
	is "${found#* }" ETIMEDOUT
	! timed || [ "${found% *}" -le 2500 ]
	is "$(record new)" ""
}

# ---- outcomes that are not known ----

@test "flock: the answer to a claim or a release is lost: it is settled, and nothing is claimed twice" {
	node a
	rules a 'put_if cells/* lose x1'
	is "$(flock "$OWN" cat "$OWN")" "$(own a 1)"
	until_record "$(own '' 1)"
	holder h "$OWN"
	rules a 'put_if cells/* lose'
	kill -KILL "$pid"
	until_record "$(own '' 2)"
	rules a
	is "$(flock -n "$OWN" cat "$OWN")" "$(own a 3)"
	undone a
}

@test "flock: a claim whose outcome is unknown is had by who waits, at its epoch" {
	node a deadline-ms=1000
	outside put cells/x/own.json <<<"$(own '' 7)"
	cat "$OWN"
	rules a 'put_if cells/* lose' 'get cells/x/* fail timeout'
	locker w "$OWN" --write
	waits a 1
	until_record "$(own a 8)"
	sleep 1
	is "$(said w)" ""
	# meanwhile nobody else writes it
	py <<-'PY'
		fd = os.open(OWN, os.O_WRONLY)
		arm('x', fd)
		eq(err(os.write, fd, rec('', 8)), 'EBUSY')
	PY
	rules a
	until_said w
	is "$(result w)" "0 8"
	kill -KILL "$pid"
	undone a
	is "$(record)" "$(own '' 8)"
}

@test "flock: a release whose outcome is unknown is followed: who waits elsewhere has it in the end" {
	node a deadline-ms=1000
	mount_at b -o node=b
	for fault in lose drop; do
		holder h "$OWN"
		locker w "$(own_at b)" --hold 0
		rules a "put_if cells/* $fault" 'get cells/* fail timeout'
		kill -KILL "${LOCKERS[-2]}"
		sleep 2
		rules a
		until_said w
		until_status a locks_held 0
		: >"$DIR/w.said"
	done
	# and who unlocks is told
	py "$DIR" <<-'PY'
		from locker import *
		fd = opened(OWN)
		eq(flock(fd, EX), 0)
		rules('a', 'put_if cells/* drop', 'get cells/* fail timeout')
		eq(flock(fd, UN), 'ETIMEDOUT')
		# once is enough
		eq(flock(fd, UN), 0)
		rules('a')
		eq(flock(fd, EX), 0)
	PY
	undone a
}

@test "flock: claims that never arrive are tried for as long as somebody waits" {
	local k

	node a deadline-ms=300
	outside put cells/x/own.json <<<"$(own '' 7)"
	py "$DIR" <<-'PY'
		from locker import *
		fd = opened(OWN)
		rules('a', 'put_if cells/* drop')
		for k in range(10):
		    eq(flock(fd, NB), 'ETIMEDOUT')
		rules('a')
		eq(eventually(lambda: flock(fd, NB), 0, 3), 0)
		eq(rd(os.open(OWN, os.O_RDONLY)), rec('a', 8))
	PY
	undone a
	is "$(record)" "$(own '' 8)"
}

@test "flock: a claim that was not had is not made for nobody" {
	local deadline_ms=300

	timed || deadline_ms=2000
	node a "deadline-ms=$deadline_ms"
	outside put cells/x/own.json <<<"$(own '' 7)"
	cat "$OWN"
	rules a 'put_if cells/* drop'
	is "$(errno_of 'fcntl.flock(open(a[0]), fcntl.LOCK_EX | fcntl.LOCK_NB)' \
		"$OWN")" ETIMEDOUT
	# it can never land now
	outside put cells/x/own.json <<<"$(own '' 9)"
	rules a
	sleep 2.5
	is "$(record)" "$(own '' 9)"
	# and it is followed no more
	: >"$CALLS"
	sleep 2.5
	is "$(counted_for a 'cells/*')" "0 0"
	flock -n "$OWN" true
	undone a
}

@test "flock: whom the claim's late answer finds, nobody has released it meanwhile" {
	node a
	outside put cells/x/own.json <<<"$(own '' 7)"
	cat "$OWN"
	rules a 'put_if cells/* late 5000 x1'
	locker w "$OWN"
	until_record "$(own a 8)"
	py <<-'PY'
		from locker import *
		fd = rdwr_and_read()
		eq(rd(fd), rec('a', 8))
		eq(err(wr, fd, rec('', 8)), 'EBUSY')
	PY
	until_said w
	is "$(record)" "$(own a 8)"
}

# ---- what is remembered ----

@test "flock: LOCK_NB goes by the record as it is, not as this mount remembers it" {
	node a
	mount_at b -o node=b
	holder h "$(own_at b)"
	py "$pid" <<-'PY'
		from locker import *
		fd = opened(OWN)
		os.kill(int(a[0]), signal.SIGKILL)
		store = outside.connect(os.environ['STORE'])
		gone = lambda: store.get('cells/x/own.json')
		eq(eventually(gone, rec('', 1)), rec('', 1))
		eq(flock(fd, NB), 0)
		eq(gone(), rec('a', 2))
		# nor is it malformed for ever
		path = OWN.replace('/x/', '/y/')
		store.put('cells/y/own.json', b'{')
		fd = os.open(path, os.O_RDONLY)
		store.put('cells/y/own.json', rec('', 5))
		eq(flock(fd, NB), 0)
	PY
}

@test "flock: a dead owner is dead, also when the first try to take the cell failed" {
	local since

	node a
	outside put cells/x/own.json <<<"$(own dead 7)"
	rules a 'put_if cells/* fail failed x1'
	locker w "$OWN" --hold 0
	until_said w
	since=$(awk '$3 == "opened" { print $1 }' "$DIR/w.said")
	told_by w 1800 "$since"
	is "$(result w)" "0 8"
}

@test "flock: who waits for a lease in its skew margin has the cell when that is over" {
	local since

	node a skew-ms=3000
	outside put cells/x/own.json <<<"$(own b 7)"
	since=$(now_ms)
	outside put nodes/b.json <<<"$(lease b $((since - 1000)))"
	locker w "$OWN" --hold 0
	until_said w
	echo "after $(took w "$since") ms"
	[ "$(took w "$since")" -ge 2000 ]
	! timed || [ "$(took w "$since")" -le 2900 ]
}

@test "flock: who waits for a long lease sees that it was given up" {
	local since

	node a
	outside put cells/x/own.json <<<"$(own b 7)"
	outside put nodes/b.json <<<"$(lease b $(($(now_ms) + 600000)))"
	locker w "$OWN" --hold 0
	waits a 1
	since=$(now_ms)
	outside put nodes/b.json <<<"$(lease b 0)"
	until_said w
	is "$(result w)" "0 8"
	told_by w 12000 "$since"
}

@test "flock: a record that the store sends without an ETag, or that is too large, is not waited for" {
	node a
	outside put cells/x/own.json <<<"$(own '' 7)"
	py "$DIR" <<-'PY'
		from locker import *
		store = outside.connect(os.environ['STORE'])
		fd = os.open(OWN, os.O_WRONLY)
		store.put('cells/x/own.json', rec('', 9)) # the memory is of no use
		rules('a', 'get cells/* noetag')
		eq(flock(fd, EX, 5), 'EIO')
		rules('a')
		store.put('cells/x/own.json', b' ' * 1048577)
		eq(flock(fd, EX, 5), 'EFBIG')
	PY
}

@test "flock: the holder's own release frees the cell at once, for plain writes, too" {
	node a deadline-ms=3000
	create "$OWN" "$(own a 1)"
	py "$DIR" <<-'PY'
		from locker import *
		def at(cell):
		    return OWN.replace('/x/', '/%s/' % cell)
		fd, other = rdwr(), rdwr()
		eq(flock(fd, EX), 0)
		rd(fd)
		rd(fd)
		# whoever could take note of it later is busy
		fds = [opened(at('busy%d' % k)) for k in range(8)]
		rules('a', 'get cells/busy* hang')
		children = []
		for busy in fds:
		    child = os.fork()
		    if child == 0:
		        die_with_parent()
		        flock(busy, EX)
		        os._exit(0)
		    children.append(child)
		status = OWN[:OWN.index('/cells/')] + '/.celldfs/status'
		eq(eventually(lambda: 'locks_waiting 8' in open(status).read(), True), True)
		time.sleep(0.3)
		wr(fd, rec('', 2))
		rd(other)
		eq(rd(other), rec('', 2))
		wr(other, rec('a', 3))
		eq('locks_held 0' in open(status).read(), True)
		for child in children:
		    os.kill(child, signal.SIGKILL)
		rules('a')
	PY
}

@test "flock: what is not ours any more is not released" {
	node a
	holder h "$OWN"
	locker w "$OWN" --hold 0
	waits a 1
	outside put nodes/b.json <<<"$(lease b $(($(now_ms) + 600000)))"
	outside put cells/x/own.json <<<"$(own b 9)"
	kill -KILL "${LOCKERS[0]}"
	until_status a locks_held 0
	sleep 1.5
	is "$(record)" "$(own b 9)"
	is "$(said w)" ""
	# nor what is gone
	outside put cells/x/own.json <<<"$(own '' 9)"
	until_said w
	until_status a locks_held 0
	holder h2 "$OWN"
	outside rm cells/x/own.json
	kill -KILL "$pid"
	until_status a locks_held 0
	is "$(record)" ""
}

# ---- a mount that is fenced ----

# fence NODE: its lease is gone.
fence() {
	outside rm "nodes/$1.json"
	until_status "$1" lease fenced
}

@test "flock: fenced: EROFS for who waits and who comes, and the holder's unlock is 0" {
	local since

	node a ttl-ms=3000
	mount_at b -o node=b
	holder h1 "$(own_at a here)"
	holder h2 "$(own_at b there)"
	locker w1 "$(own_at a here)"
	locker w2 "$(own_at a there)"
	waits a 2
	py "$DIR" <<-'PY' &
		from locker import *
		fd = opened(OWN)
		eq(flock(fd, EX), 0)
		open(a[0] + '/has', 'w')
		eventually(lambda: os.path.exists(a[0] + '/go'), True)
		eq(flock(fd, EX, 5), 'EROFS')
		eq(flock(opened(OWN), NB), 'EROFS')
		eq(flock(opened(OWN), EX, 5), 'EROFS')
		eq(flock(os.open(OWN.replace('/x/', '/y/'), os.O_RDONLY | os.O_CREAT), NB), 'EROFS')
		eq(flock(fd, UN), 0)
		open(a[0] + '/done', 'w')
	PY
	LOCKERS+=($!)
	until [ -e "$DIR/has" ]; do sleep 0.02; done
	fence a
	since=$(now_ms)
	until_said w1 1 EROFS
	until_said w2 1 EROFS
	told_by w1 1000 "$since"
	told_by w2 1000 "$since"
	: >"$DIR/go"
	wait "${LOCKERS[-1]}"
	[ -e "$DIR/done" ]
	# nothing is written any more
	is "$(record) $(record here)" "$(own a 1) $(own a 1)"
	kill -KILL "${LOCKERS[0]}"
	until_status a locks_held 0
	is "$(record here)" "$(own a 1)"
	is "$(record there)" "$(own b 1)"
}

@test "flock: a daemon that was paused for longer than its lease is no owner any more" {
	node a ttl-ms=2000
	mount_at b -o node=b
	holder h "$OWN"
	locker w1 "$OWN"
	locker w2 "$(own_at b)"
	waits a 1
	kill -STOP "$(pid_of a)"
	until_said w2
	is "$(result w2)" "0 2"
	kill -CONT "$(pid_of a)"
	until_said w1 1 EROFS
	kill -KILL "${LOCKERS[0]}"
	until_status a locks_held 0
	is "$(record)" "$(own b 2)"
}

@test "flock: a claim that arrives when the authority has ended is EROFS" {
	node a ttl-ms=6000
	outside put cells/x/own.json <<<"$(own '' 7)"
	cat "$OWN"
	rules a 'put_if cells/* late 2800'
	# the next renewal, in two seconds, finds that out
	outside rm nodes/a.json
	locker w "$OWN"
	until_said w 1 EROFS
	sleep 1
	is "$(status_of a locks_held)" 0
}

@test "flock: an unknown claim of a fenced mount is followed no more" {
	node a ttl-ms=2000,deadline-ms=500
	outside put cells/x/own.json <<<"$(own '' 7)"
	cat "$OWN"
	rules a 'put_if cells/* lose' 'get cells/* fail timeout'
	is "$(errno_of 'fcntl.flock(os.open(a[0], os.O_WRONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)' \
		"$OWN")" ETIMEDOUT
	fence a
	sleep 2
	lines=$(grep -c flock "$DIR/a.log")
	sleep 2.5
	is "$(grep -c flock "$DIR/a.log")" "$lines"
}

# ---- the end of a mount ----

@test "flock: SIGTERM with waiters ends them with an error, quickly; what is held stays claimed" {
	local since expires

	node a
	mount_at b -o node=b
	holder h1 "$(own_at a here)"
	holder h2 "$(own_at b there)"
	locker w1 "$(own_at a here)" --count 3
	locker w2 "$(own_at a there)" --count 3
	waits a 6
	since=$(now_ms)
	kill -TERM "$(pid_of a)"
	until_said w1 3 ECONNABORTED
	until_said w2 3 ECONNABORTED
	told_by w1 1000 "$since"
	told_by w2 1000 "$since"
	wait_gone "$(pid_of a)"
	within 8000 "$since" # not the deadline, 15 s
	is "$(record here)" "$(own a 1)"
	is "$(record there)" "$(own b 1)"
	# and it is protected until the lease has run out
	[[ $(outside get nodes/a.json) =~ \"expires_ms\":([0-9]+) ]]
	[ "${BASH_REMATCH[1]}" -gt "$since" ]
	is "$(errno_of 'fcntl.flock(open(a[0]), fcntl.LOCK_EX | fcntl.LOCK_NB)' \
		"$(own_at b here)")" EAGAIN
}

@test "flock: a mount that is taken away lazily and ended answers its waiters" {
	local since

	node a
	holder h "$OWN"
	locker w "$OWN"
	waits a 1
	fusermount3 -uz "$DIR/a"
	since=$(now_ms)
	kill -TERM "$(pid_of a)"
	until_said w 1 ECONNABORTED
	told_by w 1000 "$since"
	wait_gone "$(pid_of a)"
}

@test "flock: SIGTERM while a claim is in flight: it is given back first" {
	local since

	node a
	rules a 'put_if cells/* late 3000'
	locker w "$OWN"
	until_record "$(own a 1)"
	since=$(now_ms)
	kill -TERM "$(pid_of a)"
	until_said w 1 ECONNABORTED
	told_by w 1000 "$since"
	wait_gone "$(pid_of a)"
	is "$(record)" "$(own '' 1)"
	# nothing is held: the node is dead at once
	[[ $(outside get nodes/a.json) == *'"expires_ms":0'* ]]
}

@test "flock: SIGTERM while the store hangs ends waiters at once, and the daemon by the deadline" {
	local since

	node a deadline-ms=2000
	cat "$OWN" || true
	rules a 'put_if cells/* hang'
	locker w "$OWN"
	waits a 1
	sleep 0.3
	since=$(now_ms)
	kill -TERM "$(pid_of a)"
	until_said w 1 ECONNABORTED
	told_by w 1000 "$since"
	wait_gone "$(pid_of a)"
	within 5000 "$since"
	is "$(record)" ""
}

@test "flock: -o replace: cells of the run before are not claimed before its lease has run out" {
	local expires ttl_ms=4000

	timed || ttl_ms=10000
	node a "ttl-ms=$ttl_ms"
	holder h "$OWN"
	crash a
	[[ $(outside get nodes/a.json) =~ \"expires_ms\":([0-9]+) ]]
	expires=${BASH_REMATCH[1]}
	node a "ttl-ms=$ttl_ms,replace"
	is "$(errno_of 'fcntl.flock(open(a[0]), fcntl.LOCK_EX | fcntl.LOCK_NB)' \
		"$OWN")" EAGAIN
	# those that it has not had are free
	flock -n "$(own_at a other)" true
	locker w "$OWN" --hold 0
	until_said w
	echo "$(took w "$expires") ms after the lease's end"
	[ "$(took w "$expires")" -ge 1000 ]
	! timed || [ "$(took w "$expires")" -le 3500 ]
	is "$(result w)" "0 2"
}
