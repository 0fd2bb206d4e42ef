#!/usr/bin/env bats
# fence: how a node loses its lease, and that it writes nothing from then on.
# How it gets and keeps one is in lease.bats.

bats_require_minimum_version 1.5.0
load helper
load fleet

# ---- a daemon that did not run ----

@test "stopped beyond its ttl: the first write after that and one that waited are EROFS, and the lease is not written again" {
	spied_node a
	spied_node exits -o fence=exit
	spied_node delayed
	spied_node late
	node b
	fleet a "$(pid_of a)" exits "$(pid_of exits)" delayed "$(pid_of delayed)" \
		late "$(pid_of late)" <<-'PY'
		# two are stopped amid a renewal: one is sent after the end, the answer to
		# the other comes after the end
		fault = {n: ['put_if nodes/%s.json %s 900' % (n, what)]
		         for n, what in (('delayed', 'delay'), ('late', 'late'))}
		def scenario(n, pid):
		    key = 'nodes/%s.json' % n
		    eq(create(n, n + '-1'), 0)
		    eq(create(n, n + '-2'), 0)
		    waits, first = ready(own(n, n + '-1')), ready(own(n, n + '-2'))
		    fresh(n)
		    if n in fault:
		        old = version(key)
		        rules(n, *fault[n])
		        if n == 'late':
		            until(lambda: version(key) != old)
		        else:
		            time.sleep(1.4)
		    with stopped(pid):
		        waiting = at_once(err, os.write, waits, rec(n, 2))
		        take('b', n + '-1', 2)
		        ok(not waiting.done())
		        before, sent = version(key), len(puts(n, key))
		    found = err(os.write, first, rec(n, 2))
		    if n == 'exits':
		        ok(found and waiting.result(), (found, waiting.result()))
		        until(lambda: err(os.listdir, DIR + '/exits') == 'ENOTCONN')
		    else:
		        eq((found, waiting.result()), ('EROFS', 'EROFS'))
		        # reading goes on
		        eq(read(own(n, n + '-1')), rec('b', 2))
		        eq(read(own(n, n + '-2')), rec(n, 1))
		        eq(json.loads(read('%s/%s/nodes/b' % (DIR, n)))['node'], 'b')
		        ok(n + '-1' in os.listdir('%s/%s/cells' % (DIR, n)))
		        now = until(lambda: status(n)['lease'] == 'fenced' and status(n))
		        eq((now['fence'], now['authority_ms']), ('expired', '0'))
		        eq(authority(n, n), 0)
		    time.sleep(1.5)
		    eq(version(key), before)
		    # what was under way when it was stopped has ended since
		    ok(len(puts(n, key)) - sent <= (n in fault), puts(n, key))
		    for word in puts(n, key)[sent:]:
		        ok((word == 'applied') == (n == 'late'), puts(n, key))
		    eq(raw('cells/%s-1/own.json' % n), rec('b', 2))
		    eq(raw('cells/%s-2/own.json' % n), rec(n, 1))
		    eq(len(fences(n)), 1)
		    ok('SELF-FENCE: expired: ' in fences(n)[0], fences(n))
		nodes = list(zip(a[0::2], map(int, a[1::2])))
		parallel(lambda node: scenario(*node), nodes)
		eq(fences('b'), [])
	PY
	ended exits 3
	# the dead mount is still there
	is "$(errno_of 'os.listdir(a[0])' "$DIR/exits")" ENOTCONN
}

@test "a keeper's thread that hangs: the end comes by the clock all the same" {
	spied_node a
	fleet <<-'PY'
		eq(create('a', 'x'), 0)
		fd = ready(own('a', 'x'))
		fresh('a')
		end = boot() + left('a')
		# the spy's calls end when somebody reads of them
		calls = DIR + '/a.calls'
		os.mkfifo(calls + '.pipe')
		os.rename(calls + '.pipe', calls)
		until(lambda: boot() > end + 1500)
		eq(err(os.write, fd, rec('a', 2)), 'EROFS')
		eq(fences('a'), []) # it hangs
		eq(raw('cells/x/own.json'), rec('a', 1))
		pipe = os.open(calls, os.O_RDONLY | os.O_NONBLOCK)
		until(lambda: fences('a'))
		eq(status('a')['fence'], 'expired')
		os.unlink(calls)
	PY
}

with_pipe() { exec "$TOOLS/celldfs-spy" "$@" 2>"$DIR/pipe"; }

@test "a log that takes nothing more hangs no operation, and costs no lease" {
	mkfifo "$DIR/pipe"
	exec 9<>"$DIR/pipe"
	CELLDFS_SPY_LOG=$DIR/a.calls CELLDFS_SPY_RULES=$DIR/a.rules \
		mount_with with_pipe a -o "node=a,ttl-ms=$TTL"
	fleet <<-'PY'
		eq(create('a', 'x'), 0)
		fresh('a')
		pipe = os.open(DIR + '/pipe', os.O_RDWR | os.O_NONBLOCK)
		for size in 4096, 1:
		    while not err(os.write, pipe, b'.' * size):
		        pass
		rules('a', 'put_if nodes/a.json fail failed x1')
		begun = boot()
		eq([claim('a', 'x', 1) for _ in range(20)], ['EBUSY'] * 20)
		within(boot() - begun, 2000)
		until(lambda: status('a')['renewal_errors'] == '1')
		for _ in range(3): # beyond its ttl
		    fresh('a')
		eq(status('a')['lease'], 'held')
		# a reader that comes back misses some
		until(lambda: err(os.read, pipe, 65536) == 'EAGAIN')
		eq(claim('a', 'x', 1), 'EBUSY')
		ok(b'stale epoch' in os.read(pipe, 65536))
	PY
	unmount a
	exec 9<&-
}

# ---- a store that does not renew ----

@test "renewals that fail, hang or are not answered: no write after the end, fenced within a second, and a late success changes nothing" {
	local name

	for name in fails hangs late lost; do spied_node "$name"; done
	fleet <<-'PY'
		fault = {'fails': ['put_if nodes/fails.json fail failed'],
		         'hangs': ['put_if nodes/hangs.json hang'],
		         'late': ['put_if nodes/late.json late 60000', 'get nodes/late.json hang'],
		         'lost': ['put_if nodes/lost.json drop', 'get nodes/lost.json fail timeout']}
		def scenario(n):
		    key, cell = 'nodes/%s.json' % n, 'cells/%s/own.json' % n
		    eq(create(n, n), 0)
		    fd = ready(own(n, n))
		    fresh(n)
		    rules(n, *fault[n])
		    before = version(key)
		    # no longer than what peers read
		    ok(wall() + left(n) <= lease(n)['expires_ms'] + 20)
		    ok(left(n) <= 3000)
		    soonest = boot() + left(n)
		    latest = left(n) + boot() + 1
		    epoch, fenced = 1, 0
		    while boot() < latest + 1500:
		        begun = boot()
		        found = err(os.pwrite, fd, rec(n, epoch + 1), 0)
		        if found == 0:
		            epoch += 1
		            ok(begun < latest, begun - latest)
		        elif found != 'EROFS': # the answer was cut off by the end
		            eq(found, 'ETIMEDOUT')
		            ok(begun < latest, begun - latest)
		        ok(not found or boot() >= soonest - 1, boot() - soonest)
		        if not fenced and fences(n):
		            fenced = boot()
		        time.sleep(0.01)
		    ok(fenced, 'no fence in the log')
		    ok(fenced >= soonest, fenced - soonest)
		    within(fenced - latest, 1000)
		    ok(epoch > 2 or not TIMED, epoch)
		    eq(found, 'EROFS')
		    ok(json.loads(raw(cell))['epoch'] in (epoch, epoch + 1), epoch)
		    # what has landed is there, but does not count
		    eq(version(key) != before, n == 'late')
		    sent, before = len(puts(n, cell)), version(key)
		    rules(n)
		    time.sleep(1.5)
		    eq(closing(fd, rec(n, epoch + 2)), 'EROFS')
		    eq(claim(n, n, epoch + 2), 'EROFS')
		    eq(create(n, n + '-new'), 'EROFS')
		    eq(len(puts(n, cell)), sent)
		    eq(version(key), before)
		    eq(status(n)['fence'], 'expired')
		    eq(len(fences(n)), 1)
		    ok('SELF-FENCE: expired: ' in fences(n)[0], fences(n))
		parallel(scenario, fault)
		ok(not [k for k in keys() if '-new' in k], keys())
	PY
}

@test "3.5 s without an answer at a ttl of 6 s, and lost answers: tried again soon, and no fence" {
	local name

	for name in dropped failed lost; do TTL=6000 spied_node "$name"; done
	fleet <<-'PY'
		def tries(n):
		    return puts(n, 'nodes/%s.json' % n)
		def blip(n, fault):
		    fresh(n)
		    before, renewals = len(tries(n)), int(status(n)['renewals'])
		    time.sleep(0.7)
		    rules(n, 'put_if nodes/* ' + fault)
		    time.sleep(3.5)
		    rules(n)
		    begun = boot()
		    until(lambda: int(status(n)['renewals']) > renewals)
		    within(boot() - begun, 1200)
		    ok(len([w for w in tries(n)[before:] if w != 'applied']) >= 4, tries(n))
		    ok(int(status(n)['renewal_errors']) >= 4, status(n))
		def lost(n):
		    fresh(n)
		    before = len(tries(n))
		    rules(n, 'put_if nodes/* lose x3')
		    until(lambda: tries(n)[before:].count('unknown') == 3 and tries(n)[-1] == 'applied')
		    # each was found to have landed: a next one came at its time, not soon
		    eq(tries(n)[before:], ['unknown'] * 3 + ['applied'])
		def scenario(n):
		    eq(create(n, n), 0)
		    if n == 'lost':
		        lost(n)
		    else:
		        blip(n, {'dropped': 'drop', 'failed': 'fail failed'}[n])
		    eq(status(n)['lease'], 'held')
		    eq(fences(n), [])
		    eq(claim(n, n, 2), 0)
		parallel(scenario, ['dropped', 'failed', 'lost'])
	PY
}

@test "a lease that somebody replaced or removed: fenced at the next renewal, with the right word, and never written again" {
	spied_node a
	spied_node b
	fleet <<-'PY'
		def now(key):
		    return version(key) if key in keys() else None
		def scenario(n):
		    key = 'nodes/%s.json' % n
		    eq(create(n, n), 0)
		    fresh(n)
		    begun = boot()
		    if n == 'a':
		        put(key, b'{"node":"a","expires_ms":%d,"addr":"10.0.0.9:9"}' % (wall() + 60000))
		    else:
		        rm(key)
		    before = now(key)
		    until(lambda: fences(n))
		    within(boot() - begun, 1000 + 700)
		    word = {'a': 'replaced', 'b': 'removed'}[n]
		    ok('SELF-FENCE: %s: ' % word in fences(n)[0], fences(n))
		    eq(status(n)['lease'], 'fenced')
		    eq(status(n)['fence'], word)
		    ok(status(n)['lease_reason'] != '-')
		    ok(n == 'b' or '10.0.0.9:9' in fences(n)[0], fences(n)) # by whom
		    eq(left(n), 0)
		    eq(claim(n, n, 2), 'EROFS')
		    ok(outcome(n, n).startswith('fenced'), outcome(n, n))
		    ok(word in outcome(n, n), outcome(n, n))
		    sent = len(puts(n, key))
		    time.sleep(1.5)
		    eq(now(key), before)
		    eq(len(puts(n, key)), sent)
		    eq(len(fences(n)), 1)
		parallel(scenario, 'ab')
		with open(DIR + '/a.record', 'wb') as f:
		    f.write(raw('nodes/a.json'))
	PY
	# nor at the end
	unmount a
	unmount b
	outside get nodes/a.json | cmp - "$DIR/a.record"
	is "$(outside keys nodes/)" nodes/a.json
}

# ---- what a fenced mount does with a write ----

@test "an answer that comes after the end of the authority: applied, fenced; none: unknown" {
	# so long that one try of the write is, too
	TTL=8000 spied_node a
	spied_node b
	fleet "$(pid_of a)" <<-'PY'
		def late_answer():
		    eq(create('a', 'a'), 0)
		    fd = ready(own('a', 'a'))
		    fresh('a')
		    rules('a', 'put_if cells/* late 1300', 'put_if nodes/* fail failed')
		    end = left('a') + boot()
		    writing = at_once(err, os.write, fd, rec('a', 2))
		    until(lambda: raw('cells/a/own.json') == rec('a', 2))
		    with stopped(int(a[0])):
		        until(lambda: boot() > end + 100)
		        ok(not writing.done())
		    eq(writing.result(), 'EROFS')
		    ok(outcome('a', 'a').startswith('applied, fenced; '), outcome('a', 'a'))
		    eq(raw('cells/a/own.json'), rec('a', 2))
		    eq(read(own('a', 'a')), rec('a', 2))
		def no_answer():
		    eq(create('b', 'b'), 0)
		    fd = ready(own('b', 'b'))
		    fresh('b')
		    rules('b', 'put_if cells/* late 60000', 'get cells/* hang',
		          'put_if nodes/* fail failed')
		    soonest = boot() + left('b')
		    latest = left('b') + boot()
		    eq(err(os.write, fd, rec('b', 2)), 'ETIMEDOUT')
		    ok(boot() >= soonest - 5, soonest - boot())
		    within(boot() - latest, 1000)
		    ok(outcome('b', 'b').startswith('unknown; '), outcome('b', 'b'))
		    eq(raw('cells/b/own.json'), rec('b', 2))
		parallel(lambda f: f(), [late_answer, no_answer])
	PY
}

@test "a fenced mount uses no armed guard up, and says what is no record all the same" {
	spied_node a
	create "$DIR/a/cells/x/own" "$(own a 1)"
	outside rm nodes/a.json
	fleet <<-'PY'
		until(lambda: fences('a'))
		path = own('a', 'x')
		tag = text(path, 'etag')
		def armed():
		    return err(text, path, 'if-match') or text(path, 'if-match')
		def write(record):
		    return closing(os.open(path, os.O_WRONLY), record)
		os.setxattr(path, 'user.celld.if-match', tag.encode())
		for _ in range(3):
		    eq(write(rec('a', 2)), 'EROFS')
		    eq(armed(), tag)
		eq(write(rec('', 1)), 'EROFS') # a release
		eq(write(b'{"node":"a"}'), 'EINVAL')
		eq(armed(), tag)
		eq(puts('a', 'cells/x/own.json'), ['applied'])
		os.removexattr(path, 'user.celld.if-match')
		eq(armed(), 'ENODATA')
		eq(raw('cells/x/own.json'), rec('a', 1))
	PY
}

# ---- wall clocks ----

@test "wall clocks an hour apart, and stepped by an hour: a warning and an offset in the status, and nothing else" {
	local name

	# the store's clock starts as this machine's
	a_store
	echo 3600000 >"$DIR/ahead.clock"
	echo -3600000 >"$DIR/behind.clock"
	node right
	for name in ahead behind back forth; do clocked_node "$name"; done
	fleet "$(pid_of right)" "$(pid_of back)" <<-'PY'
		HOUR = 3600000
		nodes = {'right': 0, 'ahead': HOUR, 'behind': -HOUR, 'back': 0, 'forth': 0}
		def warnings(n):
		    return len([l for l in log(n).splitlines() if 'wall clock' in l])
		def check():
		    for n, offset in nodes.items():
		        found = int(status(n)['clock_offset_ms'])
		        ok(abs(found - offset) < 1500, (n, found))
		        until(lambda: warnings(n) == (offset != 0), 5)
		        eq(status(n)['lease'], 'held')
		        eq(status(n)['renewal_errors'], '0')
		        eq(fences(n), [])
		        ok(0 < left(n) <= 3000)
		        ahead = lease(n)['expires_ms'] - wall()
		        ok(ahead <= 3000 + 10 + 1000 * S3, ahead)
		        within(-ahead, 0)
		def rob():
		    """Everybody tries to take everybody's cell."""
		    for n in nodes:
		        for owner in nodes:
		            if n != owner:
		                eq((n, owner, claim(n, owner, 100)), (n, owner, 'EBUSY'))
		for n in nodes:
		    eq(create(n, n), 0)
		check()
		rob()
		# during a lease
		fresh('forth')
		for n, step in ('back', -HOUR), ('forth', HOUR):
		    clock(n, step)
		    nodes[n] = step
		rob()
		for n in nodes:
		    eq(claim(n, n, 2), 0)
		parallel(lambda n: [fresh(n) for _ in range(4)], nodes)
		check()
		rob()
		# and who dies is robbed when its time is up, by the store's clock
		for pid in a:
		    os.kill(int(pid), signal.SIGKILL)
		def rob_dead(pair):
		    n, owner = pair
		    take(n, owner, 3)
		    in_time(lease(owner)['expires_ms'])
		parallel(rob_dead, [('ahead', 'back'), ('behind', 'right')])
		for n in 'ahead', 'behind', 'forth':
		    eq(fences(n), [])
	PY
}
