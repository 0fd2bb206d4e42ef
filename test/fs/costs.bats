#!/usr/bin/env bats
# costs: what each thing a user does costs in requests, exactly. A row of the
# manual's table of costs is a test here. Costs are "gets puts lists".

load helper

# One mount with a spy on it, another without, and a record that the first has
# not touched yet.
mounts() {
	mount_at m2
	there=$DIR/m2/cells/c/own
	create "$there" "$(own n1 1)"
	spy_at m1 "$@"
	here=$DIR/m1/cells/c/own
	: >"$DIR/m1.calls"
}

# cost COMMAND: now.
cost() { calls m1 eval "$1"; }

# fresh TOUCH COMMAND: what COMMAND costs less than a second after TOUCH; again
# if the machine was too slow for that.
fresh() {
	local tries start counts

	for ((tries = 0; tries < 20; tries++)); do
		start=$(now_ms)
		eval "$1" >/dev/null
		counts=$(cost "$2")
		if [ $(($(now_ms) - start)) -lt 950 ]; then
			echo "$counts"
			return
		fi
	done
	echo "too slow: this machine does not manage both within a second"
}

# later COMMAND: what it costs when what was fetched before is not fresh.
later() {
	sleep 1.1
	cost "$1"
}

# python SCRIPT ARGUMENT...: os and a = the arguments.
python() { python3 -c 'import os, sys; a = sys.argv[2:]; exec(sys.argv[1])' "$@"; }

READ_WRITE='
fd = os.open(a[0], os.O_RDWR)
os.read(fd, 4096)
os.write(fd, a[1].encode())
'

# attribute NAME: of the record, by itself; getfattr also does a stat.
attribute() { python 'os.getxattr(a[0], a[1])' "$here" "$1"; }

# --- Reading -----------------------------------------------------------------

@test "open + read + close: 1 GET, and one for the lookup of the first touch" {
	mounts
	is "$(cost 'cat "$here"')" "2 0 0"
	is "$(cost 'cat "$here"')" "1 0 0"
	is "$(later 'cat "$here"')" "1 0 0"
	is "$(cost 'cat "$here" "$here" "$here"')" "3 0 0"
}

@test "the same for a lease" {
	mounts
	create "$DIR/m2/nodes/n2" "$(lease n2 0)"
	is "$(cost 'cat "$DIR/m1/nodes/n2"')" "2 0 0"
	is "$(later 'cat "$DIR/m1/nodes/n2"')" "1 0 0"
}

@test "reading on: 0; reading from the start again: 1 GET" {
	mounts
	exec 4<"$here"
	is "$(cost 'head -c 5 <&4')" "0 0 0"
	is "$(cost 'cat <&4')" "0 0 0"
	is "$(cost 'python "os.pread(4, 10, 3)"')" "0 0 0"
	is "$(cost 'python "os.pread(4, 10, 0)"')" "1 0 0"
	exec 4<&-
}

@test "fstat and all attributes of an open file: 0" {
	mounts
	exec 4<"$here"
	sleep 1.1
	is "$(cost 'stat -L /dev/fd/4; etag /dev/fd/4; getfattr -d /dev/fd/4')" \
		"0 0 0"
	exec 4<&-
}

@test "a record that is absent: 1 GET at each look" {
	mounts
	is "$(cost 'cat "$DIR/m1/cells/none/own"')" "1 0 0"
	is "$(cost 'test -e "$DIR/m1/cells/none/own"')" "1 0 0"
	is "$(cost 'test -e "$DIR/m1/cells/none/own"')" "1 0 0"
}

# --- Writing -----------------------------------------------------------------

@test "read, then write, on one open file: 1 GET + 1 PUT" {
	mounts
	cat "$here" >/dev/null
	is "$(cost 'python "$READ_WRITE" "$here" "$(own n1 2)"')" "1 1 0"
	is "$(later 'python "$READ_WRITE" "$here" "$(own n1 3)"')" "1 1 0"
	is "$(cost 'exec 4<>"$here"; cat <&4; own n1 4 >&4; exec 4>&-')" "1 1 0"
	is "$(cat "$there")" "$(own n1 4)"
}

@test "a loop on one descriptor: 1 GET, then 1 PUT a round" {
	mounts
	cat "$here" >/dev/null
	is "$(cost 'python "
fd = os.open(a[0], os.O_RDWR)
os.read(fd, 4096)
for epoch in range(2, 12):
    record = b\"{\\\"node\\\":\\\"n1\\\",\\\"epoch\\\":%d}\" % epoch
    assert os.pwrite(fd, record, 0) == len(record)
" "$here"')" "1 10 0"
	is "$(cat "$there")" '{"node":"n1","epoch":11}'
}

@test "a record in many writes, with truncate and fsync: 1 PUT" {
	mounts
	cat "$here" >/dev/null
	is "$(cost 'python "
fd = os.open(a[0], os.O_RDWR)
os.read(fd, 4096)
os.ftruncate(fd, 0)
for byte in a[1].encode():
    os.pwrite(fd, bytes([byte]), os.lseek(fd, 0, os.SEEK_CUR))
    os.lseek(fd, 1, os.SEEK_CUR)
os.fsync(fd)
os.ftruncate(fd, len(a[1]))
" "$here" "{\"node\":\"n1\",\"epoch\":2}"')" "1 1 0"
	is "$(cat "$there")" '{"node":"n1","epoch":2}'
}

@test "setfattr, then echo, for a record that was read here: 0 + 1 PUT" {
	local guard

	mounts
	cat "$here" >/dev/null
	guard=$(etag "$here")
	sleep 1.1
	is "$(cost 'arm "$here" "$guard"')" "0 0 0"
	is "$(cost 'own n1 2 >"$here"')" "0 1 0"
	is "$(cat "$there")" "$(own n1 2)"
}

@test "a guard for a version that was not seen here: + 1 GET" {
	local guard

	mounts
	cat "$here" >/dev/null
	swap "$there" "$(own n1 2)"
	guard=$(etag "$there")
	arm "$here" "$guard"
	is "$(cost 'own n1 3 >"$here"')" "1 1 0"
	is "$(cat "$there")" "$(own n1 3)"
}

@test "create: 1 GET per walk + 1 PUT" {
	mounts
	is "$(cost 'python "
os.write(os.open(a[0], os.O_CREAT | os.O_EXCL | os.O_WRONLY), a[1].encode())
" "$DIR/m1/cells/new1/own" "$(own n1 1)"')" "1 1 0"
	# set -C walks twice
	is "$(cost 'create "$DIR/m1/cells/new2/own" "$(own n1 1)"')" "2 1 0"
	is "$(cat "$DIR/m2/cells/new2/own")" "$(own n1 1)"
	is "$(cost 'own n1 1 >"$DIR/m1/cells/new3/own"')" "1 1 0"
}

@test "O_EXCL on a record that exists: no PUT" {
	mounts
	is "$(cost 'create "$here" "$(own n1 1)"')" "1 0 0"
	is "$(later 'python "
os.open(a[0], os.O_CREAT | os.O_EXCL | os.O_WRONLY)" "$here"')" "0 0 0"
}

@test "a takeover: + 1 GET of the lease" {
	local guard

	mounts
	create "$DIR/m2/nodes/n1" "$(lease n1 0)"
	cat "$here" >/dev/null
	guard=$(etag "$here")
	arm "$here" "$guard"
	is "$(cost 'own n2 2 >"$here"')" "1 1 0"
	is "$(grep -c '^get nodes/n1.json applied' "$DIR/m1.calls")" 1
	# of an owner without one, and on one descriptor
	is "$(cost 'python "$READ_WRITE" "$here" "$(own n3 3)"')" "2 1 0"
	is "$(grep -c '^get nodes/n2.json absent' "$DIR/m1.calls")" 1
}

@test "takeover=any reads no lease; a release and a claim after it neither" {
	mounts -o takeover=any
	cat "$here" >/dev/null
	is "$(cost 'python "$READ_WRITE" "$here" "$(own n2 2)"')" "1 1 0"
	is "$(cost 'python "$READ_WRITE" "$here" "$(own "" 2)"')" "1 1 0"
	unmount m1
	MOUNTS=("${MOUNTS[0]}")
	spy_at m1
	cat "$here" >/dev/null
	is "$(cost 'python "$READ_WRITE" "$here" "$(own n3 3)"')" "1 1 0"
	is "$(cost 'python "$READ_WRITE" "$here" "$(own "" 3)"')" "1 1 0"
}

@test "a claim against a living owner: the read, its lease, no PUT" {
	mounts
	create "$DIR/m2/nodes/n1" "$(lease n1 $(($(now_ms) + 100000)))"
	cat "$here" >/dev/null
	is "$(cost 'python "$READ_WRITE" "$here" "$(own n2 2)"')" "2 0 0"
	is "$(cat "$there")" "$(own n1 1)"
}

@test "a rejected write: 1 PUT + at most 1 GET; a retry on the file: 0" {
	local counts

	mounts
	exec 4<>"$here"
	cat <&4 >/dev/null
	swap "$there" "$(own n1 2)"
	counts=$(cost 'own n1 3 >&4')
	[[ $counts == [01]" 1 0" ]] || is "$counts" "0 or 1, 1 0"
	is "$(cost 'own n1 3 >&4; own n1 4 >&4')" "0 0 0"
	exec 4>&-
	# and under an armed guard
	arm "$here" "$(etag "$here")"
	swap "$there" "$(own n1 3)"
	counts=$(cost 'own n1 4 >"$here"')
	[[ $counts == [01]" 1 0" ]] || is "$counts" "0 or 1, 1 0"
	is "$(cat "$there")" "$(own n1 3)"
}

@test "a create that loses the race: 1 PUT + at most 1 GET" {
	local counts

	mounts
	python3 - "$DIR/m1/cells/x/own" "$DIR/fifo" 3>&- <<-'PY' &
		import os, sys
		fd = os.open(sys.argv[1], os.O_CREAT | os.O_EXCL | os.O_WRONLY)
		os.mkfifo(sys.argv[2])
		open(sys.argv[2]).read()
		try:
		    os.write(fd, b'{"node":"n1","epoch":1}')
		except OSError:
		    pass
	PY
	until [ -p "$DIR/fifo" ]; do sleep 0.05; done
	create "$DIR/m2/cells/x/own" "$(own n2 1)"
	counts=$(cost 'exec 4>"$DIR/fifo"; exec 4>&-; wait')
	[[ $counts == [01]" 1 0" ]] || is "$counts" "0 or 1, 1 0"
}

@test "what is refused before anything is sent costs nothing" {
	mounts
	cat "$here" >/dev/null
	# no guard
	is "$(cost 'own n1 2 >"$here"')" "0 0 0"
	is "$(cost ': >"$here"')" "0 0 0"
	is "$(cost 'truncate -s 0 "$here"')" "0 0 0"
	is "$(cost 'own n1 2 >>"$here"')" "0 0 0"
	# not a record, an epoch that goes back
	exec 4<>"$here"
	cat <&4 >/dev/null
	is "$(cost 'echo nonsense >&4')" "0 0 0"
	is "$(cost 'own n1 1 >&4')" "0 0 0"
	exec 4>&-
	is "$(cost 'arm "$here" "W/x"; arm "$here" ""')" "0 0 0"
	is "$(cat "$there")" "$(own n1 1)"
}

# --- Attributes --------------------------------------------------------------

@test "stat, test -e: 1 GET, or 0 within 1 s of the last fetch" {
	mounts
	is "$(cost 'stat "$here"')" "1 0 0"
	is "$(fresh 'cat "$here"' 'stat "$here"')" "0 0 0"
	is "$(fresh 'cat "$here"' 'test -e "$here"')" "0 0 0"
	is "$(later 'stat "$here"')" "1 0 0"
	is "$(later 'test -e "$here"')" "1 0 0"
	is "$(fresh 'stat "$here"' 'stat "$here"')" "0 0 0"
}

@test "a write counts as a fetch" {
	mounts
	is "$(fresh 'swap "$here" "$(own n1 $(($(etag_epoch) + 1)))"' \
		'stat "$here"; etag "$here"')" "0 0 0"
}

etag_epoch() { getfattr -n user.celld.epoch --only-values "$here" 2>/dev/null; }

@test "stat: 0 within 1 s of the last listing" {
	mounts
	create "$DIR/m2/nodes/n1" "$(lease n1 0)"
	is "$(fresh 'ls "$DIR/m1/nodes"' 'stat "$DIR/m1/nodes/n1"')" "0 0 0"
	is "$(later 'stat "$DIR/m1/nodes/n1"')" "1 0 0"
	is "$(fresh 'ls "$DIR/m1/cells/c"' 'stat "$here"')" "0 0 0"
}

@test "getfattr by path: 1 GET, or 0 within 1 s of the last fetch" {
	mounts
	is "$(cost 'etag "$here"')" "1 0 0"
	is "$(fresh 'cat "$here"' 'etag "$here"')" "0 0 0"
	is "$(fresh 'cat "$here"' 'getfattr -d "$here"')" "0 0 0"
	is "$(later 'etag "$here"')" "1 0 0"
	is "$(later 'getfattr -d "$here"')" "1 0 0"
}

@test "a listing tells no ETag: getfattr after it is 1 GET" {
	mounts
	create "$DIR/m2/nodes/n1" "$(lease n1 0)"
	is "$(fresh 'ls "$DIR/m1/nodes"' 'etag "$DIR/m1/nodes/n1"')" "1 0 0"
}

@test "the attributes that are this mount's own cost nothing" {
	mounts
	cat "$here" >/dev/null
	is "$(later 'attribute user.celld.key; attribute user.celld.outcome
		attribute user.celld.if-match
		setfattr -x user.celld.if-match "$here"')" "0 0 0"
}

@test "why: on demand only; 1 GET, and 1 for the owner's lease" {
	mounts
	cat "$here" >/dev/null
	is "$(later 'getfattr -d "$here"; ls -l "$here"')" "1 0 0"
	is "$(later 'attribute user.celld.why')" "2 0 0"
}

# getfattr asks for the size, then for the value: a change in between must show
# neither a value that was cut nor ERANGE.
@test "size and value of an attribute are one snapshot" {
	mounts
	swap "$there" "$(own n1 9)"
	: >"$DIR/m1.calls"
	python3 - "$here" "$there" <<-'PY'
		import ctypes, os, sys, time
		libc = ctypes.CDLL(None, use_errno=True)
		path = sys.argv[1].encode()
		def ask(value):
		    return libc.getxattr(path, b"user.celld.epoch", value,
		                         len(value) - 1 if value else 0)
		def change(epoch):
		    fd = os.open(sys.argv[2], os.O_RDWR)
		    os.read(fd, 4096)
		    os.write(fd, b'{"node":"n1","epoch":%d}' % epoch)
		    os.close(fd)
		for epoch in (10, 100, 1000, 10000):
		    time.sleep(1.1) # not fresh
		    start = time.monotonic()
		    size = ask(None)
		    change(epoch)
		    value = ctypes.create_string_buffer(size)
		    value = ctypes.create_string_buffer(size + 1)
		    got = ask(value)
		    if time.monotonic() - start < 0.9:
		        assert size == len(str(epoch - 1)), size
		        assert got == size, (got, os.strerror(ctypes.get_errno()))
		        assert value.value == b"%d" % (epoch - 1), value.value
		        break
		    change(epoch * 10 - 1)
		else:
		    sys.exit("too slow")
	PY
	[[ $(counted "$DIR/m1.calls") == [12345]" 0 0" ]]
}

@test "security.*, system.* and unknown attributes: 0" {
	local name

	mounts
	cat "$here" >/dev/null
	sleep 1.1
	for name in security.capability security.selinux \
		system.posix_acl_access trusted.x user.x user.celld.unknown; do
		is "$(cost 'attribute "$name"')" "0 0 0"
		is "$(cost 'setfattr -n "$name" -v x "$here"')" "0 0 0"
		is "$(cost 'setfattr -x "$name" "$here"')" "0 0 0"
	done
	is "$(cost 'python "os.listxattr(a[0])" "$here"')" "0 0 0"
	# They do not switch off those that there are.
	[ -n "$(etag "$here")" ]
}

@test "ls -l of a record is as stat" {
	mounts
	cat "$here" >/dev/null
	is "$(later 'ls -l "$here"')" "1 0 0"
	is "$(fresh 'cat "$here"' 'ls -l "$here"')" "0 0 0"
}

# --- What needs no store -----------------------------------------------------

@test "statfs, status, metrics, the root and the way to a cell: 0" {
	mounts
	is "$(cost 'df "$DIR/m1"; stat -f "$DIR/m1/cells"')" "0 0 0"
	is "$(cost 'cat "$DIR/m1/.celldfs/status"')" "0 0 0"
	is "$(cost 'cat "$DIR/m1/.celldfs/metrics"')" "0 0 0"
	is "$(cost 'ls -la "$DIR/m1" "$DIR/m1/.celldfs"')" "0 0 0"
	is "$(cost 'stat "$DIR/m1/cells/x" "$DIR/m1/cells" "$DIR/m1/nodes"')" \
		"0 0 0"
	is "$(cost 'mkdir -p "$DIR/m1/cells/y"')" "0 0 0"
	is "$(cat "$DIR/m1.calls")" ""
}

# --- Listings ----------------------------------------------------------------

# fill FORMAT COUNT: so many objects, and no others.
fill() {
	outside rm '*'
	echo '{}' | outside fill "$1" 1 "$2"
}

# The pages are of 1,000 names; that the last one is full costs nothing, since
# the store says with it that there are no more.
@test "ls cells/: 1 LIST per 1,000 names" {
	local count

	spy_at m1
	for count in 0:1 1:1 999:1 1000:1 1001:2 2000:2 2500:3; do
		fill cells/c%05d/own.json "${count%:*}"
		is "$count $(cost 'ls "$DIR/m1/cells"')" \
			"$count 0 0 ${count#*:}"
		is "$(ls "$DIR/m1/cells" | wc -l)" "${count%:*}"
	done
}

@test "many objects of one cell cost no more than the cell" {
	spy_at m1
	fill cells/c/ltx/e1/%08d 3000
	is "$(cost 'ls "$DIR/m1/cells"')" "0 0 1"
}

@test "a listing is streamed: the first names come with the first page" {
	spy_at m1
	# a page is more than the reader's buffer holds
	fill cells/names-that-take-so-much-room-c%05d/own.json 2500
	is "$(cost 'python "next(iter(os.scandir(a[0])))" "$DIR/m1/cells"')" \
		"0 0 1"
}

@test "ls nodes/: 1 LIST per 1,000 names, ls -l nodes/ no more" {
	spy_at m1
	fill nodes/n%05d.json 1001
	is "$(cost 'ls "$DIR/m1/nodes"')" "0 0 2"
	fill nodes/n%05d.json 50
	is "$(fresh : 'ls -l "$DIR/m1/nodes"')" "0 0 1"
}

@test "ls cells/x: as stat of own" {
	mounts
	is "$(cost 'ls "$DIR/m1/cells/c"')" "1 0 0"
	is "$(fresh 'cat "$here"' 'ls "$DIR/m1/cells/c"')" "0 0 0"
	is "$(later 'ls "$DIR/m1/cells/c"')" "1 0 0"
	is "$(cost 'ls "$DIR/m1/cells/none"')" "1 0 0"
}

@test "peers: 1 LIST per 1,000 names + 1 GET per recent node, once per ttl/3" {
	spy_at m1 -o deadline-ms=60000
	fill nodes/n%05d.json 30
	is "$(cost 'cat "$DIR/m1/.celldfs/peers"')" "30 0 1"
	is "$(cost 'cat "$DIR/m1/.celldfs/peers"')" "0 0 0"
	is "$(cost 'ls -l "$DIR/m1/.celldfs"; stat "$DIR/m1/.celldfs/peers"')" \
		"0 0 0"
	fill nodes/n%05d.json 1001
	sleep 3.4
	is "$(cost 'cat "$DIR/m1/.celldfs/peers"')" "1001 0 2"
	is "$(wc -l <"$DIR/m1/.celldfs/peers")" 1001
}

# opcodes NAME WORD: how often the kernel has asked that, says -d.
opcodes() { grep -c "opcode: $2 " "$DIR/$1.log" || true; }

@test "a file that is read again and again costs one lookup each time, and no flush" {
	mount_at m -d
	put cells/x/own.json "$(own a 1)"
	python3 - "$DIR/m/cells/x/own" <<-'PY'
		import os, sys, time
		for i in range(50):
		    fd = os.open(sys.argv[1], os.O_RDONLY)
		    os.read(fd, 100)
		    os.close(fd)
		    time.sleep(0.02) # the release comes after the close
	PY
	is "$(opcodes m OPEN)" 50
	[ "$(opcodes m LOOKUP)" -ge 50 ]
	[ "$(opcodes m LOOKUP)" -le 70 ] # a release may come late
	is "$(opcodes m FLUSH)" 0
	# what is written does say how that went
	errno_of 'os.close(os.open(a[0], os.O_RDWR))' "$DIR/m/cells/x/own"
	is "$(opcodes m FLUSH)" 1
}
