#!/usr/bin/env bats
# celldfs.8, HOLDING A CELL: flock on a cell's record is the ownership of the cell.
# What goes wrong with it is in flock_trouble.bats.

bats_require_minimum_version 1.5.0
load helper
load locks

# ---- what it is ----

@test "flock: LOCK_EX claims, with epoch + 1; unlock, close and death release" {
	node a
	py <<-'PY'
		from locker import *
		store = outside.connect(os.environ['STORE'])
		def stored():
		    return store.get('cells/x/own.json')
		fd = opened(OWN)
		eq(stored(), None) # nothing is made by an open
		eq(flock(fd, EX), 0)
		eq(stored(), rec('a', 1))
		eq(flock(fd, UN), 0)
		eq(stored(), rec('', 1))
		eq(flock(fd, NB), 0)
		eq(stored(), rec('a', 2))
		os.close(fd)
		eq(eventually(stored, rec('', 2)), rec('', 2))
		child = os.fork()
		if child == 0:
		    fcntl.flock(opened(OWN), EX)
		    os.kill(os.getpid(), signal.SIGKILL)
		os.waitpid(child, 0)
		eq(eventually(stored, rec('', 3)), rec('', 3))
		# unlocking what is not locked is no error
		eq(flock(opened(OWN), UN), 0)
		eq(stored(), rec('', 3))
	PY
}

@test "flock: -n on two mounts: the second is refused while the first holds" {
	node a
	node b
	flock -n "$(own_at a)" true
	until_record "$(own '' 1)"
	holder h "$(own_at a)"
	is "$(record)" "$(own a 2)"
	run ! flock -n "$(own_at b)" true
	run ! flock -n "$(own_at a)" true
	py <<-'PY'
		from locker import *
		eq(flock(opened(OWN), NB), 'EAGAIN') # EWOULDBLOCK
		eq(flock(opened(OWN.replace('/a/', '/b/')), NB), 'EAGAIN')
	PY
	is "$(record)" "$(own a 2)"
	kill -KILL "$pid"
	until_record "$(own '' 2)"
	is "$(flock -n "$(own_at b)" cat "$(own_at b)")" "$(own b 3)"
	until_record "$(own '' 3)"
}

@test "flock: what is claimed, at which epoch, and what is refused" {
	node a skew-ms=5000
	outside put nodes/alive.json <<<"$(lease alive $(($(now_ms) + 600000)))"
	py "$(now_ms)" <<-'PY'
		from locker import *
		store = outside.connect(os.environ['STORE'])
		now = int(a[0])
		def lease(node, expires, more='', name=None):
		    store.put('nodes/%s.json' % node,
		              b'{"node":"%s","expires_ms":%d,"addr":"h:1"%s}' %
		              ((name or node).encode(), expires, more.encode()))
		lease('expired', now - 60000)
		lease('given-up', 0)
		lease('sealed', now - 60000, ',"log":{"state":"sealed","epoch":1,"ensemble":[],"tiered":0}')
		lease('open', now - 60000, ',"log":{"state":"open","epoch":1,"ensemble":[],"tiered":0}')
		lease('open0', 0, ',"log":{"state":"recovering","epoch":1,"ensemble":[],"tiered":0}')
		lease('margin', now - 100)
		lease('other', now - 60000, name='another')
		lease('half', now - 60000, ',"load":{}')
		store.put('nodes/garbage.json', b'{')
		kept = 0
		def case(found, result, epoch=None):
		    global kept
		    kept += 1
		    key = 'cells/k%d/own.json' % kept
		    path = OWN.replace('/x/', '/k%d/' % kept)
		    if found is not None:
		        store.put(key, found)
		    fd = opened(path)
		    eq((found, flock(fd, NB)), (found, result))
		    if result:
		        eq(store.get(key), found)
		    else:
		        eq(store.get(key), rec('a', epoch))
		        eq(flock(fd, UN), 0)
		        eq(store.get(key), rec('', epoch))
		    os.close(fd)
		case(None, 0, 1)
		case(rec('', 7), 0, 8)
		case(b'{"x":1, "epoch":2 ,"node":""}', 0, 3)
		# of a run of this node that was killed
		case(rec('a', 7), 0, 8)
		for dead in 'expired', 'given-up', 'sealed', 'no-lease':
		    case(rec(dead, 7), 0, 8)
		for node in 'alive', 'open', 'open0', 'margin', 'other', 'half', 'garbage':
		    case(rec(node, 7), 'EAGAIN')
		# malformed, and an epoch that cannot grow
		for found in b'', b'{', b'{"node":"a"}', b'{"node":"a","epoch":-1}', \
		             b'{"node":"","epoch":"7"}', rec('', 2 ** 64 - 1):
		    case(found, 'EIO')
		case(rec('', 2 ** 64 - 2), 0, 2 ** 64 - 1)
	PY
}

@test "flock: takeover=any is not for locks" {
	node a takeover=any
	outside put nodes/b.json <<<"$(lease b $(($(now_ms) + 600000)))"
	outside put cells/x/own.json <<<"$(own b 7)"
	is "$(errno_of 'fcntl.flock(open(a[0]), fcntl.LOCK_EX | fcntl.LOCK_NB)' \
		"$OWN")" EAGAIN
	is "$(record)" "$(own b 7)"
}

@test "flock: the lock of a malformed record is not waited for: EIO" {
	node a
	outside put cells/x/own.json <<<'{"node":7}'
	is "$(errno_of 'fcntl.flock(open(a[0]), fcntl.LOCK_EX)' "$OWN")" EIO
}

@test "flock: LOCK_SH is EINVAL, POSIX locks and locks of what is no cell's record ENOLCK" {
	node a
	mount_at plain
	mount_at off -o node=off,keeper=off
	create "$(own_at plain)" "$(own n 1)"
	py <<-'PY'
		from locker import *
		import struct
		def at(name):
		    return OWN.replace('/a/', '/%s/' % name)
		SH = fcntl.LOCK_SH
		fd = rdwr()
		calls()
		for operation in SH, SH | fcntl.LOCK_NB:
		    eq(flock(fd, operation), 'EINVAL')
		for operation in EX, NB, SH, UN:
		    eq(flock(os.open(at('plain'), os.O_RDWR), operation), 'ENOLCK')
		# the identity without the keeper will do
		off = opened(at('off'))
		eq(flock(off, NB), 0)
		eq(rd(os.open(at('off'), os.O_RDONLY)), rec('off', 2))
		eq(flock(off, UN), 0)
		root = OWN[:OWN.index('/cells/')]
		for path in '/nodes/a', '/.celldfs/status':
		    for operation in EX, NB, UN:
		        eq(flock(os.open(root + path, os.O_RDONLY), operation), 'ENOLCK')
		# fcntl(2): never kept by the kernel alone
		lock = struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0)
		for path in OWN, at('plain'):
		    fd = os.open(path, os.O_RDWR)
		    for command in fcntl.F_SETLK, fcntl.F_SETLKW, fcntl.F_GETLK, \
		                   fcntl.F_OFD_SETLK, fcntl.F_OFD_SETLKW:
		        eq(err(fcntl.fcntl, fd, command, lock), 'ENOLCK')
		    eq(err(fcntl.lockf, fd, fcntl.LOCK_EX), 'ENOLCK')
		    eq(err(fcntl.lockf, fd, fcntl.LOCK_SH), 'ENOLCK')
		eq([l for l in calls() if l[0] == 'put_if' and l[1] != 'nodes/a.json'], [])
	PY
}

@test "flock: the lock lives until the last descriptor of the open file is closed" {
	node a
	py <<-'PY'
		from locker import *
		store = outside.connect(os.environ['STORE'])
		def stored():
		    return store.get('cells/x/own.json')
		fd, other = opened(OWN), opened(OWN)
		eq(flock(fd, EX), 0)
		twin = os.dup(fd)
		os.close(fd)
		eq(flock(other, NB), 'EAGAIN')
		# it is of this open file: it is not claimed again
		calls()
		for operation in EX, NB:
		    eq(flock(twin, operation), 0)
		eq([l for l in calls() if l[1] == 'cells/x/own.json'], [])
		eq(flock(twin, fcntl.LOCK_SH), 'EINVAL')
		eq(stored(), rec('a', 1))
		pipe = os.pipe()
		child = os.fork()
		if child == 0:
		    os.close(pipe[1])
		    os.read(pipe[0], 1)
		    os._exit(0)
		os.close(twin)
		eq(flock(other, NB), 'EAGAIN')
		os.close(pipe[1])
		os.waitpid(child, 0)
		eq(eventually(stored, rec('', 1)), rec('', 1))
		# unlocked through one, it is for all
		fd = opened(OWN)
		eq(flock(fd, EX), 0)
		eq(flock(os.dup(fd), UN), 0)
		eq(stored(), rec('', 2))
		eq(flock(other, NB), 0)
		os.close(fd)
		eq(flock(other, UN), 0)
		eq(stored(), rec('', 3))
	PY
}

# ---- waiting ----

@test "flock: who waits is served in turn, as soon as the holder on this mount is done" {
	local k since best=9999

	node a
	for k in 1 2 3; do
		holder "h$k" "$OWN"
		locker "w$k" "$OWN" --hold 0
		waits a 1
		: >"$CALLS"
		sleep 0.5
		is "$(counted_for a 'cells/*')" "0 0"
		since=$(now_ms)
		kill -KILL "${LOCKERS[-2]}"
		until_said "w$k"
		[ "$(took "w$k" "$since")" -ge "$best" ] || best=$(took "w$k" "$since")
		until_status a locks_held 0
	done
	echo "after $best ms"
	! timed || [ "$best" -le 300 ]
	is "$(cat "$DIR"/w?.said | awk '$3 == 0 { print $4 }' | xargs)" "2 4 6"
	# first come, first served
	holder h "$OWN"
	for k in 1 2 3 4 5; do
		locker "q$k" "$OWN" --hold 0.02
		waits a "$k"
	done
	kill -KILL "${LOCKERS[-6]}"
	for k in 1 2 3 4 5; do until_said "q$k"; done
	is "$(cat "$DIR"/q?.said | awk '$3 == 0 { print $4 }' | xargs)" \
		"8 9 10 11 12"
}

@test "flock: kill -9 of the holder: the next on another mount has it within 1.5 s" {
	local since k best=9999

	node a
	node b
	for k in 1 2; do
		holder "h$k" "$OWN"
		locker "w$k" "$(own_at b)" --hold 0
		waits b 1
		sleep 0.3
		since=$(now_ms)
		kill -KILL "${LOCKERS[-2]}"
		until_said "w$k"
		[ "$(took "w$k" "$since")" -ge "$best" ] || best=$(took "w$k" "$since")
	done
	echo "after $best ms"
	! timed || [ "$best" -le 1500 ]
}

@test "flock: kill -9 of the holding daemon: the next has it when its lease has run out" {
	local since expires

	node a ttl-ms=3000
	node b
	holder h "$OWN"
	locker w "$(own_at b)" --hold 0
	waits b 1
	sleep 1.5
	since=$(now_ms)
	crash a
	expires=$(outside get nodes/a.json | grep -o '"expires_ms":[0-9]*')
	until_said w
	echo "after $(took w "$since") ms," \
		"$(took w "${expires#*:}") after the lease's end"
	[ "$(took w "${expires#*:}")" -ge 1000 ]
	told_by w 5000 "$since"
	is "$(result w)" "0 2"
}

@test "flock: many who take turns on one mount leave room for another" {
	local since

	node a
	mount_at b -o node=b
	python3 "$HERE/locker.py" --count 3 --rounds 1000 --log "$DIR/log" \
		"$OWN" >/dev/null 2>&1 3>&- &
	LOCKERS+=($!)
	until [ -s "$DIR/log" ]; do sleep 0.02; done
	since=$(now_ms)
	locker w "$(own_at b)" --hold 0
	until_said w
	told_by w 8000 "$since"
	kill -0 "${LOCKERS[0]}"
	until_status b locks_held 0
	kill -KILL "${LOCKERS[0]}"
	until_status a locks_held 0
	until_status a locks_waiting 0
}

@test "flock: a lock with time to wait: -w ends it" {
	local since

	node a
	holder h "$OWN"
	since=$(now_ms)
	run ! flock -w 0.3 "$OWN" true
	within 1500 "$since"
	waits a 0
	is "$(record)" "$(own a 1)"
}

# ---- what it costs ----

@test "flock: uncontended, at most 2 GETs and 2 PUTs" {
	node a
	flock "$OWN" true
	until_status a locks_held 0
	[[ $(counted_for a 'cells/*') =~ ^[0-2]" 2"$ ]]
	outside put cells/seen/own.json <<<"$(own '' 5)"
	: >"$CALLS"
	flock "$(own_at a seen)" true
	until_record "$(own '' 6)" seen
	[[ $(counted_for a 'cells/*') =~ ^[0-2]" 2"$ ]]
	# later ones; others have had it meanwhile
	: >"$CALLS"
	flock "$(own_at a seen)" true
	until_record "$(own '' 7)" seen
	is "$(counted_for a 'cells/*')" "1 2"
	outside put cells/seen/own.json <<<"$(own '' 9)"
	: >"$CALLS"
	flock "$(own_at a seen)" true
	until_record "$(own '' 10)" seen
	is "$(counted_for a 'cells/*')" "1 2"
}

@test "flock: 20 waiters cost no more than one, at most a request a second; behind a local holder none" {
	local one twenty

	node a
	mount_at b -o node=b
	holder h1 "$(own_at b one)"
	holder h2 "$(own_at b twenty)"
	holder h3 "$(own_at a here)"
	locker w1 "$(own_at a one)"
	locker w2 "$(own_at a twenty)" --count 20
	locker w3 "$(own_at a here)" --count 5
	waits a 26
	sleep 0.5
	: >"$CALLS"
	sleep 3
	read -r one _ <<<"$(counted_for a 'cells/one/*')"
	read -r twenty _ <<<"$(counted_for a 'cells/twenty/*')"
	echo "$one, $twenty; of the owner's lease: $(counted_for a nodes/b.json)"
	[ "$one" -ge 1 ] && [ "$one" -le 3 ]
	[ "$twenty" -le $((one + 1)) ] && [ "$twenty" -le 3 ]
	is "$(counted_for a 'cells/here/*')" "0 0"
	is "$(grep -c '^put_if cells' "$CALLS")" 0
	# when it could have run out, and not in each poll
	[[ $(counted_for a nodes/b.json) =~ ^[0-2]" 0"$ ]]
}

# ---- many ----

@test "flock: 40 processes on 4 mounts: holds do not overlap, epochs grow" {
	local k files=() rounds=2

	[ -z "${CELLDFS_LONG:-}" ] || rounds=40
	for k in a b c d; do
		mount_at "$k" -o "node=$k"
		files+=("$(own_at "$k")")
	done
	timeout $((60 + rounds * 20)) python3 "$HERE/locker.py" --count 40 \
		--rounds "$rounds" --log "$DIR/log" "${files[@]}" 3>&-
	is "$(python3 "$HERE/locker.py" --check "$DIR/log")" $((40 * rounds))
	for k in a b c d; do until_status "$k" locks_held 0; done
	# each claim was one epoch more
	is "$(record)" "$(own '' $((40 * rounds)))"
}

@test "flock: a claim is granted once, though its holder be done before the daemon goes on" {
	LD_PRELOAD=$TOOLS/slow_reply.so node a
	timeout 60 python3 "$HERE/locker.py" --count 4 --rounds 3 \
		--log "$DIR/log" "$OWN" 3>&-
	is "$(python3 "$HERE/locker.py" --check "$DIR/log")" 12
	until_record "$(own '' 12)"
}

# threads_of NAME
threads_of() { awk '$1 == "Threads:" { print $2 }' "/proc/$(pid_of "$1")/status"; }

# cat_ms: the fastest of three.
cat_ms() {
	python3 -c '
import os, sys, time
def once():
    start = time.monotonic()
    os.close(os.open(sys.argv[1], os.O_RDONLY))
    return int((time.monotonic() - start) * 1000)
print(min(once() for _ in range(3)))' "$1"
}

@test "flock: 500 who wait hold no thread and slow nobody down" {
	local before after since

	node a
	mount_at b -o node=b
	create "$(own_at a other)" "$(own a 1)"
	holder h "$(own_at b)"
	before=$(cat_ms "$(own_at a other)")
	locker crowd "$OWN" --count 500
	waits a 500
	after=$(cat_ms "$(own_at a other)")
	echo "cat: $before ms before, $after ms then; $(threads_of a) threads"
	! timed || [ $((after - before)) -lt 500 ]
	is "$(status_of a requests_in_store)" 0
	is "$(status_of a requests_waiting)" 0
	[ "$(threads_of a)" -le $((64 + 8 + 8)) ]
	since=$(now_ms)
	kill -KILL "${LOCKERS[-1]}"
	waits a 0
	within 3000 "$since"
	is "$(record)" "$(own b 1)"
	[ "$(threads_of a)" -le $((64 + 8 + 8)) ]
}

@test "flock: status says how many are held and how many wait" {
	node a
	is "$(status_of a locks_held) $(status_of a locks_waiting)" "0 0"
	holder h "$OWN"
	holder h2 "$(own_at a y)"
	locker w "$OWN" --count 3
	waits a 3
	is "$(status_of a locks_held) $(status_of a resident_cells)" "2 2"
	kill -KILL "$pid"
	waits a 0
	kill -KILL "${LOCKERS[@]}"
	until_status a locks_held 0
	is "$(status_of a resident_cells)" 0
	# not those of a lock that is not had
	mount_at plain
	is "$(status_of plain locks_held) $(status_of plain locks_waiting)" "0 0"
}

# ---- writes while a lock holds the cell ----

@test "flock: while it holds, the cell cannot be written through any other open file" {
	node a
	py <<-'PY'
		from locker import *
		store = outside.connect(os.environ['STORE'])
		def puts():
		    return len([l for l in calls() if l[:2] == ['put_if', 'cells/x/own.json']])
		echo(rec('a', 1))
		before = rdwr_and_read()
		holder = rdwr()
		eq(flock(holder, EX), 0)
		calls()
		# whatever guard it has: read before, read since, armed, O_EXCL
		since = rdwr_and_read()
		for record in rec('a', 3), rec('', 2), rec('a', 2):
		    for fd in before, since:
		        eq(err(wr, fd, record), 'EBUSY')
		    arm(etag())
		    eq(err(echo, record), 'EBUSY')
		    own = os.open(OWN, os.O_WRONLY)
		    arm(etag(since), own)
		    eq(err(os.write, own, record), 'EBUSY')
		eq(puts(), 0)
		eq(store.get('cells/x/own.json'), rec('a', 2))
		# its holder can only release it
		rd(holder)
		for record in rec('a', 3), rec('a', 2):
		    eq(err(wr, holder, record), 'EBUSY')
		eq(puts(), 0)
		eq(store.get('cells/x/own.json'), rec('a', 2))
		eq(flock(holder, UN), 0)
		# afterwards all is as it was
		eq(err(wr, since, rec('a', 3)), 'EBUSY') # it has read what is gone
		rd(since)
		wr(since, rec('a', 3))
		arm(etag(since))
		echo(rec('', 3))
	PY
}

@test "flock: the holder's own release frees the cell for who waits" {
	node a
	create "$OWN" "$(own a 1)"
	py "$DIR" <<-'PY' &
		from locker import *
		fd = rdwr()
		eq(flock(fd, EX), 0)
		open(a[0] + '/has', 'w')
		eventually(lambda: os.path.exists(a[0] + '/go'), True)
		# the open file shows its claim, and that is its guard
		eq(epoch_of(fd), '2')
		wr(fd, rec('', 2))
		time.sleep(5)
	PY
	LOCKERS+=($!)
	until [ -e "$DIR/has" ]; do sleep 0.02; done
	locker w "$OWN" --hold 0
	waits a 1
	: >"$DIR/go"
	until_said w
	is "$(result w)" "0 3"
	until_record "$(own '' 3)"
	until_status a locks_held 0
}

@test "flock: a file that has the lock shows the claim, and is guarded by it" {
	node a
	outside put cells/x/own.json <<<"$(own '' 7)"
	py <<-'PY'
		from locker import *
		fd = rdwr_and_read()
		old = etag(fd)
		eq(flock(fd, EX), 0)
		eq(epoch_of(fd), '8')
		eq(os.getxattr(fd, 'user.celld.node'), b'a')
		eq(os.fstat(fd).st_size, len(rec('a', 8)))
		eq(etag(fd) != old, True)
		calls()
		wr(fd, rec('', 8))
		eq([l[0] for l in calls() if l[1] == 'cells/x/own.json'], ['put_if'])
		# one that the lock has created, too
		new = OWN.replace('/x/', '/new/')
		fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL)
		eq(flock(fd, EX), 0)
		eq(rd(fd), rec('a', 1))
		wr(fd, rec('', 1))
	PY
}

# ---- who may ----

@test "flock: it needs write permission by the file's mode, however it was opened" {
	local nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)

	[ "$(id -u)" -eq 0 ] || skip "only root can become somebody else"
	chmod 755 "$DIR"
	mount_at a -o node=a,allow_other
	mount_at u -o node=u,allow_other,uid=65534,umask=0222
	mount_at v -o node=v,allow_other,uid=65534
	create "$(own_at a)" "$(own a 1)"
	# only reads, to have it opened
	lock='fcntl.flock(os.open(a[0], os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)'
	as() { "${nobody[@]}" env HOME=/ PYTHONDONTWRITEBYTECODE=1 python3 -c "
import errno, fcntl, os, sys
a = sys.argv[1:]
try:
    $lock
    print(0)
except OSError as e:
    print(errno.errorcode[e.errno])" "$@"; }
	is "$(as "$(own_at a)")" EACCES
	is "$(as "$(own_at u)")" EACCES
	is "$(record)" "$(own a 1)"
	# of a living node: but it may
	is "$(as "$(own_at v)")" EAGAIN
	is "$(errno_of "$lock" "$(own_at a)")" 0
	until_record "$(own '' 2)"
	is "$(as "$(own_at v)")" 0
	until_record "$(own '' 3)"
	is "$(errno_of "$lock" "$(own_at u)")" 0
	until_record "$(own '' 4)"
	# unlocking needs none
	lock='fcntl.flock(os.open(a[0], os.O_RDONLY), fcntl.LOCK_UN)'
	is "$(as "$(own_at a)")" 0
}
