#!/usr/bin/env bats
# celldfs.8, RECORDS, "Rules" 1 to 5, and "Alive, dead, unknown".

bats_require_minimum_version 1.5.0
load helper
load watched

# take_over ERRNO COST: node b claims the cell from a, whose lease is
# nodes/a.json. It ends so and sends so many gets, puts and lists.
take_over() {
	py "$1" "$2" <<-'PY'
		fd = rdwr()
		rd(fd)
		calls()
		eq(str(err(wr, fd, rec('b', 2))), a[0])
		eq(sent(), a[1])
		eq(rd(rdwr()), rec('a', 1) if a[0] != '0' else rec('b', 2))
	PY
}

# An hour ago, and in an hour, by the store's clock.
ago() { echo $(($(now_ms) - 3600000)); }
ahead() { echo $(($(now_ms) + 3600000)); }

# ---- rule 1: a record ----

@test "rule 1: what is not exactly one record is EINVAL and nothing is sent" {
	owned
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		calls()
		nested = b'{"node":"a","epoch":2,"n":%s%s}'
		for bad in (
		        b'\xef\xbb\xbf{"node":"a","epoch":2}',
		        b'[{"node":"a","epoch":2}]',
		        b'"a"', b'2', b'null', b'{}', b'{} ',
		        b'{"node":"a"}', b'{"epoch":2}',
		        b'{"node":"a","epoch":2',
		        b'{"node":"a","epoch":2,}',
		        b'{"node":"a" "epoch":2}',
		        b'{"node":"a","epoch" 2}',
		        b"{'node':'a','epoch':2}",
		        b'{node:"a",epoch:2}',
		        b'{"node":"a","epoch":2/**/}',
		        b'{"node":"a","epoch":2,"n":NaN}',
		        b'{"node":"a","epoch":2,"n":Infinity}',
		        b'{"node":"a","epoch":2,"n":01}',
		        b'{"node":"a","epoch":2,"n":.5}',
		        b'{"node":"a","epoch":2,"n":tru}',
		        b'{"node":"a","epoch":2}{"node":"a","epoch":3}',
		        b'{"node":"a","epoch":2}]',
		        b'{"node":"a","epoch":2}\0',
		        # no duplicate known key, exact case
		        b'{"node":"b","node":"a","epoch":2}',
		        b'{"node":"a","epoch":3,"epoch":2}',
		        b'{"node":"a","epoch":2,"\\u006eode":"b"}',
		        b'{"Node":"a","epoch":2}',
		        b'{"node":"a","EPOCH":2}',
		        b'{"node":"a","epoch":2,"Epoch":3}',
		        b'{"node":"a","epoch":2,"NODE":"b"}',
		        # numbers as exact unsigned 64-bit
		        b'{"node":"a","epoch":007}', b'{"node":"a","epoch":02}',
		        b'{"node":"a","epoch":2.0}', b'{"node":"a","epoch":3.0}',
		        b'{"node":"a","epoch":"4"}', b'{"node":"a","epoch":1e3}',
		        b'{"node":"a","epoch":2E0}', b'{"node":"a","epoch":-2}',
		        b'{"node":"a","epoch":-0}', b'{"node":"a","epoch":+2}',
		        b'{"node":"a","epoch":0x2}', b'{"node":"a","epoch":null}',
		        b'{"node":"a","epoch":true}', b'{"node":"a","epoch":[2]}',
		        b'{"node":"a","epoch":18446744073709551616}',
		        b'{"node":"a","epoch":18446744073709551618}',
		        b'{"node":"a","epoch":2%s}' % (b'0' * 400),
		        # names
		        b'{"node":1,"epoch":2}', b'{"node":null,"epoch":2}',
		        b'{"node":"a b","epoch":2}', b'{"node":"..","epoch":2}',
		        b'{"node":"a/b","epoch":2}', b'{"node":"%s","epoch":2}' % (b'n' * 129),
		        # no NUL in strings, UTF-8
		        b'{"node":"a\\u0000b","epoch":2}',
		        b'{"node":"a","epoch":2,"s":"\\u0000"}',
		        b'{"node":"a","epoch":2,"s":"\0"}',
		        b'{"node":"a","epoch":2,"\\u0000":1}',
		        b'{"node":"a","epoch":2,"s":"a\tb"}',
		        b'{"node":"a","epoch":2,"s":"\\x"}',
		        b'{"node":"a","epoch":2,"s":"\\ud800"}',
		        b'{"node":"a","epoch":2,"s":"\xff"}',
		        b'{"node":"a","epoch":2,"s":"\xc0\xaf"}',
		        b'{"node":"a","epoch":2,"s":"\xed\xa0\x80"}',
		        b'{"node":"a","epoch":2,"s":"\xf4\x90\x80\x80"}',
		        b'{"node":"a","epoch":2,"s":"\xc3"}',
		        # nesting at most 32
		        nested % (b'[' * 32, b']' * 32),
		        nested % (b'{"n":' * 32 + b'1', b'}' * 32),
		        nested % (b'[' * 30000, b']' * 30000)):
		    found = err(os.pwrite, fd, bad, 0) or err(os.fsync, fd)
		    eq((bad[:60], found), (bad[:60], 'EINVAL'))
		    os.ftruncate(fd, 0)
		eq(sent(), '0 0 0')
		wr(fd, rec('a', 2))
	PY
	own a 2 | cmp - "$OWN"
}

@test "rule 1: what is one record is stored, the writer's bytes verbatim, unknown fields kept" {
	owned
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		epoch = 1
		for good in (
		        b'{"node":"a","epoch":%d}',
		        b' \r\n\t{ "epoch" : %d\n, "node" : "\\u0061" } \n\n',
		        b'{"x":1,"node":"a","epoch":%d,"x":2,"y":{"node":1,"Node":2}}',
		        b'{"node":"a","epoch":%d,"n":[1e999,-0.0,1E+2,12345678901234567890123]}',
		        b'{"node":"a","epoch":%d,"s":"\xc3\xa9\xf0\x9f\x90\x99\\ud83d\\udc19\\/\\""}',
		        b'{"node":"a","epoch":%d,"s":"\\u0001\x7f"}',
		        b'{"node":"a","epoch":%d,"n":' + b'[' * 31 + b']' * 31 + b'}',
		        b'{"node":"a","epoch":%d,"a":null,"b":true,"c":[],"d":{}}'):
		    epoch += 1
		    record = good % epoch
		    wr(fd, record)
		    other = rdwr()
		    eq(rd(other), record)
		    eq(os.getxattr(other, 'user.celld.epoch'), b'%d' % epoch)
		    eq(os.getxattr(other, 'user.celld.node'), b'a')
		    os.close(other)
	PY
}

@test "rule 1: 2^53 + 1 and 2^64 - 1 are kept exact" {
	start
	py <<-'PY'
		echo(rec('a', 2 ** 53 + 1))
		eq(os.getxattr(OWN, 'user.celld.epoch'), b'9007199254740993')
		fd = rdwr()
		eq(rd(fd), rec('a', 2 ** 53 + 1))
		# a double would take the first of these for the same or for less
		eq(err(wr, fd, rec('a', 2 ** 53 + 1)), 'EBUSY')
		eq(err(wr, fd, rec('a', 2 ** 53)), 'EBUSY')
		wr(fd, rec('a', 2 ** 53 + 2))
		wr(fd, rec('a', 2 ** 53 + 3))
		last = OWN.replace('/x/', '/last/')
		echo(rec('a', 2 ** 64 - 2), last)
		arm(etag(last), last)
		echo(rec('a', 2 ** 64 - 1), last)
		eq(os.getxattr(last, 'user.celld.epoch'), b'18446744073709551615')
		arm(etag(last), last)
		eq(err(echo, rec('a', 0), last), 'EBUSY')
	PY
}

@test "rule 1: over 64 KiB is EFBIG, in one write or in many" {
	owned
	py <<-'PY'
		def sized(epoch, size):
		    head = b'{"node":"a","epoch":%d,"n":"' % epoch
		    return head + b'x' * (size - len(head) - 2) + b'"}'
		fd = rdwr()
		rd(fd)
		calls()
		eq(err(wr, fd, sized(2, 65537)), 'EFBIG')
		big = sized(2, 65537)
		os.pwrite(fd, big[:40000], 0)
		eq(err(os.pwrite, fd, big[40000:], 40000), 'EFBIG')
		eq(err(os.pwrite, fd, sized(2, 65536) + b'\n', 0), 'EFBIG')
		eq(sent(), '0 0 0')
		wr(fd, sized(2, 65536))
		eq(rd(rdwr()), sized(2, 65536))
	PY
}

@test "rule 1: reading over 1 MiB is EFBIG, and the daemon lives" {
	owned
	head -c 1048577 /dev/zero | outside put cells/big/own.json
	head -c 1048576 /dev/zero | outside put cells/fits/own.json
	py <<-'PY'
		def read(cell):
		    with open(OWN.replace('/x/', '/%s/' % cell), 'rb') as f:
		        return len(f.read())
		eq(err(read, 'big'), 'EFBIG')
		eq(read('fits'), 1048576)
		eq(read('x'), len(rec('a', 1)))
	PY
}

@test "rule 1: a lease is one, too" {
	start
	py "$DIR/m/nodes/n" <<-'PY'
		for bad in (
		        b'{"node":"n"}', b'{"expires_ms":5}',
		        b'{"node":"n","expires_ms":"5"}',
		        b'{"node":"n","expires_ms":5.0}',
		        b'{"node":"n","expires_ms":05}',
		        b'{"node":"n","expires_ms":-5}',
		        b'{"node":"n","expires_ms":1e3}',
		        b'{"node":"n","expires_ms":18446744073709551616}',
		        b'{"node":"n","expires_ms":5,"expires_ms":6}',
		        b'{"node":"n","Expires_ms":5}',
		        b'{"node":"n","expires_ms":5,"ADDR":"h:1"}',
		        b'{"node":"n","expires_ms":5,"addr":7}',
		        b'{"node":"n\\u0000","expires_ms":5}'):
		    eq((bad, err(echo, bad, a[0])), (bad, 'EINVAL'))
		eq(wire(), [])
		echo(b'{"node":"n","expires_ms":18446744073709551615,"addr":"h:1"}', a[0])
	PY
}

@test "rule 1: a stored record that is malformed is read as it is, and malformed for every decision" {
	owned
	put cells/x/own.json '{"node":"a","epoch":"7"}'
	py <<-'PY'
		fd = rdwr()
		eq(rd(fd), b'{"node":"a","epoch":"7"}')
		eq(err(os.getxattr, fd, 'user.celld.epoch'), 'ENODATA')
		calls()
		for epoch in 2, 7, 8:
		    eq(err(wr, fd, rec('a', epoch)), 'EBUSY')
		    eq(err(wr, fd, rec('', epoch)), 'EBUSY')
		eq(sent(), '0 0 0')
	PY
}

# ---- rule 2: the epoch ----

@test "rule 2: a first record names a node and has an epoch of at least 1" {
	start
	py <<-'PY'
		for node, epoch in ('', 1), ('', 0), ('a', 0):
		    eq(err(echo, rec(node, epoch)), 'EINVAL')
		eq(wire(), [])
		echo(rec('a', 1))
		echo(rec('a', 77), OWN.replace('/x/', '/y/'))
	PY
}

@test "rule 2: an epoch that does not advance is EBUSY without a PUT" {
	start
	create "$OWN" "$(own a 5)"
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		calls()
		for node, epoch in ('a', 4), ('a', 5), ('b', 5), ('a', 1), ('a', 0), ('', 4):
		    eq((node, epoch, err(wr, fd, rec(node, epoch))), (node, epoch, 'EBUSY'))
		eq(sent(), '0 0 0')
		eq(rd(rdwr()), rec('a', 5))
	PY
}

@test "rule 2: a claim's epoch is greater by at most 1,000,000" {
	owned
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		calls()
		eq(err(wr, fd, rec('a', 1000002)), 'EINVAL')
		eq(err(wr, fd, rec('a', 2 ** 64 - 1)), 'EINVAL')
		eq(sent(), '0 0 0')
		wr(fd, rec('a', 1000001))
		wr(fd, rec('a', 1000002))
	PY
}

@test "rule 2: a release keeps exactly the epoch of a record that names a node" {
	start
	create "$OWN" "$(own a 5)"
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		calls()
		eq(err(wr, fd, rec('', 6)), 'EINVAL')
		eq(err(wr, fd, rec('', 4)), 'EBUSY')
		eq(sent(), '0 0 0')
		wr(fd, rec('', 5))
		eq(sent(), '0 1 0')
		eq(err(wr, fd, rec('', 5)), 'EINVAL')
		eq(err(wr, fd, rec('', 6)), 'EINVAL')
		# after a release at 5 the next is 6
		eq(err(wr, fd, rec('a', 5)), 'EBUSY')
		eq(sent(), '0 0 0')
		wr(fd, rec('b', 6))
	PY
}

@test "rule 2: it is judged against the record that the guard names, not against the latest" {
	owned
	py <<-'PY'
		fd, other = rdwr(), rdwr()
		rd(fd)
		rd(other)
		wr(other, rec('a', 9))
		calls()
		# 2 does not advance 9, but it advances what this file read
		eq(err(wr, fd, rec('a', 2)), 'EBUSY')
		eq(len(wire()), 1)
	PY
}

@test "rule 2: an ETag that the mount does not know costs one read; a different one is EBUSY without a PUT" {
	owned
	cat "$OWN"
	mount_at other
	tag=$(swap "$DIR/other/cells/x/own" "$(own a 2)" &&
		etag "$DIR/other/cells/x/own")
	py "$tag" <<-'PY'
		arm('unknown-to-all')
		calls()
		eq(err(echo, rec('a', 3)), 'EBUSY')
		eq(sent(), '1 0 0')
		arm(a[0])
		echo(rec('a', 3))
		eq(wire(), ['If-Match: ' + a[0]])
	PY
	# an ETag by path may be a second old: read first
	cat "$DIR/other/cells/x/own"
	tag=$(swap "$DIR/other/cells/x/own" "$(own a 4)" &&
		etag "$DIR/other/cells/x/own")
	py "$tag" <<-'PY'
		arm(a[0])
		calls()
		eq(err(echo, rec('a', 4)), 'EBUSY')
		eq(sent(), '1 0 0')
		arm(a[0])
		calls()
		echo(rec('a', 5))
		eq(sent(), '0 1 0')
	PY
}

# ---- rule 3: a living owner ----

@test "rule 3: the owner's lease is alive: EBUSY" {
	owned
	create "$DIR/m/nodes/a" "$(lease a "$(ahead)")"
	take_over EBUSY "1 0 0"
}

@test "rule 3: the owner's lease is alive and its addr is empty: EBUSY" {
	owned
	create "$DIR/m/nodes/a" "$(lease a "$(ahead)" '')"
	take_over EBUSY "1 0 0"
}

@test "rule 3: the owner has no lease: taken, for one more GET" {
	owned
	take_over 0 "1 1 0"
}

@test "rule 3: the owner's lease has expired: taken" {
	owned
	create "$DIR/m/nodes/a" "$(lease a "$(ago)")"
	take_over 0 "1 1 0"
}

@test "rule 3: the owner's lease has expired, within the skew margin: EBUSY" {
	owned -o skew-ms=3600000
	create "$DIR/m/nodes/a" "$(lease a $(($(now_ms) - 600000)))"
	take_over EBUSY "1 0 0"
}

@test "rule 3: the owner's lease has expired, beyond a great skew margin: taken" {
	owned -o skew-ms=1800000
	create "$DIR/m/nodes/a" "$(lease a "$(ago)")"
	take_over 0 "1 1 0"
}

@test "rule 3: a tombstone is dead at once, without the skew margin: taken" {
	owned -o skew-ms=3600000
	create "$DIR/m/nodes/a" "$(lease a 0)"
	take_over 0 "1 1 0"
}

@test "rule 3: a lease that ends in ten years is honoured: EBUSY" {
	owned
	create "$DIR/m/nodes/a" "$(lease a $(($(now_ms) + 330000000000)))"
	take_over EBUSY "1 0 0"
}

@test "rule 3: an expired lease with a log that is not known to be sealed: EBUSY" {
	owned
	local log expires
	expires=$(ago)
	for log in '{"state":"open","epoch":1,"ensemble":[],"tiered":0}' \
		'{"state":"recovering","epoch":1,"ensemble":[],"tiered":0}' \
		'{"state":"other","epoch":1,"ensemble":[],"tiered":0}' \
		'{"state":"sealed"}' '{}' '{"state":"open"}'; do
		put nodes/a.json "{\"node\":\"a\",\"expires_ms\":$expires,\"addr\":\"h:1\",\"log\":$log}"
		echo "$log"
		take_over EBUSY "1 0 0"
	done
	put nodes/a.json '{"node":"a","expires_ms":0,"log":{"state":"open","epoch":1,"ensemble":[],"tiered":0}}'
	take_over EBUSY "1 0 0"
}

@test "rule 3: an expired lease whose log is sealed: taken" {
	owned
	put nodes/a.json "{\"node\":\"a\",\"expires_ms\":$(ago),\"log\":{\"state\":\"sealed\",\"epoch\":1,\"ensemble\":[],\"tiered\":0}}"
	take_over 0 "1 1 0"
}

@test "rule 3: an expired lease whose log is null: taken" {
	owned
	put nodes/a.json "{\"node\":\"a\",\"expires_ms\":$(ago),\"log\":null}"
	take_over 0 "1 1 0"
}

@test "rule 3: a lease that is malformed or another node's: EBUSY" {
	owned
	local record
	for record in '{"node":"b","expires_ms":0}' '{"node":"A","expires_ms":0}' \
		'{"node":"a"}' '{"node":"a","expires_ms":"0"}' \
		'{"node":"a","expires_ms":null}' '{"node":"a","expires_ms":0.0}' \
		'{"node":"a","expires_ms":-1}' '{"expires_ms":0}' \
		'{"node":"a","expires_ms":0' '[]' 'expired' '' \
		'{"node":"a","expires_ms":0,"expires_ms":0}' \
		'{"node":"a","expires_ms":0,"load":{}}' \
		'{"node":"a","expires_ms":0,"log":"sealed"}'; do
		put nodes/a.json "$record"
		echo "$record"
		take_over EBUSY "1 0 0"
	done
}

@test "rule 3: a lease that cannot be read gives the read's errno: denied, EACCES" {
	owned
	rules m 'get nodes/* fail denied'
	take_over EACCES "1 0 0"
}

@test "rule 3: a lease that cannot be read gives the read's errno: failed, EIO" {
	owned
	rules m 'get nodes/* fail failed'
	take_over EIO "1 0 0"
}

@test "rule 3: a lease that cannot be read gives the read's errno: no answer, ETIMEDOUT" {
	owned -o deadline-ms=1500
	rules m 'get nodes/* hang'
	take_over ETIMEDOUT "1 0 0"
	rules m
}

@test "rule 3: a captive portal's page in place of the lease: EBUSY" {
	owned
	create "$DIR/m/nodes/a" "$(lease a 0)"
	rules m 'get nodes/* html'
	take_over EBUSY "1 0 0"
	rules m
	take_over 0 "1 1 0"
}

@test "rule 3: the store's clock cannot be read: not taken" {
	owned
	create "$DIR/m/nodes/a" "$(lease a "$(ago)")"
	rules m 'now * fail failed'
	take_over EIO "1 0 0"
}

@test "rule 3: the owner itself, a release and a released cell need no lease" {
	owned
	create "$DIR/m/nodes/a" "$(lease a "$(ahead)")"
	rules m 'get nodes/* fail failed'
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		calls()
		wr(fd, rec('a', 2))
		wr(fd, rec('', 2))
		wr(fd, rec('b', 3))
		eq(sent(), '0 3 0')
	PY
}

@test "rule 3: the record that is guarded was read before the lease was judged" {
	owned
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		calls()
		wr(fd, rec('b', 2))
		eq([l[:2] for l in calls() if l[0] != 'now'],
		   [['get', 'nodes/a.json'], ['put_if', 'cells/x/own.json']])
	PY
}

@test "rule 3: takeover=any: no lease is read, and it is said loudly" {
	owned -o takeover=any
	create "$DIR/m/nodes/a" "$(lease a "$(ahead)")"
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		calls()
		# the epoch still counts
		eq(err(wr, fd, rec('b', 1)), 'EBUSY')
		wr(fd, rec('b', 2))
		eq(sent(), '0 1 0')
	PY
	grep -F cells/x/own.json "$DIR/m.log" | grep -F takeover
}

# ---- rule 4: identity ----

@test "rule 4: a mount with a node's name writes only that name or none" {
	owned -o node=a,keeper=off
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		calls()
		for node in 'b', 'A', 'aa':
		    eq(err(wr, fd, rec(node, 2)), 'EPERM')
		eq(err(echo, rec('b', 1), OWN.replace('/x/', '/new/')), 'EPERM')
		eq(wire(), [])
		wr(fd, rec('a', 2))
		wr(fd, rec('', 2))
		wr(fd, rec('a', 3))
	PY
}

@test "rule 4: a mount with a node's name releases only what it owns" {
	mount_at plain
	create "$DIR/plain/cells/x/own" "$(own b 1)"
	start -o node=a,keeper=off
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		calls()
		eq(err(wr, fd, rec('', 1)), 'EPERM')
		eq(sent(), '0 0 0')
		# but takes what a dead one has left
		wr(fd, rec('a', 2))
	PY
}

@test "rule 4: a mount with a node's name writes no other node's lease" {
	start -o node=a,keeper=off
	py "$DIR/m/nodes/" <<-'PY'
		eq(err(echo, b'{"node":"b","expires_ms":0,"addr":"h:1"}', a[0] + 'b'), 'EPERM')
		eq(err(echo, b'{"node":"a","expires_ms":0,"addr":"h:1"}', a[0] + 'b'), 'EPERM')
		eq(wire(), [])
		echo(b'{"node":"a","expires_ms":0,"addr":"h:1"}', a[0] + 'a')
	PY
}

@test "rule 4: a mount without a name trusts the writer to be who the record says" {
	start
	create "$OWN" "$(own somebody 1)"
	swap "$OWN" "$(own '' 1)"
	swap "$OWN" "$(own somebody-else 2)"
	create "$DIR/m/nodes/somebody" "$(lease somebody 0)"
	own somebody-else 2 | cmp - "$OWN"
}

@test "rule 4: rules 2 and 3 hold for a mount with a node's name" {
	mount_at plain
	create "$DIR/plain/cells/x/own" "$(own b 5)"
	create "$DIR/plain/nodes/b" "$(lease b "$(ahead)")"
	start -o node=a,keeper=off
	py <<-'PY'
		fd = rdwr()
		rd(fd)
		eq(err(wr, fd, rec('a', 5)), 'EBUSY')
		eq(err(wr, fd, rec('a', 6)), 'EBUSY')
		eq(err(wr, fd, rec('a', 5000000)), 'EINVAL')
		eq(wire(), [])
	PY
}

# ---- rule 5: nodes/X ----

@test "rule 5: in nodes/X the node is X" {
	start
	py "$DIR/m/nodes/x" <<-'PY'
		for node in b'y', b'X', b'':
		    record = b'{"node":"%s","expires_ms":0,"addr":"h:1"}' % node
		    eq(err(echo, record, a[0]), 'EINVAL')
		eq(wire(), [])
		echo(b'{"node":"x","expires_ms":0,"addr":"h:1"}', a[0])
	PY
}

@test "rule 5: a load is absent or whole" {
	start
	py "$DIR/m/nodes/" <<-'PY'
		import json
		whole = dict.fromkeys(('sampled_ms', 'resident_cells', 'host_websockets',
		                       'rss_bytes', 'cpu_percent_x100', 'open_fds',
		                       'fd_limit', 'shed_cells'), 7)
		whole['pressured'] = False
		def lease(node, load):
		    return json.dumps({'node': node, 'expires_ms': 0, 'addr': 'h:1',
		                       'load': load}).encode()
		for missing in whole:
		    half = {k: v for k, v in whole.items() if k != missing}
		    eq((missing, err(echo, lease('x', half), a[0] + 'x')), (missing, 'EINVAL'))
		for bad in ({}, [], 7, 'x', dict(whole, pressured=0), dict(whole, open_fds='7'),
		            dict(whole, rss_bytes=-1), dict(whole, rss_bytes=1.5)):
		    eq((bad, err(echo, lease('x', bad), a[0] + 'x')), (bad, 'EINVAL'))
		eq(wire(), [])
		echo(lease('x', whole), a[0] + 'x')
		echo(lease('y', dict(whole, in_use_bytes=None, restoring=1, more='x')), a[0] + 'y')
		echo(b'{"node":"z","expires_ms":0,"addr":"h:1"}', a[0] + 'z')
	PY
}

@test "rule 5: an empty addr is accepted and warned about" {
	start
	create "$DIR/m/nodes/whole" "$(lease whole 0)"
	run ! grep -F nodes/whole.json "$DIR/m.log"
	create "$DIR/m/nodes/empty" "$(lease empty 0 '')"
	create "$DIR/m/nodes/none" '{"node":"none","expires_ms":0}'
	grep -F nodes/empty.json "$DIR/m.log"
	grep -F nodes/none.json "$DIR/m.log"
}

# ---- what the user is told ----

@test "outcome: the last outcome on a record is user.celld.outcome, in words" {
	owned
	first=$(outcome "$OWN")
	[ -n "$first" ]
	run ! bash -c 'echo "$1" >"$OWN"' - "$(own a 2)"
	second=$(outcome "$OWN")
	[ -n "$second" ]
	[ "$second" != "$first" ]
	# every refusal has words of its own
	arm "$OWN" "$(etag "$OWN")"
	run ! bash -c 'echo "$1" >"$OWN"' - "$(own a 1)"
	third=$(outcome "$OWN")
	[ -n "$third" ]
	[ "$third" != "$second" ]
	run ! bash -c 'echo x >"$OWN"'
	[ -n "$(outcome "$OWN")" ]
	[ "$(outcome "$OWN")" != "$third" ]
}

@test "outcome: it names the guard, the new ETag and the living owner" {
	start
	create "$OWN" "$(own node-seven 4711)"
	create "$DIR/m/nodes/node-seven" "$(lease node-seven "$(ahead)")"
	[[ $(outcome "$OWN") == *$(etag "$OWN")* ]]
	tag=$(etag "$OWN")
	arm "$OWN" "$tag"
	run ! bash -c 'echo "$1" >"$OWN"' - "$(own b 4712)"
	[[ $(outcome "$OWN") == *"$tag"*node-seven*4711* ]]
}

@test "why: it names the living owner and its epoch, and agrees with a claim" {
	start
	create "$OWN" "$(own node-seven 4711)"
	create "$DIR/m/nodes/node-seven" "$(lease node-seven "$(ahead)")"
	why=$(getfattr -n user.celld.why --only-values "$OWN")
	[[ $why == *node-seven* ]]
	[[ $why == *4711* ]]
	swap "$DIR/m/nodes/node-seven" "$(lease node-seven 0)"
	after=$(getfattr -n user.celld.why --only-values "$OWN")
	[[ $after == *node-seven* ]]
	[[ $after == *4711* ]]
	[ "$after" != "$why" ]
}

@test "why: it exists for a released, a malformed and an unreadable state, too" {
	start
	create "$OWN" "$(own a 1)"
	create "$DIR/m/cells/released/own" "$(own a 1)"
	swap "$DIR/m/cells/released/own" "$(own '' 1)"
	put cells/malformed/own.json nonsense
	rules m 'get nodes/* fail failed'
	for cell in x released malformed; do
		[ -n "$(getfattr -n user.celld.why --only-values \
			"$DIR/m/cells/$cell/own")" ]
	done
}

@test "why: it is read on demand, never by a plain listing" {
	owned
	create "$DIR/m/nodes/a" "$(lease a "$(ahead)")"
	: >"$CALLS"
	listed=$(getfattr -d -m - "$OWN")
	ls -l "$DIR/m/cells/x"
	[[ $listed == *user.celld.etag=* ]]
	[[ $listed != *why* ]]
	[[ $listed != *outcome* ]]
	run ! grep 'nodes/' "$CALLS"
	getfattr -n user.celld.why "$OWN"
	grep 'get nodes/a.json' "$CALLS"
}

@test "a lease whose answer comes late is judged by the time at which it was read" {
	mount_at m1
	spy_at m2 -o node=b,keeper=off,skew-ms=0
	create "$DIR/m1/cells/x/own" "$(own a 1)"
	put nodes/a.json "$(lease a $(($(now_ms) + 1500)))"
	rules m2 'get nodes/a.json late 3000'
	run swap "$DIR/m2/cells/x/own" "$(own b 2)"
	[ "$status" -ne 0 ]
	[[ $(outcome "$DIR/m2/cells/x/own") == rejected* ]]
	# with a fresh answer it is over
	rules m2
	swap "$DIR/m2/cells/x/own" "$(own b 2)"
}
