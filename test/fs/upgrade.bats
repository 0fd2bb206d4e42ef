#!/usr/bin/env bats
# upgrade: a mount's daemon is replaced by another one of the same node while
# programs write and read.

bats_require_minimum_version 1.5.0
load helper

setup_file() {
	# what they see between the two daemons, and nothing else
	export DOCUMENTED='ECONNABORTED ENOENT ENOTCONN'
}

# Before its directory goes, everybody who looks into it.
eval "mounts_$(declare -f teardown)"
teardown() {
	touch "$DIR/end"
	[ -z "${clients-}" ] || wait "$clients" || true
	mounts_teardown
}

# clients WRITERS READERS: programs at work below $DIR/m. Each writer claims a cell
# of its own again and again, on one descriptor for as long as that is good; while
# there is $DIR/drain it releases it and waits. All check that no acknowledged
# write is ever lost, and end when there is $DIR/end. Sets $clients. Their
# progress is in $DIR/rounds and $DIR/idle, what they say at the end in $DIR/told:
# "errno NAME", "gap MS", "lost ...".
clients() {
	local i

	for ((i = 0; i < $1; i++)); do
		put "cells/w$i/own.json" '{"node":"","epoch":1}'
	done
	python3 - "$DIR" "$@" >"$DIR/told" 3>&- <<-'PY' &
		import errno, json, os, sys, threading, time

		top, writers, readers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
		lock = threading.Lock()
		acked = [0] * writers  # the epoch that was acknowledged last
		idle = [0] * writers
		rounds = [0] * (writers + readers)
		errors, gaps, lost = set(), [], []

		def there(name):
		    return os.path.exists(f'{top}/{name}')

		def path(cell):
		    return f'{top}/m/cells/w{cell}/own'

		def read(fd, cell, before):
		    record = json.loads(os.pread(fd, 65536, 0))
		    if record['epoch'] < before:
		        lost.append(f'{cell}: {before} was acknowledged, {record}')
		    return record

		class Writer:
		    fd = -1
		    def step(self, cell):
		        if self.fd < 0:
		            self.fd = os.open(path(cell), os.O_RDWR)
		            self.record = read(self.fd, cell, acked[cell])
		        node, epoch = 'a', self.record['epoch'] + 1
		        if there('drain'):
		            node, epoch = '', epoch - 1
		            if not self.record['node']:
		                idle[cell] = 1
		                self.again()
		                return
		        idle[cell] = 0
		        record = {'node': node, 'epoch': epoch}
		        os.pwrite(self.fd, json.dumps(record).encode(), 0)
		        self.record, acked[cell] = record, epoch
		    def again(self):
		        if self.fd >= 0:
		            fd, self.fd = self.fd, -1
		            try:
		                os.close(fd)
		            except OSError as e:
		                errors.add(e.errno)

		class Reader:
		    def step(self, cell):
		        before = acked[cell]
		        with open(path(cell), 'rb', buffering=0) as f:
		            read(f.fileno(), cell, before)
		    def again(self):
		        pass

		def run(program, number):
		    good, longest = time.monotonic(), 0
		    while not there('end'):
		        try:
		            program.step(number % writers)
		            now = time.monotonic()
		            longest, good = max(longest, now - good), now
		            rounds[number] += 1
		        except OSError as e:
		            errors.add(e.errno)
		            program.again()
		        time.sleep(0.02)
		    program.again()
		    gaps.append(longest)

		threads = [threading.Thread(target=run, args=(Writer(), i))
		           for i in range(writers)]
		threads += [threading.Thread(target=run, args=(Reader(), i))
		            for i in range(writers, writers + readers)]
		for thread in threads:
		    thread.start()
		while any(thread.is_alive() for thread in threads):
		    for name, text in ('rounds', min(rounds)), ('idle', min(idle)):
		        with open(f'{top}/{name}.new', 'w') as f:
		            print(text, file=f)
		        os.rename(f'{top}/{name}.new', f'{top}/{name}')
		    time.sleep(0.05)
		for name in sorted(errno.errorcode[e] for e in errors):
		    print('errno', name)
		print('gap', int(max(gaps) * 1000))
		for line in lost:
		    print('lost', line)
	PY
	clients=$!
}

# at_work: until all clients have done ten rounds more.
at_work() {
	local rounds end=$((SECONDS + 60))

	until rounds=$(cat "$DIR/rounds" 2>/dev/null); do sleep 0.05; done
	until [ "$(cat "$DIR/rounds")" -ge $((rounds + 10)) ]; do
		[ "$SECONDS" -lt "$end" ] || { echo "nobody works"; return 1; }
		sleep 0.05
	done
}

# told LEAST MOST: what the clients have to say, the longest gap in ms.
told() {
	local gap

	touch "$DIR/end"
	wait "$clients"
	cat "$DIR/told"
	run ! grep -vE "^(errno (${DOCUMENTED// /|})|gap [0-9]+)\$" "$DIR/told"
	gap=$(sed -n 's/^gap //p' "$DIR/told")
	[ "$gap" -ge "$1" ]
	! timed || [ "$gap" -le "$2" ]
}

# replace ARGUMENT...: what `systemctl restart` does.
replace() {
	local pid

	pid=$(pid_of m)
	kill -TERM "$pid"
	wait "$pid"
	MOUNTS=()
	stopped=$(outside get nodes/a.json 2>/dev/null || true)
	mount_at m "$@"
}

@test "upgrade: a daemon that holds nothing gives its lease up, and the next serves at once" {
	mount_at m -o node=a
	clients 4 4
	at_work
	# readers read on
	touch "$DIR/drain"
	until [ "$(cat "$DIR/idle")" = 1 ]; do sleep 0.05; done
	replace -o node=a
	[[ $stopped == *'"expires_ms":0,'* ]]
	run ! grep waiting "$DIR/m.log"
	rm "$DIR/drain"
	at_work
	told 0 10000
}

@test "upgrade: with cells that are held, the lease runs out first" {
	mount_at m -o node=a,ttl-ms=5000
	clients 4 4
	at_work
	replace -o node=a,ttl-ms=5000
	[[ $stopped != *'"expires_ms":0,'* ]]
	grep -q waiting "$DIR/m.log"
	at_work
	told 1000 20000
}

@test "upgrade: a mount without a name is replaced as fast" {
	mount_at m
	clients 4 4
	at_work
	replace
	at_work
	told 0 10000
}
