#!/usr/bin/env bats
# celldfs.8, ERRORS OF OPERATIONS: every errno, and the three outcomes of a write.

bats_require_minimum_version 1.5.0
load helper
load watched

# overwrite NODE EPOCH: another program's record, whatever is there.
overwrite() { own "$1" "$2" | outside put cells/x/own.json; }

stored() { outside get cells/x/own.json; }

# unsettled ACTION: a claim at epoch 2 whose PUT meets ACTION. Returns when it has
# been tried in vain to read it back; then settled ERRNO lets that succeed, and
# the write ends with ERRNO.
unsettled() {
	local tries
	exec 9<>"$OWN"
	cat <&9
	rules m "put_if cells/* $1 x1" 'get cells/* fail failed'
	py >"$DIR/writer" <<-'PY' &
		print(err(wr, 9, rec('a', 2)))
	PY
	WRITER=$!
	for ((tries = 0; tries < 400; tries++)); do
		grep -q '^get cells/x/own.json failed' "$CALLS" && return 0
		sleep 0.05
	done
	return 1
}

settled() {
	rules m
	wait "$WRITER"
	exec 9>&-
	cat "$DIR/writer"
	[ "$(cat "$DIR/writer")" = "$1" ]
}

# ---- every errno ----

@test "EBUSY: the guard no longer matches" {
	owned
	py <<-'PY'
		fd, other = rdwr(), rdwr()
		rd(fd)
		rd(other)
		wr(other, rec('a', 2))
		eq(err(wr, fd, rec('a', 3)), 'EBUSY')
	PY
	own a 2 | cmp - "$OWN"
}

@test "EBUSY: the epoch does not advance" {
	owned
	run ! swap "$OWN" "$(own a 1)"
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		eq(err(wr, fd, rec('a', 1)), 'EBUSY')
		eq(wire(), [])
	PY
}

@test "EBUSY: the owner is alive, or its state unknown" {
	owned
	create "$DIR/m/nodes/a" "$(lease a 99999999999999)"
	py "$DIR/m/nodes/a" <<-'PY'
		fd = rdwr()
		rd(fd)
		eq(err(wr, fd, rec('b', 2)), 'EBUSY')
		arm(etag(a[0]), a[0])
		echo(b'{"node":"a","expires_ms":0,"addr":"h:1","log":{"state":"?"}}', a[0])
		calls()
		eq(err(wr, fd, rec('b', 2)), 'EBUSY')
		eq(wire(), [])
	PY
}

@test "EBUSY: the guard is contested" {
	owned
	py <<-'PY'
		arm(etag())
		arm('different')
		eq(err(echo, rec('a', 2)), 'EBUSY')
		eq(wire(), [])
	PY
}

@test "EBUSY: a lost create race" {
	start
	py <<-'PY'
		flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
		fds = [os.open(OWN, flags, 0o644) for _ in range(4)]
		found = [err(wr, fd, rec('n%d' % n, 1)) for n, fd in enumerate(fds)]
		eq(found, [0, 'EBUSY', 'EBUSY', 'EBUSY'])
	PY
	own n0 1 | cmp - "$OWN"
}

@test "EEXIST: O_EXCL on a record that exists at open" {
	owned
	py <<-'PY'
		flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
		eq(err(os.open, OWN, flags, 0o644), 'EEXIST')
		eq(wire(), [])
	PY
	run ! create "$OWN" "$(own a 2)"
	# by a mount that has never heard of it, too
	mount_at other
	OWN=$DIR/other/cells/x/own py <<-'PY'
		flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
		eq(err(os.open, OWN, flags, 0o644), 'EEXIST')
	PY
	own a 1 | cmp - "$OWN"
}

@test "EPERM: no guard" {
	owned
	py <<-'PY'
		eq(err(echo, rec('a', 2)), 'EPERM')
		eq(sent(), '0 0 0')
	PY
}

@test "EPERM: another node's name" {
	owned -o node=a,keeper=off
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		eq(err(wr, fd, rec('b', 2)), 'EPERM')
		eq(wire(), [])
	PY
}

@test "EPERM: unlink, rename, link, symlink and mknod, with no request" {
	owned
	py <<-'PY'
		there = OWN.replace('/x/', '/y/')
		eq(err(os.unlink, OWN), 'EPERM')
		eq(err(os.rmdir, os.path.dirname(OWN)), 'EPERM')
		eq(err(os.mknod, OWN + '~'), 'EPERM')
		eq(err(os.symlink, 'target', OWN + '~'), 'EPERM')
		eq(err(os.rename, OWN, OWN + '~'), 'EPERM')
		eq(err(os.link, OWN, OWN + '~'), 'EPERM')
		eq(err(os.open, OWN + '~', os.O_WRONLY | os.O_CREAT, 0o644), 'EPERM')
		eq(sent(), '0 0 0')
		# absence is never known without asking
		eq(err(os.rename, OWN, there), 'EPERM')
		eq(err(os.link, OWN, there), 'EPERM')
		eq(wire(), [])
	PY
	own a 1 | cmp - "$OWN"
}

@test "EINVAL: not a record" {
	owned
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		calls()
		eq(err(wr, fd, b'{"node":"a","epoch":"2"}'), 'EINVAL')
		eq(err(wr, fd, b'hello\n'), 'EINVAL')
		eq(sent(), '0 0 0')
	PY
}

@test "EINVAL: not a guard" {
	owned
	py <<-'PY'
		eq(err(arm, 'W/"x"'), 'EINVAL')
		eq(sent(), '0 0 0')
	PY
}

@test "EINVAL: a name that is not valid is EINVAL on create and ENOENT on lookup" {
	start
	py "$DIR/m" <<-'PY'
		for name in '/cells/a b', '/cells/a\n', '/cells/\xe9':
		    eq(err(os.stat, a[0] + name), 'ENOENT')
		    eq(err(os.mkdir, a[0] + name), 'EINVAL')
		node = a[0] + '/nodes/a b'
		eq(err(os.stat, node), 'ENOENT')
		eq(err(os.open, node, os.O_WRONLY | os.O_CREAT, 0o644), 'EINVAL')
		eq(sent(), '0 0 0')
	PY
}

@test "EFBIG: too large to write" {
	owned
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		calls()
		eq(err(wr, fd, b'{"node":"a","epoch":2,"n":"%s"}' % (b'x' * 65536)), 'EFBIG')
		eq(sent(), '0 0 0')
	PY
}

@test "EFBIG: too large to read" {
	start
	head -c 1048577 /dev/zero | outside put cells/x/own.json
	py <<-'PY'
		eq(err(lambda: rd(rdwr())), 'EFBIG')
	PY
}

@test "EROFS: mounted ro" {
	owned
	spy_at view -o ro
	CALLS=$DIR/view.calls OWN=$DIR/view/cells/x/own py <<-'PY'
		eq(open(OWN, 'rb').read(), rec('a', 1))
		eq(err(rdwr), 'EROFS')
		eq(err(os.open, OWN, os.O_WRONLY), 'EROFS')
		new = OWN.replace('/x/', '/new/')
		eq(err(os.open, new, os.O_WRONLY | os.O_CREAT, 0o644), 'EROFS')
		eq(err(arm, etag()), 'EROFS')
		eq(err(os.unlink, OWN), 'EROFS')
		eq(os.stat(OWN).st_mode & 0o777, 0o444)
		eq(wire(), [])
	PY
	run ! grep -E '^(put_if|remove)' "$DIR/view.calls"
}

@test "EACCES: the store refused the credentials" {
	owned
	exec 9<>"$OWN"
	cat <&9
	rules m 'get * fail denied' 'put_if * fail denied'
	py <<-'PY'
		eq(err(wr, 9, rec('a', 2)), 'EACCES')
		eq(err(rd, 9), 'EACCES')
		eq(err(rdwr), 'EACCES')
		eq(err(os.stat, OWN.replace('/x/', '/new/')), 'EACCES')
	PY
	exec 9>&-
	rules m
	own a 1 | cmp - "$OWN"
}

@test "ENOENT: there is no such record" {
	start
	py "$DIR/m/nodes/n" <<-'PY'
		for path in OWN, a[0]:
		    eq(err(os.stat, path), 'ENOENT')
		    eq(err(os.open, path, os.O_RDONLY), 'ENOENT')
		    eq(err(os.open, path, os.O_WRONLY), 'ENOENT')
		    eq(err(arm, 'tag', path), 'ENOENT')
		eq(err(os.stat, OWN + '~'), 'ENOENT')
	PY
}

@test "ENOENT: a record that has gone since" {
	owned
	outside rm cells/x/own.json
	py <<-'PY'
		eq(err(os.open, OWN, os.O_RDONLY), 'ENOENT')
		eq(err(os.stat, OWN), 'ENOENT')
	PY
}

@test "ECANCELED: every try was answered not done until the deadline" {
	owned -o deadline-ms=1500
	exec 9<>"$OWN"
	cat <&9
	rules m 'put_if cells/* fail not-done'
	py <<-'PY'
		begun = time.monotonic()
		eq(err(wr, 9, rec('a', 2)), 'ECANCELED')
		eq(time.monotonic() - begun >= 1, True)
		puts = [l for l in calls() if l[0] == 'put_if']
		eq(len(puts) > 1, True)
		# one write: one guard and one attempt id
		eq(len(set((p[3], p[-1]) for p in puts)), 1)
	PY
	exec 9>&-
	own a 1 | cmp - "$OWN"
}

@test "ECANCELED is not what a store that recovers ends in" {
	owned
	exec 9<>"$OWN"
	cat <&9
	rules m 'put_if cells/* fail not-done x2'
	py <<-'PY'
		wr(9, rec('a', 2))
		eq(len(wire()), 3)
	PY
	exec 9>&-
	own a 2 | cmp - "$OWN"
}

@test "ETIMEDOUT: no answer to a read in time" {
	owned -o deadline-ms=1500
	exec 9<>"$OWN"
	cat <&9
	rules m 'get * hang'
	py <<-'PY'
		begun = time.monotonic()
		eq(err(rd, 9), 'ETIMEDOUT')
		eq(time.monotonic() - begun >= 1.4, True)
		eq(err(rdwr), 'ETIMEDOUT')
		eq(err(os.stat, OWN.replace('/x/', '/new/')), 'ETIMEDOUT')
	PY
	exec 9>&-
	rules m
	own a 1 | cmp - "$OWN"
}

@test "ETIMEDOUT: a lookup that must ask answers within 2 s" {
	start
	timed || skip "timing is not judged under a sanitizer"
	rules m 'get * hang'
	py <<-'PY'
		begun = time.monotonic()
		eq(err(os.stat, OWN), 'ETIMEDOUT')
		eq(time.monotonic() - begun < 6, True)
	PY
	rules m
}

@test "ETIMEDOUT: no answer to a write in time, and nothing was sent" {
	owned -o deadline-ms=1500
	exec 9<>"$OWN"
	cat <&9
	rules m 'put_if * hang'
	py <<-'PY'
		eq(err(wr, 9, rec('a', 2)), 'ETIMEDOUT')
	PY
	rules m
	own a 1 | cmp - "$OWN"
	# nothing is known against the guard: the same file may try again
	py <<-'PY'
		wr(9, rec('a', 2))
	PY
	exec 9>&-
	own a 2 | cmp - "$OWN"
}

@test "ETIMEDOUT: a write whose outcome reading back could not settle" {
	owned -o deadline-ms=1500
	exec 9<>"$OWN"
	cat <&9
	rules m 'put_if cells/* lose' 'get cells/* hang'
	py <<-'PY'
		eq(err(wr, 9, rec('a', 2)), 'ETIMEDOUT')
		eq(len(wire()), 1)
	PY
	rules m
	# here the swap did happen: who reads before trying again learns so
	py <<-'PY'
		eq(rd(9), rec('a', 2))
		wr(9, rec('a', 3))
	PY
	exec 9>&-
}

@test "EIO: the store failed" {
	owned
	exec 9<>"$OWN"
	cat <&9
	rules m 'get * fail failed' 'put_if * fail failed' 'list * fail failed'
	py "$DIR/m/cells" <<-'PY'
		eq(err(wr, 9, rec('a', 2)), 'EIO')
		eq(err(rd, 9), 'EIO')
		eq(err(rdwr), 'EIO')
		eq(err(os.stat, OWN.replace('/x/', '/new/')), 'EIO')
		eq(err(os.listdir, a[0]), 'EIO')
	PY
	exec 9>&-
	rules m
	own a 1 | cmp - "$OWN"
}

@test "EIO: a record that came without an ETag can be read but not guarded" {
	owned
	rules m 'get * noetag'
	py <<-'PY'
		fd = rdwr()
		eq(rd(fd), rec('a', 1))
		eq(err(etag, fd), 'ENODATA')
		calls()
		eq(err(wr, fd, rec('a', 2)), 'EIO')
		eq(wire(), [])
	PY
	rules m
	own a 1 | cmp - "$OWN"
}

@test "EIO: an armed guard never stands in for the ETag that did not come" {
	owned
	tag=$(etag "$OWN")
	rules m 'get * noetag'
	py "$tag" <<-'PY'
		fd = rdwr()
		rd(fd)
		arm(a[0])
		calls()
		eq(err(wr, fd, rec('a', 2)), 'EIO')
		eq(wire(), [])
		eq(os.getxattr(OWN, MATCH).decode().strip('"'), a[0].strip('"'))
	PY
}

@test "a write that was settled by a read without an ETag: applied, and guarded by nothing until it is read" {
	owned
	rules later 'put_if * lose x1' 'get * noetag x1'
	py "$DIR/later.rules" "$DIR/m.rules" <<-'PY'
		fd = rdwr_and_read()
		os.rename(*a)
		wr(fd, rec('a', 2))
		said = os.getxattr(fd, 'user.celld.outcome').decode()
		eq(said.startswith('applied; If-Match: "'), True)
		eq('; the new ETag is not known' in said, True)
		eq('ETag now' in said, False)
		eq(err(etag, fd), 'ENODATA')
		calls()
		eq(err(wr, fd, rec('a', 3)), 'EIO')
		said = os.getxattr(fd, 'user.celld.outcome').decode()
		eq('cannot be guarded' in said, True)
		eq(sent(), '0 0 0')
		# by path it is asked for, not remembered without its ETag
		eq(etag()[:1], '"')
		eq(sent(), '1 0 0')
		eq(rd(fd), rec('a', 2))
		wr(fd, rec('a', 3))
		eq(rd(fd), rec('a', 3))
	PY
}

@test "EINTR: interrupted before the PUT was sent" {
	owned
	rules m 'put_if * delay 20000'
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		begun = time.monotonic()
		eq(write_interrupted(fd, rec('a', 2)), 'EINTR')
		eq(time.monotonic() - begun < 15, True)
		# not os.fsync, which tries again for ever
		eq(libc.fsync(fd), -1)
	PY
	rules m
	own a 1 | cmp - "$OWN"
}

@test "EINTR: interrupted before the PUT, by kill -INT" {
	owned
	rules m 'put_if * delay 20000'
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		signal.signal(signal.SIGINT, lambda *_: None)
		signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
		parent = os.getpid()
		child = os.fork()
		if child == 0:
		    for _ in range(100):
		        time.sleep(0.2)
		        if os.getppid() != parent:
		            break
		        os.kill(parent, signal.SIGINT)
		    os._exit(0)
		signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
		record = rec('a', 2)
		eq(libc.write(fd, record, len(record)), -1)
		eq(errno.errorcode[ctypes.get_errno()], 'EINTR')
		os.kill(child, signal.SIGKILL)
	PY
	rules m
	own a 1 | cmp - "$OWN"
}

@test "EINTR: interrupted while reading" {
	owned
	exec 9<>"$OWN"
	cat <&9
	rules m 'get * delay 20000'
	py <<-'PY'
		buffer = ctypes.create_string_buffer(100)
		eq(interrupted(libc.pread, 9, buffer, ctypes.c_size_t(100), ctypes.c_long(0)), 'EINTR')
		eq(interrupted(libc.open, OWN.encode(), os.O_RDONLY), 'EINTR')
	PY
	exec 9>&-
	rules m
	own a 1 | cmp - "$OWN"
}

@test "ENAMETOOLONG: a cell of 256 bytes, a node of 129, with no request" {
	start
	py "$DIR/m" <<-'PY'
		cell, node = a[0] + '/cells/' + 255 * 'n', a[0] + '/nodes/' + 128 * 'n'
		flags = os.O_WRONLY | os.O_CREAT
		for path in cell + 'n', cell + 'n/own', node + 'n':
		    eq(err(os.stat, path), 'ENAMETOOLONG')
		    eq(err(os.mkdir, path), 'ENAMETOOLONG')
		    eq(err(os.open, path, flags, 0o644), 'ENAMETOOLONG')
		eq(sent(), '0 0 0')
		# and not one byte less
		echo(rec('a', 1), cell + '/own')
		echo(b'{"node":"%s","expires_ms":0,"addr":"h:1"}' % (128 * b'n'), node)
	PY
}

@test "ENODATA: an attribute that is unknown or has no value" {
	owned
	py "$DIR/m/cells" <<-'PY'
		etag()
		calls()
		for name in ('user.celld.nothing', 'user.other', 'user.celld.', MATCH,
		             'security.selinux', 'user.celld.ETAG'):
		    eq((name, err(os.getxattr, OWN, name)), (name, 'ENODATA'))
		    eq((name, err(os.getxattr, a[0], name)), (name, 'ENODATA'))
		eq(err(os.removexattr, OWN, MATCH), 'ENODATA')
		eq(sent(), '0 0 0')
	PY
}

@test "ERANGE: a buffer that is too small for the value or the list" {
	owned
	py <<-'PY'
		def get(file, name, size):
		    buffer = ctypes.create_string_buffer(4096)
		    n = libc.getxattr(file, name, buffer, ctypes.c_size_t(size))
		    return n if n >= 0 else errno.errorcode[ctypes.get_errno()]
		def listed(file, size):
		    buffer = ctypes.create_string_buffer(4096)
		    n = libc.listxattr(file, buffer, ctypes.c_size_t(size))
		    return n if n >= 0 else errno.errorcode[ctypes.get_errno()]
		path = OWN.encode()
		for name in b'etag', b'epoch', b'key', b'outcome', b'why':
		    name = b'user.celld.' + name
		    whole = get(path, name, 0)
		    eq(whole > 0, True)
		    eq(get(path, name, whole), whole)
		    if whole > 1:
		        eq(get(path, name, whole - 1), 'ERANGE')
		whole = listed(path, 0)
		eq(listed(path, whole), whole)
		eq(listed(path, whole - 1), 'ERANGE')
	PY
}

@test "the log: each failed operation is one line with its errno and its path" {
	owned
	: >"$DIR/m.log"
	run ! bash -c 'echo "$1" >"$OWN"' - "$(own a 2)"
	[ "$(grep -c EPERM "$DIR/m.log")" = 1 ]
	grep EPERM "$DIR/m.log" | grep -F cells/x/own.json | grep -F write
	run ! bash -c 'echo x >"$OWN"'
	[ "$(grep -c EINVAL "$DIR/m.log")" = 1 ]
	rules m 'get * fail failed'
	run ! cat "$OWN"
	[ "$(grep -c EIO "$DIR/m.log")" = 1 ]
	grep EIO "$DIR/m.log" | grep -F cells/x/own.json
}

# ---- applied, rejected, unknown ----

@test "a lost answer: the write was applied, and is reported as success after settling" {
	owned
	exec 9<>"$OWN"
	cat <&9
	rules m 'put_if cells/* lose x1'
	py <<-'PY'
		wr(9, rec('a', 2))
		eq(sent(), '1 1 0')
		eq(etag(9), etag())
		# the new ETag is the guard
		wr(9, rec('a', 3))
		eq(sent(), '0 1 0')
	PY
	exec 9>&-
	own a 3 | cmp - "$OWN"
}

@test "a lost answer to a create, a release and a lease settles likewise" {
	start
	rules m 'put_if cells/* lose' 'put_if nodes/* lose'
	create "$OWN" "$(own a 1)"
	swap "$OWN" "$(own '' 1)"
	create "$DIR/m/nodes/a" "$(lease a 5)"
	swap "$DIR/m/nodes/a" "$(lease a 6)"
	[ "$(grep -c ^put_if.*unknown "$CALLS")" = 4 ]
	rules m
	own '' 1 | cmp - "$OWN"
	lease a 6 | cmp - "$DIR/m/nodes/a"
}

@test "a request that was lost is sent again, with the same guard and attempt id" {
	owned
	exec 9<>"$OWN"
	cat <&9
	rules m 'put_if cells/* drop x1'
	py <<-'PY'
		wr(9, rec('a', 2))
		puts = [l for l in calls() if l[0] == 'put_if']
		eq([p[4] for p in puts], ['unknown', 'applied'])
		eq(puts[0][2:4], puts[1][2:4])
		eq(puts[0][5], puts[1][5])
	PY
	exec 9>&-
	own a 2 | cmp - "$OWN"
}

@test "a lost create is sent again" {
	start
	rules m 'put_if cells/* drop x2'
	create "$OWN" "$(own a 1)"
	[ "$(grep -c '^put_if cells' "$CALLS")" = 3 ]
	[ "$(grep '^put_if cells' "$CALLS" | awk '{ print $NF }' | sort -u | wc -l)" = 1 ]
	own a 1 | cmp - "$OWN"
}

@test "a request that was lost and an answer that was lost: applied exactly once" {
	owned
	exec 9<>"$OWN"
	cat <&9
	rules m 'put_if cells/* drop x1' 'put_if cells/* lose x1'
	py <<-'PY'
		wr(9, rec('a', 2))
		eq([l[4] for l in calls() if l[0] == 'put_if'], ['unknown', 'unknown'])
		eq(rd(rdwr()), rec('a', 2))
	PY
	exec 9>&-
}

@test "equal bytes by another writer are no proof: settled by the attempt id" {
	owned
	unsettled drop
	overwrite a 2
	settled EBUSY
	[ "$(stored)" = "$(own a 2)" ]
}

@test "a lost answer, then overwritten from outside: ETIMEDOUT, superseded" {
	owned
	unsettled lose
	[ "$(stored)" = "$(own a 2)" ]
	overwrite b 3
	settled ETIMEDOUT
	[[ $(outcome "$OWN") == *superseded* ]]
	[ "$(stored)" = "$(own b 3)" ]
}

@test "a lost request, then overwritten from outside: the epoch disproves it, EBUSY" {
	owned
	unsettled drop
	overwrite b 2
	settled EBUSY
	[ "$(stored)" = "$(own b 2)" ]
}

@test "a lost request, then released from outside: no proof, ETIMEDOUT" {
	owned
	unsettled drop
	overwrite '' 2
	settled ETIMEDOUT
	[ "$(stored)" = "$(own '' 2)" ]
}

@test "a lost answer, then removed from outside: ETIMEDOUT, and it is not made anew" {
	owned
	unsettled lose
	outside rm cells/x/own.json
	settled ETIMEDOUT
	[ "$(stored)" = "" ]
}

@test "unreadable for a while is settled as soon as it can be read" {
	owned
	unsettled lose
	settled 0
	[ "$(stored)" = "$(own a 2)" ]
}

@test "a rejection of a resend that can be its own echo is settled, not believed" {
	owned
	exec 9<>"$OWN"
	cat <&9
	rules m 'put_if cells/* drop x1' 'put_if cells/* fail rejected x1' \
		'put_if cells/* fail not-done x1'
	py <<-'PY'
		wr(9, rec('a', 2))
		eq([l[4] for l in calls() if l[0] == 'put_if'],
		   ['unknown', 'rejected', 'not-done', 'applied'])
	PY
	exec 9>&-
	own a 2 | cmp - "$OWN"
}

@test "a rejection to the only try costs at most one read" {
	owned
	py <<-'PY'
		fd, other = rdwr(), rdwr()
		rd(fd)
		rd(other)
		wr(other, rec('a', 2))
		calls()
		eq(err(wr, fd, rec('a', 3)), 'EBUSY')
		eq(sent() in ('0 1 0', '1 1 0'), True)
	PY
}

# ---- interrupts after the PUT was sent ----

@test "after an interrupt a sent PUT settles: applied" {
	owned
	rules m 'put_if cells/* late 20000 x1'
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		calls()
		begun = time.monotonic()
		eq(write_interrupted_once_landed(fd, rec('a', 2)), 0)
		eq(time.monotonic() - begun < 15, True)
		# it was interrupted, or this proves nothing
		eq([l[4] for l in calls() if l[0] == 'put_if'], ['unknown'])
		wr(fd, rec('a', 3))
	PY
	own a 3 | cmp - "$OWN"
}

@test "after an interrupt a sent PUT has 1 s to settle, then ETIMEDOUT" {
	owned
	exec 9<>"$OWN"
	cat <&9
	rules m 'put_if cells/* late 20000' 'get cells/* hang'
	py <<-'PY'
		begun = time.monotonic()
		eq(write_interrupted_once_landed(9, rec('a', 2)), 'ETIMEDOUT')
		taken = time.monotonic() - begun
		eq(taken >= 1, True)
		eq(taken < 10, True)
	PY
	exec 9>&-
	rules m
	own a 2 | cmp - "$OWN"
}

@test "in bash a background child's exit during echo >own does not make it fail" {
	owned
	arm "$OWN" "$(etag "$OWN")"
	rules m 'put_if cells/* late 20000 x1'
	: >"$CALLS"
	# the child ends once the PUT has landed, whose answer is still under way
	bash -c '
		(until "$2" get cells/x/own.json | grep -qF "$1"; do
			sleep 0.05; done) &
		echo "$1" >"$OWN"' - "$(own a 2)" "$HERE/outside.py" 3>&-
	# and its exit did interrupt the write
	grep '^put_if cells/x/own.json .* unknown ' "$CALLS"
	own a 2 | cmp - "$OWN"
}
