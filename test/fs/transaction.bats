#!/usr/bin/env bats
# celldfs.8, GUARDS: which guard a write has, and when it is done.

bats_require_minimum_version 1.5.0
load helper
load watched

# quiet COMMAND...: runs it and expects that it sends nothing.
quiet() {
	: >"$CALLS"
	"$@"
	[ "$(counted "$CALLS")" = "0 0 0" ]
}

# ---- the guard: three ways ----

@test "guard: read, then write, on one open file: If-Match is the ETag that it read" {
	owned
	py <<-'PY'
		fd = rdwr()
		tag = etag(fd)
		eq(rd(fd), rec('a', 1))
		calls()
		wr(fd, rec('a', 2))
		eq(wire(), ['If-Match: ' + tag])
		eq(rd(rdwr()), rec('a', 2))
	PY
}

@test "guard: exec 3<>own; read; echo >&3 in the shell" {
	owned
	bash -c 'exec 3<>"$OWN" && IFS= read -r line <&3 && echo "$1" >&3' \
		- "$(own a 2)"
	[ "$(cat "$OWN")" = "$(own a 2)" ]
}

@test "guard: exec 3<>own; cat; echo >&3 writes at the old end of the file" {
	owned
	bash -c 'exec 3<>"$OWN" && cat <&3 && echo "$1" >&3' - "$(own a 2)"
	own a 2 | cmp - "$OWN"
}

@test "guard: setfattr, then a write-only open" {
	owned
	tag=$(etag "$OWN")
	arm "$OWN" "$tag"
	: >"$CALLS"
	own a 2 >"$OWN"
	[ "$(grep -c ^put_if "$CALLS")" = 1 ]
	grep -F "put_if cells/x/own.json If-Match: $tag applied" "$CALLS"
	own a 2 | cmp - "$OWN"
}

@test "guard: fsetxattr on the open file itself" {
	owned
	py <<-'PY'
		tag = etag()
		fd = os.open(OWN, os.O_WRONLY)
		arm(tag, fd)
		calls()
		wr(fd, rec('a', 2))
		eq(wire(), ['If-Match: ' + tag])
	PY
}

@test "guard: a file that does not exist is created with If-None-Match: *" {
	start
	py <<-'PY'
		for n, flags in enumerate((os.O_EXCL, 0, os.O_TRUNC)):
		    path = OWN.replace('/x/', '/x%d/' % n)
		    fd = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o644)
		    calls()
		    wr(fd, rec('a', 1))
		    eq(wire(), ['If-None-Match: *'])
		    eq(err(os.close, fd), 0)
		    eq(open(path, 'rb').read(), rec('a', 1))
	PY
	(set -C && own a 1 >"$DIR/m/cells/y/own")
	[ "$(grep '^put_if cells/y' "$CALLS" | cut -d' ' -f3,4)" = "If-None-Match: *" ]
}

@test "guard: a file that was created and is read before it is written is empty and still created" {
	start
	py <<-'PY'
		fd = os.open(OWN, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
		eq(rd(fd), b'')
		calls()
		wr(fd, rec('a', 1))
		eq(wire(), ['If-None-Match: *'])
		eq(rd(fd), rec('a', 1))
	PY
}

# ---- an open file's own guard ----

@test "guard: an open file that has read never takes a guard that was armed by path" {
	owned
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		old = etag(fd)
		other = rdwr()
		rd(other)
		wr(other, rec('a', 2))
		new = etag(other)
		arm(new)
		calls()
		eq(err(wr, fd, rec('a', 3)), 'EBUSY')
		eq(wire(), ['If-Match: ' + old])
		# and it has not used it up
		echo(rec('a', 3))
		eq(wire(), ['If-Match: ' + new])
	PY
}

@test "guard: an open file that has read never takes a guard refreshed by another reader" {
	owned
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		old = etag(fd)
		other = rdwr()
		rd(other)
		wr(other, rec('a', 2))
		os.close(other)
		eq(open(OWN, 'rb').read(), rec('a', 2))
		etag()
		eq(etag(fd), old)
		calls()
		eq(err(wr, fd, rec('a', 3)), 'EBUSY')
		eq(wire(), ['If-Match: ' + old])
		eq(rd(os.open(OWN, os.O_RDONLY)), rec('a', 2))
	PY
}

@test "guard: an open file uses what it read, unless its own fsetxattr said otherwise" {
	owned
	py <<-'PY'
		after, before = rdwr(), rdwr()
		rd(after)
		other = rdwr()
		rd(other)
		wr(other, rec('a', 2))
		new = etag(other)
		arm(new, after)
		calls()
		wr(after, rec('a', 3))
		eq(wire(), ['If-Match: ' + new])
		# said before the read, it stands as well
		arm(new, before)
		eq(rd(before), rec('a', 1))
		calls()
		eq(err(wr, before, rec('a', 4)), 'EBUSY')
		eq([g for g in wire() if g != 'If-Match: ' + new], [])
	PY
}

@test "guard: an open file's own fsetxattr wins over a guard that was armed by path" {
	owned
	py <<-'PY'
		tag = etag()
		fd = os.open(OWN, os.O_WRONLY)
		arm(tag, fd)
		arm('armed-by-path')
		calls()
		wr(fd, rec('a', 2))
		eq(wire(), ['If-Match: ' + tag])
		eq(os.getxattr(OWN, MATCH).strip(b'"'), b'armed-by-path')
	PY
}

@test "guard: an open file that has not read uses the guard armed by path, not what it could have read" {
	owned
	py <<-'PY'
		fd = rdwr()
		other = rdwr()
		rd(other)
		wr(other, rec('a', 2))
		arm(etag(other))
		calls()
		wr(fd, rec('a', 3))
		eq(wire(), ['If-Match: ' + etag(other)])
	PY
}

@test "guard: fsetxattr on one open file is no other open file's guard" {
	owned
	py <<-'PY'
		one, two = (os.open(OWN, os.O_WRONLY) for _ in range(2))
		arm(etag(), one)
		calls()
		eq(err(wr, two, rec('a', 2)), 'EPERM')
		eq(err(echo, rec('a', 2)), 'EPERM')
		eq(sent(), '0 0 0')
		wr(one, rec('a', 2))
	PY
}

@test "guard: on one descriptor in bash: getfattr and setfattr of /dev/fd/3 are that open file's own" {
	owned
	bash -c '
		exec 3<>"$OWN"
		first=$(getfattr -n user.celld.etag --only-values /dev/fd/3) || exit 1
		(exec 4<>"$OWN" && cat <&4 >/dev/null && echo "$1" >&4) || exit 2
		[ "$(getfattr -n user.celld.etag --only-values /dev/fd/3)" = "$first" ] ||
			exit 3
		second=$(getfattr -n user.celld.etag --only-values "$OWN")
		[ "$second" != "$first" ] || exit 4
		setfattr -n user.celld.if-match -v "$second" /dev/fd/3 || exit 5
		echo "$2" >&3 || exit 6
	' - "$(own a 2)" "$(own a 3)"
	own a 3 | cmp - "$OWN"
	# it was that file's own: nothing is armed by path
	run ! getfattr -n user.celld.if-match "$OWN"
	run ! bash -c 'echo "$1" >"$OWN"' - "$(own a 4)"
}

# ---- no guard, and guards for what is gone ----

@test "guard: no guard: the write is EPERM and no request" {
	owned
	py <<-'PY'
		eq(err(echo, rec('a', 2)), 'EPERM')
		fd = rdwr()
		calls()
		eq(err(wr, fd, rec('a', 2)), 'EPERM')
		eq(sent(), '0 0 0')
		eq(rd(fd), rec('a', 1))
	PY
	: >"$CALLS"
	run ! bash -c 'echo "$1" >"$OWN"' - "$(own a 2)"
	[ "$(counted "$CALLS")" = "0 0 0" ]
	own a 1 | cmp - "$OWN"
}

@test "guard: : >own is 0 and no request" {
	owned
	quiet bash -c ': >"$OWN"'
	own a 1 | cmp - "$OWN"
}

@test "guard: an armed guard is used even if the record is gone: EBUSY, never a create" {
	owned
	arm "$OWN" "$(etag "$OWN")"
	arm "$OWN" "$(etag "$OWN")"
	outside rm cells/x/own.json
	py <<-'PY'
		# by the mount's memory there still is one
		eq(err(echo, rec('a', 2)), 'EBUSY')
		eq([g for g in wire() if g == 'If-None-Match: *'], [])
		# now it is known to be gone, so that the open creates
		eq(err(rdwr), 'ENOENT')
		eq(err(echo, rec('a', 2)), 'EBUSY')
		eq([g for g in wire() if g == 'If-None-Match: *'], [])
		eq(err(os.stat, OWN), 'ENOENT')
	PY
	[ "$(outside keys cells/)" = "" ]
}

@test "guard: what this open file read is used even if the record is gone" {
	owned
	exec 9<>"$OWN"
	cat <&9
	outside rm cells/x/own.json
	run ! bash -c 'echo "$1" >&9' - "$(own a 2)"
	exec 9>&-
	[ "$(outside keys cells/)" = "" ]
}

# ---- guards armed by path ----

@test "armed: guards are per record" {
	owned
	create "$DIR/m/cells/y/own" "$(own a 1)"
	py "$DIR/m/cells/y/own" <<-'PY'
		arm(etag())
		calls()
		eq(err(echo, rec('a', 2), a[0]), 'EPERM')
		# another record's guard makes no contest
		arm(etag(a[0]), a[0])
		echo(rec('a', 2))
		echo(rec('a', 2), a[0])
	PY
}

@test "armed: guards are per uid" {
	[ "$(id -u)" = 0 ] || skip "needs root to be two users"
	chmod 755 "$DIR"
	owned -o allow_other,uid=65534
	py <<-'PY'
		tag = etag()
		arm(tag)
		os.seteuid(65534)
		eq(err(os.getxattr, OWN, MATCH), 'ENODATA')
		eq(err(echo, rec('a', 2)), 'EPERM')
		# different guards of different users are no contest
		arm('another')
		os.seteuid(0)
		calls()
		echo(rec('a', 2))
		eq(wire(), ['If-Match: ' + tag])
		eq(err(os.getxattr, OWN, MATCH), 'ENODATA')
		os.seteuid(65534)
		eq(os.getxattr(OWN, MATCH).strip(b'"'), b'another')
	PY
}

@test "armed: a guard serves one write" {
	owned
	py <<-'PY'
		arm(etag())
		echo(rec('a', 2))
		calls()
		eq(err(echo, rec('a', 3)), 'EPERM')
		eq(sent(), '0 0 0')
	PY
}

@test "armed: a guard whose write was rejected has served" {
	owned
	py <<-'PY'
		arm(etag())
		fd = rdwr()
		rd(fd)
		wr(fd, rec('a', 2))
		eq(err(echo, rec('a', 3)), 'EBUSY')
		calls()
		eq(err(echo, rec('a', 3)), 'EPERM')
		eq(sent(), '0 0 0')
	PY
}

@test "armed: arming the same etag twice arms two writes" {
	owned
	py <<-'PY'
		tag = etag()
		arm(tag)
		arm(tag.strip('"'))
		echo(rec('a', 2))
		eq(err(echo, rec('a', 3)), 'EBUSY')
		eq(err(echo, rec('a', 3)), 'EPERM')
	PY
}

@test "armed: setfattr -x disarms" {
	owned
	arm "$OWN" "$(etag "$OWN")"
	setfattr -x user.celld.if-match "$OWN"
	run ! getfattr -n user.celld.if-match "$OWN"
	py <<-'PY'
		eq(err(echo, rec('a', 2)), 'EPERM')
		eq(sent(), '0 0 0')
		eq(err(os.removexattr, OWN, MATCH), 'ENODATA')
	PY
}

@test "armed: getfattr -n user.celld.if-match shows the guard, and nothing else uses it up" {
	owned
	run ! getfattr -n user.celld.if-match "$OWN"
	tag=$(etag "$OWN")
	arm "$OWN" "$tag"
	shown=$(getfattr -n user.celld.if-match --only-values "$OWN")
	[ "${shown//\"/}" = "${tag//\"/}" ]
	cat "$OWN"
	ls -l "$OWN"
	: >"$OWN"
	own a 2 >"$OWN"
	run ! getfattr -n user.celld.if-match "$OWN"
}

@test "armed: getfattr of an open file's if-match shows what it goes by" {
	owned
	py <<-'PY'
		fd = rdwr()
		eq(err(os.getxattr, fd, MATCH), 'ENODATA')
		rd(fd)
		eq(os.getxattr(fd, MATCH).decode().strip('"'), etag(fd).strip('"'))
		arm('mine', fd)
		eq(os.getxattr(fd, MATCH).strip(b'"'), b'mine')
		eq(err(os.getxattr, OWN, MATCH), 'ENODATA')
		# without it, and having not read since, there is none
		os.removexattr(fd, MATCH)
		calls()
		eq(err(wr, fd, rec('a', 2)), 'EPERM')
		eq(sent(), '0 0 0')
	PY
}

# ---- the contest ----

@test "contest: a different etag while one is armed voids all until as many writes were refused" {
	owned
	py <<-'PY'
		tag = etag()
		arm(tag)
		arm('different')
		calls()
		for _ in range(2):
		    eq(err(echo, rec('a', 2)), 'EBUSY')
		eq(err(echo, rec('a', 2)), 'EPERM')
		eq(sent(), '0 0 0')
		# it is over
		arm(tag)
		echo(rec('a', 2))
	PY
	own a 2 | cmp - "$OWN"
}

@test "contest: two writes that were armed with one etag count as two" {
	owned
	py <<-'PY'
		tag = etag()
		arm(tag)
		arm(tag)
		arm('different')
		calls()
		for _ in range(3):
		    eq(err(echo, rec('a', 2)), 'EBUSY')
		eq(err(echo, rec('a', 2)), 'EPERM')
		eq(sent(), '0 0 0')
	PY
}

@test "contest: arming meanwhile joins it, whatever the etag" {
	owned
	py <<-'PY'
		tag = etag()
		arm(tag)
		arm('different')
		arm(tag)
		arm('third')
		for _ in range(3):
		    eq(err(echo, rec('a', 2)), 'EBUSY')
		arm(tag)
		for _ in range(2):
		    eq(err(echo, rec('a', 2)), 'EBUSY')
		eq(err(echo, rec('a', 2)), 'EPERM')
		eq(wire(), [])
	PY
}

@test "contest: in a contest if-match is ENODATA, and -x changes nothing" {
	owned
	py <<-'PY'
		arm(etag())
		arm('different')
		eq(err(os.getxattr, OWN, MATCH), 'ENODATA')
		err(os.removexattr, OWN, MATCH)
		for _ in range(2):
		    eq(err(echo, rec('a', 2)), 'EBUSY')
		eq(err(echo, rec('a', 2)), 'EPERM')
		eq(wire(), [])
	PY
}

@test "contest: it is none of an open file's business that has a guard of its own" {
	owned
	py <<-'PY'
		arm(etag())
		arm('different')
		fd = rdwr()
		rd(fd)
		wr(fd, rec('a', 2))
		for _ in range(2):
		    eq(err(echo, rec('a', 3)), 'EBUSY')
		eq(err(echo, rec('a', 3)), 'EPERM')
	PY
}

@test "contest: a create without memory of the record is refused, too" {
	owned
	py <<-'PY'
		arm(etag())
		arm('different')
	PY
	outside rm cells/x/own.json
	py <<-'PY'
		eq(err(rdwr), 'ENOENT')
		for _ in range(2):
		    eq(err(echo, rec('a', 2)), 'EBUSY')
		eq(wire(), [])
	PY
}

@test "contest: a record that is refused by rule 1 does not count" {
	owned
	py <<-'PY'
		arm(etag())
		arm('different')
		for _ in range(3):
		    eq(err(echo, b'{"node":1}'), 'EINVAL')
		for _ in range(2):
		    eq(err(echo, rec('a', 2)), 'EBUSY')
		eq(err(echo, rec('a', 2)), 'EPERM')
	PY
}

# ---- what uses a guard up ----

@test "armed: refused by rule 1, the guard is left" {
	owned
	py <<-'PY'
		arm(etag())
		calls()
		bad = [b'{"node":"a"}', b'{"node":"a","epoch":2}x', b'x',
		       b'{"node":"a","epoch":2,"n":"%s"}' % (b'x' * 65536)]
		eq([err(echo, b) for b in bad],
		   ['EINVAL', 'EINVAL', 'EINVAL', 'EFBIG'])
		echo(b'{"node":"a"')
		eq(sent(), '0 0 0')
		echo(rec('a', 2))
	PY
}

@test "armed: refused by rule 2, the guard is consumed" {
	owned
	py <<-'PY'
		for epoch, expected in (1, 'EBUSY'), (9999999, 'EINVAL'):
		    arm(etag())
		    eq(err(echo, rec('a', epoch)), expected)
		    eq(err(os.getxattr, OWN, MATCH), 'ENODATA')
		eq(wire(), [])
	PY
}

@test "armed: refused by rule 3, the guard is consumed" {
	owned
	create "$DIR/m/nodes/a" "$(lease a 99999999999999)"
	py <<-'PY'
		arm(etag())
		eq(err(echo, rec('b', 2)), 'EBUSY')
		eq(err(os.getxattr, OWN, MATCH), 'ENODATA')
		eq(wire(), [])
	PY
}

@test "armed: refused by rule 4, the guard is consumed" {
	owned -o node=a,keeper=off
	py <<-'PY'
		arm(etag())
		eq(err(echo, rec('b', 2)), 'EPERM')
		eq(err(os.getxattr, OWN, MATCH), 'ENODATA')
		eq(wire(), [])
	PY
}

@test "armed: refused by rule 5, the guard is consumed" {
	start
	create "$DIR/m/nodes/a" "$(lease a 0)"
	py "$DIR/m/nodes/a" <<-'PY'
		other = b'{"node":"b","expires_ms":0,"addr":"h:1"}'
		half = b'{"node":"a","expires_ms":0,"addr":"h:1","load":{}}'
		for record in other, half:
		    arm(etag(a[0]), a[0])
		    eq(err(echo, record, a[0]), 'EINVAL')
		    eq(err(os.getxattr, a[0], MATCH), 'ENODATA')
		eq(wire(), [])
	PY
}

@test "armed: a write that was interrupted before its PUT leaves the guard" {
	owned
	rules m 'put_if cells/* delay 20000 x1'
	py <<-'PY'
		libc = ctypes.CDLL(None, use_errno=True)
		tag = etag()
		arm(tag)
		fd = os.open(OWN, os.O_WRONLY)
		signal.signal(signal.SIGALRM, lambda *_: None)
		signal.setitimer(signal.ITIMER_REAL, 0.2, 0.1)
		eq(libc.write(fd, rec('a', 2), len(rec('a', 2))), -1)
		eq(ctypes.get_errno(), errno.EINTR)
		signal.setitimer(signal.ITIMER_REAL, 0)
		calls()
		echo(rec('a', 2))
		eq(wire(), ['If-Match: ' + tag])
	PY
}

# ---- the values ----

@test "values: taken with or without quotes" {
	owned
	py <<-'PY'
		for epoch, form in (2, '"%s"'), (3, '%s'):
		    bare = etag().strip('"')
		    arm(form % bare)
		    calls()
		    echo(rec('a', epoch))
		    eq(wire(), ['If-Match: "%s"' % bare])
	PY
}

@test "values: an ETag with a space, a dash or a comma in quotes is taken" {
	owned
	py <<-'PY'
		for tag in '"9b-2"', '"0x8D 4F"', 'a b', '"a,b"':
		    arm(tag)
		    eq(os.getxattr(OWN, MATCH).decode().strip('"'), tag.strip('"'))
		    os.removexattr(OWN, MATCH)
	PY
}

@test "values: weak tags, *, lists, control bytes and empty values are EINVAL" {
	owned
	py <<-'PY'
		fd = rdwr()
		for tag in (b'W/"x"', b'W/x', b'*', b'"*"', b'"a", "b"', b'"a","b"',
			    b'a, b', b'a\nb', b'"a\tb"', b'a\0b', b'a\x7fb', b'',
			    b'""', b'"', b'a"b', b'x' * 300,
			    b'"a"\r\nx-amz-acl: public-read'):
		    for file in OWN, fd:
		        try:
		            os.setxattr(file, MATCH, tag)
		            eq(tag, 'EINVAL')
		        except OSError as e:
		            eq((tag, errno.errorcode[e.errno]), (tag, 'EINVAL'))
		eq(err(os.getxattr, OWN, MATCH), 'ENODATA')
		eq(err(echo, rec('a', 2)), 'EPERM')
		eq(sent(), '1 0 0')
	PY
}

@test "values: a value that is refused changes nothing of what is armed" {
	owned
	py <<-'PY'
		tag = etag()
		arm(tag)
		eq(err(arm, '*'), 'EINVAL')
		calls()
		echo(rec('a', 2))
		eq(wire(), ['If-Match: ' + tag])
	PY
}

# ---- after a write ----

@test "after a successful write the open file's guard is the new ETag: a pwrite loop renews" {
	owned
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		tags = [etag(fd)]
		for epoch in range(2, 6):
		    calls()
		    wr(fd, rec('a', epoch))
		    eq(sent(), '0 1 0')
		    tags.append(etag(fd))
		    eq(etag(), tags[-1])
		eq(len(set(tags)), 5)
	PY
	own a 5 | cmp - "$OWN"
}

@test "after a successful write the loop goes on, however the first guard was given" {
	start
	py <<-'PY'
		fd = os.open(OWN, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
		for epoch in 1, 2, 3:
		    wr(fd, rec('a', epoch))
		other = os.open(OWN, os.O_WRONLY)
		arm(etag())
		for epoch in 4, 5:
		    wr(other, rec('a', epoch))
		third = os.open(OWN, os.O_WRONLY)
		arm(etag(), third)
		for epoch in 6, 7:
		    wr(third, rec('a', epoch))
		eq(len(wire()), 7)
	PY
}

@test "after a successful write the open file shows what it wrote" {
	owned
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		longer = b'{"node":"a","epoch":2,"more":"than before"}\n'
		wr(fd, longer)
		eq(os.fstat(fd).st_size, len(longer))
		eq(os.pread(fd, 100, 8), longer[8:])
	PY
}

@test "stale: every retry is EBUSY with no request until the file reads again" {
	owned
	py <<-'PY'
		fd, other = rdwr(), rdwr()
		rd(fd)
		rd(other)
		wr(other, rec('a', 2))
		eq(err(wr, fd, rec('a', 3)), 'EBUSY')
		calls()
		for _ in range(3):
		    eq(err(wr, fd, rec('a', 3)), 'EBUSY')
		eq(sent(), '0 0 0')
		eq(rd(fd), rec('a', 2))
		wr(fd, rec('a', 3))
	PY
}

@test "stale: reading on in the old version is not reading again" {
	owned
	py <<-'PY'
		fd, other = rdwr(), rdwr()
		rd(fd)
		rd(other)
		wr(other, rec('a', 2))
		eq(err(wr, fd, rec('a', 3)), 'EBUSY')
		eq(os.pread(fd, 5, 3), rec('a', 1)[3:8])
		calls()
		eq(err(wr, fd, rec('a', 3)), 'EBUSY')
		eq(sent(), '0 0 0')
	PY
}

@test "stale: a lost create stays lost, with no request" {
	start
	py <<-'PY'
		flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
		one, two = os.open(OWN, flags), os.open(OWN, flags)
		wr(one, rec('a', 1))
		eq(err(wr, two, rec('b', 1)), 'EBUSY')
		calls()
		eq(err(wr, two, rec('b', 1)), 'EBUSY')
		eq(sent(), '0 0 0')
		eq(rd(two), rec('a', 1))
		wr(two, rec('a', 2))
	PY
}

@test "refusals by rule 2 are judged anew each time" {
	owned
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		calls()
		eq(err(wr, fd, rec('a', 1)), 'EBUSY')
		eq(err(wr, fd, rec('a', 5000000)), 'EINVAL')
		eq(sent(), '0 0 0')
		wr(fd, rec('a', 2))
		eq(sent(), '0 1 0')
	PY
}

@test "refusals by rule 3 are judged anew each time" {
	owned
	create "$DIR/m/nodes/a" "$(lease a 99999999999999)"
	py "$DIR/m/nodes/a" <<-'PY'
		fd = rdwr()
		rd(fd)
		calls()
		for _ in range(2):
		    eq(err(wr, fd, rec('b', 2)), 'EBUSY')
		eq(sent(), '2 0 0')
		arm(etag(a[0]), a[0])
		echo(b'{"node":"a","expires_ms":0,"addr":"h:1"}', a[0])
		calls()
		wr(fd, rec('b', 2))
		eq(sent(), '1 1 0')
	PY
}

@test "refusals by rule 4 are judged anew each time" {
	owned -o node=a,keeper=off
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		eq(err(wr, fd, rec('b', 2)), 'EPERM')
		eq(err(wr, fd, rec('b', 2)), 'EPERM')
		wr(fd, rec('a', 2))
	PY
}

@test "a read at offset 0 after bytes were read fetches afresh, bytes and guard together" {
	owned
	py <<-'PY'
		fd, other = rdwr(), rdwr()
		rd(fd)
		old = etag(fd)
		rd(other)
		wr(other, rec('a', 2))
		eq(etag(fd), old)
		calls()
		eq(rd(fd), rec('a', 2))
		eq(sent(), '1 0 0')
		eq(etag(fd), etag(other))
		wr(fd, rec('a', 3))
		eq(wire(), ['If-Match: ' + etag(other)])
	PY
}

@test "a record that is read in small blocks across a change is one version" {
	owned
	py <<-'PY'
		fd, other = rdwr(), rdwr()
		head = os.read(fd, 5)
		rd(other)
		wr(other, rec('somebody-else', 2))
		calls()
		rest = b''.join(iter(lambda: os.read(fd, 4), b''))
		eq(head + rest, rec('a', 1))
		eq(os.fstat(fd).st_size, len(rec('a', 1)))
		eq(sent(), '0 0 0')
	PY
}

# ---- when it commits ----

@test "commit: in write(2), as soon as the bytes form one complete object" {
	owned
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		calls()
		os.pwrite(fd, b'{"node":"a",', 0)
		eq(sent(), '0 0 0')
		os.pwrite(fd, b'"epoch":2}', 12)
		eq(sent(), '0 1 0')
		other = rdwr()
		eq(rd(other), b'{"node":"a","epoch":2}')
	PY
}

@test "commit: braces and quotes inside strings end nothing" {
	owned
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		record = rb'{"node":"a","s":"}\"}\\","o":{"a":["}"]},"epoch":2}'
		calls()
		for at in range(len(record)):
		    eq(os.pwrite(fd, record[at:at + 1], at), 1)
		eq(sent(), '0 1 0')
		eq(rd(fd), record)
	PY
}

@test "commit: a multi-line printf of bash is one PUT" {
	owned
	arm "$OWN" "$(etag "$OWN")"
	: >"$CALLS"
	bash -c 'printf "{\n  \"node\": \"a\",\n  \"epoch\": 2\n}\n" >"$OWN"'
	[ "$(counted "$CALLS")" = "0 1 0" ]
	printf '{\n  "node": "a",\n  "epoch": 2\n}\n' | cmp - "$OWN"
}

@test "commit: a record of more than 4096 bytes from bash is one PUT" {
	owned
	local size
	for size in 5000 60000; do
		printf '{"node":"a","epoch":%d,"more":"%0*d"}\n' "$size" "$size" 0 \
			>"$DIR/record"
		arm "$OWN" "$(etag "$OWN")"
		: >"$CALLS"
		bash -c 'record=$(cat "$1"); echo "$record" >"$OWN"' - "$DIR/record"
		[ "$(counted "$CALLS")" = "0 1 0" ]
		cmp "$DIR/record" "$OWN"
	done
}

@test "commit: white space in the write that completes the record is stored" {
	owned
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		record = b' \n\t{"node":"a","epoch":2} \r\n\n'
		wr(fd, record)
		eq(rd(rdwr()), record)
	PY
}

@test "commit: white space in a later write is accepted and ignored" {
	owned
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		eq(os.write(fd, b'{"node":"a","epoch":2}'), 22)
		calls()
		eq(os.write(fd, b'\n'), 1)
		eq(os.write(fd, b' \r\n\t'), 4)
		eq(sent(), '0 0 0')
		eq(err(os.fsync, fd), 0)
		eq(rd(fd), b'{"node":"a","epoch":2}')
		eq(err(os.close, fd), 0)
	PY
}

@test "commit: surplus bytes within the write that completes it are EINVAL and nothing is sent" {
	owned
	py <<-'PY'
		for surplus in b'x', b'\n}', b'{', b'\0', rec('a', 3), b'\xef\xbb\xbf':
		    fd = rdwr()
		    rd(fd)
		    calls()
		    eq(err(os.write, fd, rec('a', 2) + surplus), 'EINVAL')
		    eq(sent(), '0 0 0')
		    # also when the record came in two writes
		    os.lseek(fd, 0, os.SEEK_SET)
		    os.write(fd, b'{"node":"a",')
		    eq(err(os.write, fd, b'"epoch":2}' + surplus), 'EINVAL')
		    eq(sent(), '0 0 0')
		    err(os.close, fd)
	PY
	own a 1 | cmp - "$OWN"
}

@test "commit: a later write with anything else starts a new record" {
	owned
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		for epoch in 2, 3:
		    eq(os.write(fd, rec('a', epoch)), len(rec('a', epoch)))
		os.write(fd, b'\n')
		os.write(fd, b'{"node":"a",')
		os.write(fd, b'"epoch":4}')
		eq(len(wire()), 3)
		eq(err(os.write, fd, b'x'), 'EINVAL')
		eq(sent(), '0 0 0')
		eq(rd(rdwr()), b'{"node":"a","epoch":4}')
	PY
}

@test "commit: what cannot begin a record is EINVAL at once" {
	owned
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		calls()
		for text in b'x', b'[', b'"', b'1', b'\xef\xbb\xbf{', b'}', b'\0':
		    eq(err(wr, fd, text), 'EINVAL')
		eq(sent(), '0 0 0')
		# and nothing of it is left over
		wr(fd, rec('a', 2))
	PY
	own a 2 | cmp - "$OWN"
}

@test "offset: the first fragment may start anywhere, the next must continue it" {
	owned
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		calls()
		os.pwrite(fd, b'{"node":"a",', 7000)
		os.pwrite(fd, b'"epoch":2}', 7012)
		eq(sent(), '0 1 0')
		for second in 0, 7011, 7013, 100:
		    os.pwrite(fd, b'{"node":"a",', 7000)
		    eq(err(os.pwrite, fd, b'"epoch":3}', second), 'EINVAL')
		    eq(err(os.ftruncate, fd, 0), 0)
		eq(sent(), '0 0 0')
		eq(rd(fd), b'{"node":"a","epoch":2}')
	PY
}

@test "offset: O_APPEND is EINVAL and no request" {
	owned
	py <<-'PY'
		for path in OWN, OWN.replace('/x/', '/new/'):
		    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
		    eq(err(os.open, path, flags, 0o644), 'EINVAL')
		eq([l for l in calls() if l[0] == 'put_if'], [])
		fd = rdwr()
		rd(fd)
		fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND)
		calls()
		eq(err(os.write, fd, rec('a', 2)), 'EINVAL')
		eq(len(wire()), 0)
	PY
	run ! bash -c 'echo "$1" >>"$OWN"' - "$(own a 2)"
	own a 1 | cmp - "$OWN"
}

# ---- flush ----

@test "flush never commits: a fragment and any number of closes send nothing" {
	owned
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		calls()
		os.write(fd, b'{"node":"a","epoch":2')
		for _ in range(2):
		    err(os.close, os.dup(fd))
		err(os.close, fd)
		eq(sent(), '0 0 0')
	PY
	own a 1 | cmp - "$OWN"
}

@test "flush: one complete record is one PUT, however many flushes" {
	owned
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		calls()
		eq(err(os.close, os.dup(fd)), 0)
		wr(fd, rec('a', 2))
		for _ in range(3):
		    eq(err(os.close, os.dup(fd)), 0)
		    eq(err(os.fsync, fd), 0)
		    eq(err(os.fdatasync, fd), 0)
		eq(err(os.close, fd), 0)
		eq(sent(), '0 1 0')
	PY
}

@test "flush or fsync over an incomplete record is EINVAL and keeps the buffer" {
	owned
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		os.write(fd, b'{"node":"a",')
		eq(err(os.close, os.dup(fd)), 'EINVAL')
		eq(err(os.fsync, fd), 'EINVAL')
		calls()
		os.write(fd, b'"epoch":2}')
		eq(sent(), '0 1 0')
		eq(err(os.fsync, fd), 0)
		eq(err(os.close, fd), 0)
	PY
	[ "$(cat "$OWN")" = '{"node":"a","epoch":2}' ]
}

@test "flush: a forked child's exit flushes its parent's half-written record and harms nothing" {
	owned
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		calls()
		os.write(fd, b'{"node":"a",')
		child = os.fork()
		if child == 0:
		    os._exit(0)
		os.waitpid(child, 0)
		eq(sent(), '0 0 0')
		os.write(fd, b'"epoch":2}')
		eq(sent(), '0 1 0')
	PY
	[ "$(cat "$OWN")" = '{"node":"a","epoch":2}' ]
}

@test "flush: in { cat a; cat b; } >own the first cat complains" {
	owned
	printf '{"node":"a",' >"$DIR/a"
	printf '"epoch":2}\n' >"$DIR/b"
	arm "$OWN" "$(etag "$OWN")"
	run bash -c '{ cat "$1"; echo "a $?" >&2; cat "$2"; echo "b $?" >&2; } >"$OWN"' \
		- "$DIR/a" "$DIR/b"
	[[ $output == *"a 1"* ]]
	[[ $output == *"b 0"* ]]
	own a 2 | cmp - "$OWN"
}

@test "flush over a failed write repeats its errno" {
	owned
	py <<-'PY'
		fd, other = rdwr(), rdwr()
		rd(fd)
		rd(other)
		wr(other, rec('a', 2))
		eq(err(wr, fd, rec('a', 3)), 'EBUSY')
		eq(err(os.close, os.dup(fd)), 'EBUSY')
		eq(err(os.fsync, fd), 'EBUSY')
		eq(err(wr, fd, b'{"node":"a"}'), 'EINVAL')
		eq(err(os.fsync, fd), 'EINVAL')
		rd(fd)
		wr(fd, rec('a', 3))
		eq(err(os.fsync, fd), 0)
		eq(err(os.close, fd), 0)
		unguarded = os.open(OWN, os.O_WRONLY)
		eq(err(wr, unguarded, rec('a', 4)), 'EPERM')
		eq(err(os.close, unguarded), 'EPERM')
	PY
}

@test "flush: otherwise 0" {
	owned
	py <<-'PY'
		for flags in os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_TRUNC:
		    fd = os.open(OWN, flags)
		    eq(err(os.fsync, fd), 0)
		    eq(err(os.close, fd), 0)
		fd = os.open(OWN.replace('/x/', '/new/'), os.O_WRONLY | os.O_CREAT, 0o644)
		eq(err(os.close, fd), 0)
		eq(wire(), [])
	PY
	[ "$(outside keys cells/ | wc -l)" = 1 ]
}

# ---- truncation and times ----

@test "truncate: O_TRUNC sends nothing and takes nothing away" {
	owned
	py <<-'PY'
		for flags in os.O_WRONLY, os.O_RDWR:
		    fd = os.open(OWN, flags | os.O_TRUNC)
		    eq(err(os.close, fd), 0)
		eq(sent(), '0 0 0')
		eq(rd(rdwr()), rec('a', 1))
	PY
}

@test "truncate to 0 drops the buffer" {
	owned
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		calls()
		os.write(fd, b'{"node":"a",')
		eq(err(os.ftruncate, fd, 0), 0)
		eq(err(os.fsync, fd), 0)
		eq(err(os.close, os.dup(fd)), 0)
		eq(sent(), '0 0 0')
		wr(fd, rec('a', 2))
		eq(rd(rdwr()), rec('a', 2))
	PY
}

@test "truncate: by path to 0 is 0 and no request" {
	owned
	py <<-'PY'
		eq(err(os.truncate, OWN, 0), 0)
		eq(sent(), '0 0 0')
	PY
	own a 1 | cmp - "$OWN"
}

@test "ftruncate to the length just written is 0 and no request" {
	owned
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		wr(fd, rec('a', 2))
		calls()
		eq(err(os.ftruncate, fd, len(rec('a', 2))), 0)
		eq(sent(), '0 0 0')
		eq(rd(fd), rec('a', 2))
		arm(etag())
		other = os.open(OWN, os.O_WRONLY | os.O_TRUNC)
		os.write(other, b'{"node":"a",')
		os.write(other, b'"epoch":3}')
		calls()
		eq(err(os.ftruncate, other, 22), 0)
		eq(sent(), '0 0 0')
	PY
}

@test "truncate: other sizes are EINVAL and no request" {
	owned
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		wr(fd, rec('a', 2))
		calls()
		for size in 1, len(rec('a', 2)) - 1, len(rec('a', 2)) + 1, 1 << 30:
		    eq(err(os.ftruncate, fd, size), 'EINVAL')
		    eq(err(os.truncate, OWN, size), 'EINVAL')
		eq(sent(), '0 0 0')
		eq(rd(fd), rec('a', 2))
	PY
}

@test "utimens, chmod and chown to what is are 0 and no request" {
	owned
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		st = os.fstat(fd)
		calls()
		for file in OWN, fd:
		    eq(err(os.utime, file), 0)
		    eq(err(os.utime, file, (1, 2)), 0)
		    eq(err(os.chmod, file, st.st_mode & 0o7777), 0)
		    eq(err(os.chown, file, st.st_uid, st.st_gid), 0)
		    eq(err(os.chown, file, -1, -1), 0)
		eq(sent(), '0 0 0')
	PY
	quiet touch -c "$OWN"
	own a 1 | cmp - "$OWN"
}

@test "guard: a file that is opened anew through /dev/fd does not take the place of the first" {
	owned
	py <<-'PY'
		fd = rdwr()
		first = rd(fd)
		tag = etag(fd)
		wr(rdwr_and_read(), rec('a', 2))
		again = os.open('/proc/self/fd/%d' % fd, os.O_RDONLY)
		eq(os.read(again, 100), rec('a', 2))
		eq(etag('/proc/self/fd/%d' % fd), tag)
		arm('something-else', fd)
		calls()
		# looked up and found to be another one: it is this file's guard
		eq(err(wr, fd, rec('a', 3)), 'EBUSY')
		eq(sent(), '1 0 0')
	PY
}

@test "guard: armed for a record that is gone by now is EBUSY with allow_other, too" {
	owned -o allow_other
	arm "$OWN" "$(etag "$OWN")"
	outside rm cells/x/own.json
	sleep 1.1
	py <<-'PY'
		eq(err(echo, rec('a', 2)), 'EBUSY')
	PY
	[ ! -e "$OWN" ]
}
