#!/usr/bin/env bats
# lease: how a node gets its lease, what it says there, and how it gives it up.
# How a lease is lost is in fence.bats.

bats_require_minimum_version 1.5.0
load helper
load fleet

# ---- who may take a node's cells, and when ----

@test "a node that crashed: its cells are refused while its lease lives and can be taken soon after, its epoch never comes back" {
	node a
	node b
	create "$DIR/a/cells/x/own" "$(own a 1)"
	etag=$(etag "$DIR/a/cells/x/own")
	fleet "$(pid_of a)" <<-'PY'
		eq(claim('b', 'x', 2), 'EBUSY')
		os.kill(int(a[0]), signal.SIGKILL)
		eq(claim('b', 'x', 2), 'EBUSY')
		ok(re.match('busy: owned by a at epoch 1; .* alive', why('b', 'x')), why('b', 'x'))
		words = []
		take('b', 'x', 2, meanwhile=lambda: words.append(why('b', 'x').split(':')[0]))
		in_time(lease('a')['expires_ms'])
		eq(words, sorted(words)) # busy, then unknown, within the skew
		ok({'busy'} <= set(words) <= {'busy', 'unknown'}, words)
	PY
	wait_gone "$(pid_of a)"
	node_at a2 a
	export etag
	fleet <<-'PY'
		for epoch in 1, 2, 3: # old ones, and one whose owner is alive
		    eq(claim('a2', 'x', epoch, 'a'), 'EBUSY')
		os.setxattr(own('a2', 'x'), 'user.celld.if-match', os.environ['etag'].encode())
		eq(closing(os.open(own('a2', 'x'), os.O_WRONLY), rec('a', 2)), 'EBUSY')
		eq(raw('cells/x/own.json'), rec('b', 2))
	PY
}

@test "after a tombstone a peer takes the cells at once" {
	a_store
	own a 5 | outside put cells/x/own.json
	node a
	node b
	fleet "$(pid_of a)" <<-'PY'
		eq(claim('b', 'x', 6), 'EBUSY')
		os.kill(int(a[0]), signal.SIGTERM)
		until(lambda: lease('a')['expires_ms'] == 0)
		eq(claim('b', 'x', 6), 0)
	PY
	ended a 0
}

# ---- one name, several daemons ----

@test "two daemons of one name at once: one serves, the other says who holds the lease and exits 1" {
	local winner=m1 loser=m2 tries

	begin m1 a -o addr=10.0.0.1:1
	begin m2 a -o addr=10.0.0.2:1
	for ((tries = 0; tries < 500; tries++)); do
		kill -0 "$(pid_of m2)" 2>/dev/null || break
		kill -0 "$(pid_of m1)" 2>/dev/null || { winner=m2 loser=m1 && break; }
		sleep 0.02
	done
	ended "$loser" 1
	run ! mountpoint -q "$DIR/$loser"
	serves "$winner"
	fleet "$winner" "$loser" <<-'PY'
		winner, loser = a
		said = log(loser).splitlines()[-1]
		holder = lease('a')
		eq(holder['addr'], {'m1': '10.0.0.1:1', 'm2': '10.0.0.2:1'}[winner])
		ok(holder['addr'] in said, said)
		ok(holder['ownership_index_generation'] in said, said)
		expires = int(re.search(r'\b\d{13}\b', said).group())
		ok(abs(holder['expires_ms'] - expires) < 20000, said)
		eq(status(winner)['generation'], holder['ownership_index_generation'])
		# the one that serves was not disturbed
		fresh(winner)
		eq(status(winner)['lease'], 'held')
		eq(status(winner)['renewal_errors'], '0')
		eq(fences(winner), [])
		eq(create(winner, 'x', 'a'), 0)
	PY
}

@test "a daemon that crashed and is started again at once waits for its own lease, says so, and serves soon" {
	local start

	# long enough that it still lives when the next one looks
	TTL=5000
	timed || TTL=15000
	node a -o addr=10.0.0.7:7
	create "$DIR/a/cells/x/own" "$(own a 1)"
	start=$(now_ms)
	crash a
	begin a2 a
	# it says so when it begins to wait
	says "$DIR/a2.log" 'waiting.*addr 10.0.0.7:7'
	run ! mountpoint -q "$DIR/a2"
	expires=$(outside get nodes/a.json | grep -o '"expires_ms":[0-9]*')
	expires=${expires#*:}
	serves a2
	fleet "$start" "$expires" <<-'PY'
		start, expires = map(int, a)
		took = int(wall() - start)
		# a bucket tells whole seconds: the first lease is up to one longer
		within(took, 5000 + 2000 + 1000 * S3)
		ok(wall() >= expires + SKEW - 20)
		# a restarted process never trusts an old epoch, but may claim anew
		eq(claim('a2', 'x', 1, 'a'), 'EBUSY')
		eq(claim('a2', 'x', 2, 'a'), 0)
	PY
}

# as_a_service MOUNT COMMAND...: as systemd runs the unit that the manual shows, a
# few times at most.
as_a_service() {
	local settings

	mapfile -t settings < <(env | grep -E '^(AWS_|no_proxy=|[A-Z]+_OPTIONS=)')
	mkdir "$DIR/$1"
	env -i PATH="$PATH" POINT="$DIR/$1" "${settings[@]}" setsid sh -c '
		cd / && umask 022
		for start in 1 2 3; do
			"$@" && break
			fusermount3 -u "$POINT"
			sleep 0.1
		done' sh "${@:2}" </dev/null >/dev/null 2>"$DIR/$1.log" 3>&- &
	MOUNTS+=("$1:$!")
}

@test "a service that is killed is there again within its ttl and 2 s" {
	local first start

	# at the usual ttl, renewals tell a node the time of a bucket, which comes
	# in whole seconds
	[ "$KIND" = sqlite ] || TTL=10000
	as_a_service a "$BUILD/celldfs" "$STORE" "$DIR/a" -f \
		-o "node=a,ttl-ms=$TTL"
	says "$DIR/a/.celldfs/status" '^lease held'
	create "$DIR/a/cells/x/own" "$(own a 1)"
	[ "$KIND" = sqlite ] || says "$DIR/a/.celldfs/status" '^renewals 3'
	first=$(status_of a pid)
	start=$(now_ms)
	kill -KILL "$first"
	says "$DIR/a/.celldfs/status" '^lease held'
	within $((TTL + 2000)) "$start"
	[ "$(status_of a pid)" != "$first" ]
	is "$(fleet <<<"print(claim('a', 'x', 2))")" 0
}

@test "replace: takes over at once; the old run's cells are refused until its lease would have run out, and it fences itself" {
	node a -o addr=10.0.0.7:7
	create "$DIR/a/cells/x/own" "$(own a 1)"
	create "$DIR/a/cells/free/own" "$(own a 1)"
	swap "$DIR/a/cells/free/own" "$(own '' 1)"
	outside get nodes/a.json >"$DIR/old"
	start=$(now_ms)
	begin a2 a -o replace
	serves a2
	fleet "$start" <<-'PY'
		within(wall() - int(a[0]), 2500)
		new = lease('a')['ownership_index_generation']
		old = json.loads(read(DIR + '/old'))
		ok(new != old['ownership_index_generation'])
		ok('waiting' not in log('a2'))
		# what the old run held; what nobody holds
		eq(claim('a2', 'x', 2, 'a'), 'EBUSY')
		ok('replace' in outcome('a2', 'x'), outcome('a2', 'x'))
		eq(claim('a2', 'free', 2, 'a'), 0)
		eq(claim('a2', 'free', 3, 'a'), 0)
		eq(create('a2', 'new', 'a'), 0)
		# the old one hears of it at its next renewal
		until(lambda: fences('a'), 5)
		ok('SELF-FENCE: replaced' in fences('a')[0], fences('a'))
		eq(status('a')['fence'], 'replaced')
		eq(claim('a', 'x', 2), 'EROFS')
		eq(closing(ready(own('a', 'x')), rec('', 1)), 'EROFS')
		take('a2', 'x', 2, 'a')
		# it may have been renewed once more before it was replaced
		in_time(old['expires_ms'], 1000 + 1000 + 1000)
		eq(lease('a')['ownership_index_generation'], new)
		eq(status('a2')['lease'], 'held')
		eq(len(fences('a')), 1)
	PY
}

@test "replace, and an orderly end while the old run may still believe in its cells: nobody takes them before its time" {
	node a
	node b
	create "$DIR/a/cells/x/own" "$(own a 1)"
	fleet "$(pid_of a)" <<-'PY'
		# so that it does not hear of it
		fresh('a')
		with stopped(int(a[0])):
		    old = lease('a')['expires_ms']
		    command = [CELLDFS, STORE,
		               DIR + '/a2', '-o', 'node=a,ttl-ms=3000,replace']
		    os.mkdir(DIR + '/a2')
		    subprocess.run(command, check=True)
		    terminate('a2')
		    take('b', 'x', 2)
		    in_time(old, 5000)
	PY
}

@test "a lease that cannot be waited for is refused at once, nothing is written, and no mount is left" {
	a_store
	mkdir "$DIR/m"
	fleet <<-'PY'
		def of(expires_ms, more=''):
		    return ('{"node":"a","expires_ms":%d,"addr":"10.0.0.7:7",'
		            '"ownership_index_generation":"run5"%s}' % (expires_ms, more)).encode()
		now = wall()
		log_of = ',"log":{"state":"%s","epoch":3,"ensemble":["a"],"tiered":2}'
		def start(option, *more):
		    return subprocess.run([CELLDFS, STORE, DIR + '/m', '-o',
		                           'node=a,ttl-ms=3000' + option, *more],
		                          capture_output=True, text=True, timeout=20)
		for name, body in {
		        'in an hour': of(now + 3600000),
		        'in ten years': of(now + 3653 * 86400000),
		        'in 2^63': of(1 << 63),
		        'an open log': of(now + 2000, log_of % 'open'),
		        'an open log, expired': of(now - 3600000, log_of % 'open'),
		        'an open log, given up': of(0, log_of % 'open'),
		        'a recovering log': of(now + 2000, log_of % 'recovering'),
		        'a log in an unknown state': of(0, log_of % 'thawing'),
		        'an open log, in an hour': of(now + 3600000, log_of % 'open'),
		        "another node's": of(0).replace(b'"a"', b'"b"', 1),
		        'cut': of(now)[:-1],
		        'no expiry': b'{"node":"a"}',
		        'a quoted expiry': b'{"node":"a","expires_ms":"0"}',
		        'a negative expiry': b'{"node":"a","expires_ms":-1}',
		        'empty': b'',
		        'a page': b'<!DOCTYPE html>\n<html></html>\n'}.items():
		    put('nodes/a.json', body)
		    before = version('nodes/a.json')
		    begun = boot()
		    try:
		        ended = start('', '-f')
		        eq((name, ended.returncode), (name, 1))
		        within(boot() - begun, 3000)
		        ok(not mounted('m'), name)
		    finally:
		        subprocess.run(['fusermount3', '-u', DIR + '/m'],
		                       stderr=subprocess.DEVNULL)
		    eq(version('nodes/a.json'), before)
		    lines = ended.stderr.splitlines()
		    eq(len(lines), 1)
		    ok(lines[0].startswith('celldfs: nodes/a: '), ended.stderr)
		    if b'run5' in body and name not in ("another node's", 'cut'):
		        for word in '10.0.0.7:7', 'run5', str(json.loads(body)['expires_ms']):
		            ok(word in lines[0], (name, word, lines))
		    # not even replace takes what only celld can recover, or nobody understands
		    if 'log' in name or b'run5' not in body:
		        eq((name, start(',replace', '-f').returncode), (name, 1))
		        eq(version('nodes/a.json'), before)
		eq(start('').returncode, 1) # in the background
		eq(keys(), ['nodes/a.json'])
		# but what is merely far ahead
		put('nodes/a.json', of(now + 3600000))
		eq(start(',replace').returncode, 0)
		terminate('m')
	PY
}

@test "a lease whose answer comes after its own expiry is none: it is written again before the mount serves" {
	a_store
	rules a 'put_if nodes/a.json late 1000 x1'
	PROGRAM=$TOOLS/celldfs-spy begin a a
	fleet "$(pid_of a)" <<-'PY'
		until(lambda: raw('nodes/a.json'))
		with stopped(int(a[0])):
		    expires = lease('a')['expires_ms']
		    until(lambda: wall() > expires + 100)
	PY
	serves a
	fleet <<-'PY'
		eq(status('a')['lease'], 'held')
		within(wall() - lease('a')['expires_ms'], 0)
		ok(puts('a', 'nodes/a.json')[:2] == ['applied'] * 2, puts('a', 'nodes/a.json'))
		eq(create('a', 'x'), 0)
		eq(fences('a'), [])
	PY
}

# ---- what the record says ----

@test "a lease is what celld reads, and keeps what others have put there, byte for byte" {
	a_store
	fleet <<-'PY'
		# what celldfs does not know, in odd forms; b has none of the fields
		# that a mount writes, but the two that a lease must have
		odd = (rb'"zz":{"deep":[1,{"x":"\u00e9\"}{"}],"y":1.50e-3} , "big":18446744073709551615,'
		       rb'"huge":1e400,"bigger":123456789012345678901234567890, "address":"not mine",'
		       b'"\\u00fc\xc3\xbc":null,"e":[ ] ,"f":{ }, "tw":1,"tw":2,"neg":-0,'
		       b'\n\t"log" : {"state" :"sealed","epoch":3,"ensemble":["n 1"],'
		       b'"tiered":2, "active":null,"more":{"x":1.0}}')
		put('nodes/a.json', b'\n { "load":{"sampled_ms":1,"resident_cells":9,"host_websockets":0,'
		    b'"rss_bytes":1,"cpu_percent_x100":1,"open_fds":1,"fd_limit":1,"pressured":true,'
		    b'"shed_cells":0,"in_use_bytes":null} ,\r\n"expires_ms" : 1 , ' + odd +
		    b', "addr":"old" ,"ownership_index_generation":"x","peer_protocol":2,'
		    b'"probe_public_key":"' + b'0a' * 32 + b'", "node" :\t"a" }  \n')
		put('nodes/b.json', b'{"expires_ms":0,' + odd + b',"node":"b"}')
		for n in 'ab':
		    with open('%s/%s.before' % (DIR, n), 'wb') as f:
		        f.write(raw('nodes/%s.json' % n))
	PY
	node a -o addr=10.0.0.7:7,peer-protocol=3
	node b
	node c
	cat >"$DIR/check.py" <<-'PY'
		OURS = ('load', 'expires_ms', 'addr', 'ownership_index_generation',
		        'peer_protocol', 'probe_public_key')
		decoder, space = json.JSONDecoder(), re.compile(r'[ \t\r\n]*')
		def masked(body):
		    """The text with @ for the values of our fields, and what they were."""
		    text, parts, values = body.decode(), [], {}
		    at = space.match(text).end() + 1
		    done = 0
		    while True:
		        key, at = decoder.raw_decode(text, space.match(text, at).end())
		        at = space.match(text, at).end()
		        eq(text[at], ':')
		        at = space.match(text, at + 1).end()
		        value, end = decoder.raw_decode(text, at)
		        if key in OURS:
		            ok(key not in values, key)
		            values[key] = value
		            parts += [text[done:at], '@']
		            done = end
		        at = space.match(text, end).end()
		        if text[at] == '}':
		            return ''.join(parts) + text[done:], values
		        eq(text[at], ',')
		        at += 1
		def check(node, addr, protocol):
		    before, old = masked(read('%s/%s.before' % (DIR, node)))
		    body = raw('nodes/%s.json' % node)
		    strict(body, node)
		    after, new = masked(body)
		    for key in OURS:
		        if key not in old:
		            ok(',"%s":@' % key in after, after)
		            after = after.replace(',"%s":@' % key, '')
		    eq(after, before)
		    eq((new['addr'], new['peer_protocol'], new['probe_public_key']), (addr, protocol, ''))
		    eq(new['load']['sampled_ms'], 0)
		    return new
	PY
	fleet <<-'PY'
		exec(read(DIR + '/check.py'))
		for renewal in range(3):
		    for node, addr, protocol in ('a', '10.0.0.7:7', 3), ('b', os.uname().nodename, 0):
		        new = check(node, addr, protocol)
		        eq(new['ownership_index_generation'], status(node)['generation'])
		        ahead = new['expires_ms'] - wall()
		        ok(ahead <= 3000 + 10 + 1000 * S3, ahead)
		        within(-ahead, 0)
		    # a new one
		    own_lease = strict(raw('nodes/c.json'), 'c')
		    ok('log' not in own_lease)
		    fresh('a')
		    fresh('b')
	PY
	unmount a
	unmount b
	unmount c
	fleet <<-'PY'
		exec(read(DIR + '/check.py'))
		eq(check('a', '10.0.0.7:7', 3)['expires_ms'], 0)
		eq(check('b', os.uname().nodename, 0)['expires_ms'], 0)
		eq(strict(raw('nodes/c.json'), 'c')['expires_ms'], 0)
	PY
}

@test "resident_cells in the lease follows claims, releases and takeovers" {
	node a
	fleet <<-'PY'
		def told(count):
		    begun = boot()
		    until(lambda: lease('a')['load']['resident_cells'] == count)
		    within(boot() - begun, 1000 + 700)
		    eq(status('a')['resident_cells'], str(count))
		eq(lease('a')['load']['resident_cells'], 0)
		for cell in 'xyz':
		    eq(create('a', cell), 0)
		told(3)
		eq(claim('a', 'x', 2), 0) # the same cell
		eq(claim('a', 'y', 1, ''), 0)
		told(2)
		eq(claim('a', 'y', 2), 0)
		told(3)
		put('cells/z/own.json', rec('b', 2))
		read(own('a', 'z'))
		told(2)
		eq(claim('a', 'x', 2, ''), 0)
		eq(claim('a', 'y', 2, ''), 0)
		told(0)
	PY
}

@test "authority-ms is of this mount's own lease alone, and clients write no lease" {
	node a
	mount_at k -o node=k,keeper=off
	mount_at m
	lease k "$(($(now_ms) + 60000))" >"$DIR/k.lease"
	create "$DIR/k/nodes/k" "$(cat "$DIR/k.lease")"
	create "$DIR/a/cells/x/own" "$(own a 1)"
	create "$DIR/k/cells/y/own" "$(own k 1)"
	fleet <<-'PY'
		def absent(path):
		    eq(err(text, path, 'authority-ms'), 'ENODATA')
		    ok('user.celld.authority-ms' not in os.listxattr(path))
		for _ in range(20):
		    ok(0 < authority('a', 'a') <= 3000)
		    time.sleep(0.1)
		eq(status('a')['keeper'], 'on')
		for mount in 'a', 'k', 'm':
		    absent(own(mount, 'x'))
		    absent(DIR + '/%s/nodes/k' % mount)
		absent(DIR + '/k/nodes/a')
		absent(DIR + '/m/nodes/a')
		ok('user.celld.authority-ms' not in os.listxattr(DIR + '/a/nodes/a'))
		# who writes a lease
		def rewrite(mount, node):
		    path = DIR + '/%s/nodes/%s' % (mount, node)
		    fd = os.open(path, os.O_RDWR)
		    return closing(fd, os.read(fd, 1 << 20))
		eq(rewrite('a', 'a'), 'EPERM')
		eq(rewrite('a', 'k'), 'EPERM')
		eq(rewrite('k', 'a'), 'EPERM')
		eq(rewrite('k', 'k'), 0)
		# keeper=off: nothing else writes it, and a claim needs none
		eq(status('k')['keeper'], 'off')
		ok('lease' not in status('k'))
		eq(raw('nodes/k.json'), read(DIR + '/k.lease'))
		eq(claim('k', 'y', 2), 0)
		eq(claim('k', 'x', 2), 'EBUSY')
	PY
	unmount k
	outside get nodes/k.json | cmp - "$DIR/k.lease"
	run ! grep -q SELF-FENCE "$DIR/k.log"
}

# ---- running ----

@test "in the background, with relative paths: it returns when the lease is held, and renewals go on" {
	local store=$STORE

	mkdir "$DIR/m"
	if [ "$KIND" = sqlite ]; then
		store=sqlite:fleet.db
		STORE=sqlite:$DIR/fleet.db
	fi
	pushd "$DIR" >/dev/null
	"$BUILD/celldfs" "$store" m -o "node=a,ttl-ms=$TTL,log=$DIR/m.log" \
		2>"$DIR/stderr" 3>&-
	popd >/dev/null
	MOUNTS+=("m:$(sed -n 's/^pid //p' "$DIR/m/.celldfs/status")")
	is "$(cat "$DIR/stderr")" ""
	fleet <<-'PY'
		now = status('m')
		eq(now['lease'], 'held')
		eq(lease('a')['ownership_index_generation'], now['generation'])
		within(wall() - lease('a')['expires_ms'], 0)
		first = version('nodes/a.json')
		for _ in range(4): # beyond the first ttl
		    fresh('m')
		ok(version('nodes/a.json') != first)
		eq(create('m', 'x', 'a'), 0)
		eq(fences('m'), [])
	PY
}

@test "32 writers on the same file of the embedded store delay no renewal" {
	only_on sqlite "the queue for its lock is the embedded store's"
	node a
	mount_at m
	fleet <<-'PY'
		import sqlite3
		is_ready, go = os.pipe(), os.pipe()
		def write(n):
		    fd = os.open(own('am'[n % 2], 'c%d' % n), os.O_RDWR | os.O_CREAT, 0o644)
		    epoch = 0
		    os.write(is_ready[1], b'r')
		    os.read(go[0], 1)
		    end = time.monotonic() + 10
		    while time.monotonic() < end:
		        epoch += 1
		        os.pwrite(fd, rec('a', epoch), 0)
		children = []
		for n in range(32):
		    if not (pid := os.fork()):
		        os.close(go[1])
		        os._exit(err(write, n) != 0)
		    children.append(pid)
		for n in range(32):
		    os.read(is_ready[0], 1)
		db = sqlite3.connect('file:%s?mode=ro' % STORE.split(':', 1)[1], uri=True)
		renewed = []
		os.close(go[1])
		end = time.monotonic() + 10
		while time.monotonic() < end:
		    when, = db.execute('SELECT modified_ms FROM record '
		                       'WHERE key = "nodes/a.json"').fetchone()
		    if not renewed or when != renewed[-1]:
		        renewed.append(when)
		    time.sleep(0.02)
		eq([os.waitpid(pid, 0)[1] for pid in children], [0] * 32)
		writes = [json.loads(raw('cells/c%d/own.json' % n))['epoch'] for n in range(32)]
		gaps = [later - sooner for sooner, later in zip(renewed, renewed[1:])]
		print('gaps', gaps, 'ms;', sum(writes), 'writes')
		ok(min(writes) >= (3 if TIMED else 1), writes)
		ok(len(gaps) >= 6 or not TIMED, gaps)
		within(max(gaps), 1000 + 500)
		eq(status('a')['lease'], 'held')
		eq(fences('a'), [])
	PY
}

@test "10 minutes of renewals leak nothing" {
	[ -n "${CELLDFS_LONG:-}" ] || skip "it is long: scripts/test --long"
	timed || skip "sanitizers keep memory for themselves"
	node a
	fleet "$(pid_of a)" <<-'PY'
		def used():
		    rss = re.search(rb'VmRSS:\s+(\d+) kB', read('/proc/%s/status' % a[0]))
		    return int(rss.group(1)), len(os.listdir('/proc/%s/fd' % a[0]))
		time.sleep(30)
		before = used()
		time.sleep(600)
		after = used()
		print('KiB and descriptors:', before, after)
		eq(after[1], before[1])
		ok(after[0] - before[0] <= 2048)
		ok(int(status('a')['renewals']) > 600 * 0.9)
		eq(status('a')['renewal_errors'], '0')
	PY
}

# ---- the end ----

@test "an orderly stop gives the lease up if nothing is held, else it runs out" {
	node term
	node umount
	node holder
	node released
	node p
	fleet "$(pid_of term)" "$(pid_of holder)" "$(pid_of released)" <<-'PY'
		term, holder, released = map(int, a)
		for n in 'holder', 'released':
		    eq(create(n, n + '1'), 0)
		    eq(create(n, n + '2'), 0)
		eq(claim('holder', 'holder2', 1, ''), 0)
		eq(claim('released', 'released1', 1, ''), 0)
		eq(claim('released', 'released2', 1, ''), 0)
		# a record of an earlier run, which this one does not hold
		put('cells/old/own.json', rec('term', 3))
		eq(claim('p', 'old', 4), 'EBUSY')
		for pid in term, holder, released:
		    os.kill(pid, signal.SIGTERM)
		subprocess.run(['fusermount3', '-u', DIR + '/umount'], check=True)
	PY
	ended term 0
	ended umount 0
	ended holder 0
	ended released 0
	run ! mountpoint -q "$DIR/term"
	fleet <<-'PY'
		for n in 'term', 'umount', 'released':
		    eq(strict(raw('nodes/%s.json' % n), n)['expires_ms'], 0)
		    eq(fences(n), [])
		expires = strict(raw('nodes/holder.json'), 'holder')['expires_ms']
		ok(expires > 0)
		eq(fences('holder'), [])
		eq(claim('p', 'old', 4), 0)
		ok(claim('p', 'holder1', 2) == 'EBUSY' or wall() >= expires + SKEW)
		take('p', 'holder1', 3)
		in_time(expires)
	PY
}

@test "a mount that fails after it has got its lease gives it up" {
	rules a 'put_if nodes/a.json delay 1000 x1'
	PROGRAM=$TOOLS/celldfs-spy begin a a
	says "$DIR/a.calls" '^get nodes/a.json'
	rmdir "$DIR/a"
	ended a 1
	fleet <<-'PY'
		eq(strict(raw('nodes/a.json'), 'a')['expires_ms'], 0)
		eq(puts('a', 'nodes/a.json')[0], 'applied')
		ok('cannot mount' in log('a'), log('a'))
	PY
}
