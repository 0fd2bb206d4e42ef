#!/usr/bin/env bats
# control: what .celldfs/ shows: the files, metrics as Prometheus reads them, and
# the peers of the fleet. (names.bats has status; costs.bats what each costs.)

load helper

# within MS SINCE: no more than MS have passed since then, if time is judged.
within() {
	local took=$(($(now_ms) - $2))

	[ "$took" -le "$1" ] || ! timed ||
		{ echo "took $took ms, may take $1"; return 1; }
}

status_of() { sed -n "s/^$2 //p" "$DIR/$1/.celldfs/status"; }

# until_is VALUE COMMAND...: within ten seconds.
until_is() {
	local tries value=$1
	shift
	for ((tries = 0; tries < 200; tries++)); do
		[ "$("$@")" = "$value" ] && return 0
		sleep 0.05
	done
	is "$("$@")" "$value"
}

# metric NAME SAMPLE: a sample's value, as Prometheus' own parser reads it,
# after a look at all of them. A sample with a label is NAME:VALUE.
metric() {
	python3 - "$DIR/$1/.celldfs/metrics" "$2" <<-'PY'
		import re, sys
		from prometheus_client.parser import text_string_to_metric_families
		text = open(sys.argv[1], encoding="utf-8").read()
		assert text.endswith("\n")
		values = {}
		for family in text_string_to_metric_families(text):
		    assert family.documentation, family
		    assert family.samples, family
		    assert family.type in ("counter", "gauge"), family
		    for sample in family.samples:
		        assert re.fullmatch("celldfs_[a-z_]+", sample.name), sample
		        assert sample.name.endswith("_total") == \
		            (family.type == "counter"), sample
		        key = sample.name
		        if key == "celldfs_swaps_total":
		            key += ":" + sample.labels["outcome"]
		        elif key != "celldfs_info":
		            assert not sample.labels, sample
		        assert key not in values, key
		        values[key] = sample
		name = sys.argv[2]
		if name == "names":
		    print(*sorted(values))
		elif ":" in name and name not in values:
		    print(values[name.split(":")[0]].labels[name.split(":")[1]])
		else:
		    print("%g" % values[name].value)
	PY
}

# above FLOOR CEILING VALUE
between() { awk -v a="$1" -v b="$2" -v v="$3" 'BEGIN { exit !(a <= v && v <= b) }'; }

# fleet COUNT: the leases of so many nodes, f001 and so on, alive for a minute.
fleet() {
	PYTHONPATH=$HERE python3 - "$1" <<-'PY'
		import concurrent.futures, outside, os, sys, time
		def put(n):
		    node = "f%03d" % n
		    store = outside.connect(os.environ["STORE"])
		    store.put("nodes/%s.json" % node,
		              b'{"node":"%s","expires_ms":%d,"addr":"h"}' %
		              (node.encode(), time.time() * 1000 + 60000))
		with concurrent.futures.ThreadPoolExecutor(8) as pool:
		    list(pool.map(put, range(1, int(sys.argv[1]) + 1)))
	PY
}

# load CELLS: the part of a lease that says how many there are.
load_of() {
	printf '"load":{"sampled_ms":0,"resident_cells":%s,"host_websockets":0,' "$1"
	printf '"rss_bytes":0,"cpu_percent_x100":0,"open_fds":0,"fd_limit":0,'
	printf '"pressured":false,"shed_cells":0}'
}

# peers NAME [FIELD...]: a line for each peer, of these fields of it, "-" for one
# that is not there; every line has to be JSON.
peers() {
	local name=$1
	shift
	fields "$@" <"$DIR/$name/.celldfs/peers"
}

fields() {
	python3 -c '
import json, sys
for line in sys.stdin:
    peer = json.loads(line)
    assert type(peer) is dict and "\n" == line[-1]
    print(*(peer.get(field, "-") for field in sys.argv[1:]))' "$@"
}

# listed NAME: how many times it has listed the nodes.
listed() { grep -c '^list nodes/' "$DIR/$1.calls" || true; }

# A command in the background, with the signals of one on a terminal, whose
# output is in FILE and FILE.err and whose pid is $!.
behind() {
	local file=$1
	shift
	env --default-signal=INT "$@" >"$file" 2>"$file.err" 3>&- &
}

# is_gone PID MS: it ends within that.
is_gone() {
	local start

	start=$(now_ms)
	while kill -0 "$1" 2>/dev/null; do
		[ $(($(now_ms) - start)) -lt 20000 ] || break
		sleep 0.02
	done
	within "$2" "$start"
}

# --- The files ---------------------------------------------------------------

@test "there are three, each is read-only and nothing can be added" {
	local file

	mount_at m1
	is "$(ls -A "$DIR/m1/.celldfs" | xargs)" "metrics peers status"
	for file in status metrics peers; do
		is "$(stat -c '%A %h %U' "$DIR/m1/.celldfs/$file")" \
			"-r--r--r-- 1 $(id -un)"
		is "$(errno_of 'os.open(a[0], os.O_WRONLY)' \
			"$DIR/m1/.celldfs/$file")" EACCES
		is "$(errno_of 'os.open(a[0], os.O_RDWR)' \
			"$DIR/m1/.celldfs/$file")" EACCES
		is "$(errno_of 'os.truncate(a[0], 0)' \
			"$DIR/m1/.celldfs/$file")" EPERM
		is "$(errno_of 'os.unlink(a[0])' "$DIR/m1/.celldfs/$file")" EPERM
	done
	is "$(errno_of 'os.stat(a[0])' "$DIR/m1/.celldfs/other")" ENOENT
	is "$(errno_of 'os.stat(a[0])' "$DIR/m1/.celldfs/cells")" ENOENT
	is "$(errno_of 'os.stat(a[0])' "$DIR/m1/status")" ENOENT
	is "$(errno_of 'os.open(a[0], os.O_CREAT | os.O_WRONLY)' \
		"$DIR/m1/.celldfs/other")" EPERM
	is "$(errno_of 'os.listdir(a[0])' "$DIR/m1/.celldfs/peers")" ENOTDIR
	is "$(getfattr -d -m - "$DIR/m1/.celldfs/peers" 2>&1)" ""
}

# As in /proc: who reads reads to the end. A size that changed between two looks of
# grep at it would be a hole, and the file a binary one.
@test "sizes are 0, and all read them to the end" {
	mount_at m1
	fleet 2
	is "$(cd "$DIR/m1/.celldfs" && stat -c %s status peers metrics | xargs)" "0 0 0"
	cat "$DIR/m1/.celldfs/peers" >"$DIR/peers"
	is "$(wc -l <"$DIR/peers")" 2
	is "$(stat -c %s "$DIR/m1/.celldfs/peers")" 0
	is "$(wc -c <"$DIR/m1/.celldfs/peers")" "$(stat -c %s "$DIR/peers")"
	tail -n 1 "$DIR/m1/.celldfs/peers" | cmp - <(tail -n 1 "$DIR/peers")
	cp "$DIR/m1/.celldfs/peers" "$DIR/copy"
	cmp "$DIR/copy" "$DIR/peers"
	grep -q '"f002"' "$DIR/m1/.celldfs/peers"
}

@test "an open file is a snapshot" {
	mount_at m1
	fleet 1
	exec 4<"$DIR/m1/.celldfs/metrics" 5<"$DIR/m1/.celldfs/peers"
	create "$DIR/m1/cells/c/own" "$(own n1 1)"
	fleet 2
	sleep 3.5
	is "$(peers m1 node | xargs)" "f001 f002"
	is "$(fields node <&5)" "f001"
	is "$(grep 'outcome="applied"' <&4)" 'celldfs_swaps_total{outcome="applied"} 0'
	# and stays one when it is read again
	is "$(python3 -c '
import os
print(os.pread(4, 1 << 20, 0).count(b"applied\"} 0"),
      os.pread(5, 1 << 20, 0).count(b"\n"))')" "1 1"
	exec 4<&- 5<&-
	is "$(metric m1 celldfs_swaps_total:applied)" 1
}

# --- .celldfs/metrics --------------------------------------------------------

@test "metrics are what Prometheus reads, and cost nothing" {
	spy_at m1 -o deadline-ms=9000
	: >"$DIR/m1.calls"
	is "$(metric m1 names)" "celldfs_authority_seconds\
 celldfs_clock_offset_seconds celldfs_failures_total celldfs_fenced celldfs_info\
 celldfs_lease_held celldfs_locks_held celldfs_locks_waiting\
 celldfs_reads_total celldfs_renewal_errors_total\
 celldfs_renewals_total celldfs_requests_in_store celldfs_requests_waiting\
 celldfs_resident_cells celldfs_store_clock_steps_total\
 celldfs_swaps_total:applied celldfs_swaps_total:rejected\
 celldfs_swaps_total:unknown celldfs_up celldfs_uptime_seconds"
	is "$(counted "$DIR/m1.calls")" "0 0 0"
	is "$(metric m1 celldfs_up)" 1
	is "$(metric m1 celldfs_info)" 1
	is "$(metric m1 celldfs_info:version)" "$(status_of m1 version)"
	is "$(metric m1 celldfs_info:store)" "$STORE"
	is "$(metric m1 celldfs_info:node)" ""
	is "$(metric m1 celldfs_lease_held)" 0
	is "$(metric m1 celldfs_fenced)" 0
	is "$(metric m1 celldfs_authority_seconds)" 0
	between 0.01 300 "$(metric m1 celldfs_uptime_seconds)"
	between -2 2 "$(metric m1 celldfs_clock_offset_seconds)"
	is "$(metric m1 celldfs_store_clock_steps_total)" 0
}

@test "the counters count" {
	local guard

	spy_at m1
	create "$DIR/m1/cells/c/own" "$(own n1 1)"
	is "$(metric m1 celldfs_swaps_total:applied)" 1
	is "$(metric m1 celldfs_failures_total)" 0
	guard=$(etag "$DIR/m1/cells/c/own")
	swap "$DIR/m1/cells/c/own" "$(own n1 2)"
	arm "$DIR/m1/cells/c/own" "$guard"
	run bash -c 'echo "$1" >"$2"' bash "$(own n1 3)" "$DIR/m1/cells/c/own"
	[ "$status" -ne 0 ]
	is "$(metric m1 celldfs_swaps_total:applied)" 2
	is "$(metric m1 celldfs_swaps_total:rejected)" 1
	# without a guard
	run bash -c 'echo "$1" >"$2"' bash "$(own n1 3)" "$DIR/m1/cells/c/own"
	[ "$status" -ne 0 ]
	is "$(metric m1 celldfs_failures_total)" 1
	rules m1 'get cells/* hang'
	behind "$DIR/out" cat "$DIR/m1/cells/c/own"
	until_is 1 metric m1 celldfs_requests_in_store
	rules m1
	kill -INT $!
	until_is 0 metric m1 celldfs_requests_in_store
	is "$(metric m1 celldfs_requests_waiting)" 0
	is "$(metric m1 celldfs_reads_total)" "$(status_of m1 reads)"
}

@test "the lease's: held, renewed, fenced" {
	mount_at m1 -o node=n1,ttl-ms=3000
	is "$(metric m1 celldfs_info:node)" n1
	is "$(metric m1 celldfs_lease_held)" 1
	is "$(metric m1 celldfs_fenced)" 0
	between 0.05 3 "$(metric m1 celldfs_authority_seconds)"
	is "$(metric m1 celldfs_resident_cells)" 0
	create "$DIR/m1/cells/c/own" "$(own n1 1)"
	is "$(metric m1 celldfs_resident_cells)" 1
	sleep 2.5
	between 2 99 "$(metric m1 celldfs_renewals_total)"
	is "$(metric m1 celldfs_lease_held)" 1
	outside rm nodes/n1.json
	until_is 1 metric m1 celldfs_fenced
	is "$(metric m1 celldfs_lease_held)" 0
	is "$(metric m1 celldfs_authority_seconds)" 0
	between 1 99 "$(metric m1 celldfs_renewal_errors_total)"
}

@test "a label holds whatever a store's path does" {
	local odd

	only_on sqlite "a bucket's name has no such bytes"
	odd=$'we"ird\\na\\\\me\n{x="y"} \t\xc3\xbc,='
	mkdir "$DIR/$odd"
	STORE="sqlite:$DIR/$odd/store.db"
	mount_at m1
	is "$(metric m1 celldfs_info:store)" "$STORE"
	unmount m1
	MOUNTS=()
	# what is not UTF-8 cannot be said there
	STORE=sqlite:$DIR/$'a\xff\xc3b.db'
	mount_at m1
	is "$(metric m1 celldfs_info:store)" "sqlite:$DIR/a��b.db"
}

# --- .celldfs/peers ----------------------------------------------------------

@test "a fleet of one mount: its own lease" {
	local before

	mount_at m1 -o node=n1,addr=host-1:7000
	create "$DIR/m1/cells/c/own" "$(own n1 1)"
	before=$(fields expires_ms <"$DIR/m1/nodes/n1")
	is "$(peers m1 node state addr resident_cells generation)" \
		"n1 alive host-1:7000 0 $(status_of m1 generation)"
	between 5000 10100 "$(peers m1 expires_in_ms)"
	# it may have been renewed meanwhile
	between "$before" "$(fields expires_ms <"$DIR/m1/nodes/n1")" \
		"$(peers m1 expires_ms)"
}

@test "an empty fleet is an empty file" {
	mount_at m1
	is "$(cat "$DIR/m1/.celldfs/peers" | wc -c)" 0
}

# A malformed one hides nobody, and neither does any other.
@test "all kinds of leases, in their order" {
	local soon

	mount_at m1 -o skew-ms=600000
	soon=$(($(now_ms) + 300000))
	put nodes/busy.json '{"node":"busy","expires_ms":'$soon',"addr":"h1",'"$(
		load_of 90)}"
	put nodes/free.json '{"node":"free","expires_ms":'$soon',"addr":"h2",'"$(
		load_of 7)"',"ownership_index_generation":"g7","more":[1]}'
	put nodes/also.json "$(lease also $soon '')"
	put nodes/given.json "$(lease given 0)"
	put nodes/past.json "$(lease past 1000)"
	put nodes/margin.json "$(lease margin $((soon - 310000)))"
	put nodes/log.json '{"node":"log","expires_ms":1000,"log":{"state":"open",
		"epoch":1,"ensemble":[],"tiered":0}}'
	put nodes/name.json "$(lease other $soon)"
	put nodes/far.json "$(lease far $((soon + 365250 * 86400000)))"
	put nodes/empty.json ''
	put nodes/html.json '<html></html>'
	put nodes/half.json '{"node":"half","expires_ms":'$soon',"load":{}}'
	put nodes/case.json '{"Node":"case","expires_ms":'$soon'}'
	put nodes/wrong.json '{"node":"wrong","expires_ms":"soon"}'
	head -c 1048577 /dev/zero | outside put nodes/large.json
	put 'nodes/a b.json' '{}'
	put nodes/no-lease '{}'
	put nodes/dir/x.json '{}'
	cat "$DIR/m1/.celldfs/peers" >"$DIR/peers"
	is "$(fields node state resident_cells <"$DIR/peers")" "\
also alive 0
far alive 0
free alive 7
busy alive 90
case malformed -
empty malformed -
given dead 0
half malformed -
html malformed -
large unreadable -
log unknown 0
margin unknown 0
name unknown 0
past dead 0
wrong malformed -"
	why() { sed -n "s/^$1 //p" <(fields node why <"$DIR/peers"); }
	is "$(grep -c '"why":""' "$DIR/peers")" 0
	[[ $(why far) == *'a wrong clock?'* ]]
	[[ $(why free) == *'alive for another '*'(addr h2)' ]]
	[[ $(why given) == 'its lease was given up' ]]
	[[ $(why margin) == *'within the skew margin'* ]]
	[[ $(why log) == *'its log is open'* ]]
	[[ $(why name) == *'names other' ]]
	[[ $(why half) == *'load.sampled_ms'*'missing' ]]
	[[ $(why wrong) == *'"expires_ms" is "soon" (byte 30)'* ]]
	[[ $(why large) == 'too large'* ]]
	is "$(fields node addr generation <"$DIR/peers" | sed -n 3p)" "free h2 g7"
	is "$(fields node expires_in_ms <"$DIR/peers" | grep given)" "given 0"
	between -400000 -10000 "$(fields node expires_in_ms <"$DIR/peers" |
		sed -n 's/^margin //p')"
	between 200000 300000 "$(fields node expires_in_ms <"$DIR/peers" |
		sed -n 's/^free //p')"
	is "$(fields node modified_ms <"$DIR/peers" | sed -n 's/^half //p')" \
		"$(outside modified nodes/half.json)"
}

@test "what a stranger wrote into a lease stays within its quotes" {
	local soon

	mount_at m1
	soon=$(($(now_ms) + 300000))
	printf '{"node":"n1","expires_ms":%d,"addr":"%s","%s":"%s"}' $soon \
		'\u0001\n\"},{\"node\":\"evil\\\u007f\u00ff\ud83d\ude00' \
		ownership_index_generation "$(printf 'g\\u2028\xc3\xbc\\t\\/')" |
		outside put nodes/n1.json
	# longer than what is kept of it, and cut in the midst of a character
	printf '{"node":"n2","expires_ms":%d,"addr":"%s"}' $soon \
		"$(printf '\xe2\x82\xac%.0s' {1..200})" | outside put nodes/n2.json
	# cut by the reason's own length
	printf '{"node":"n3","expires_ms":"%s"}' "$(
		printf '\xf0\x9f\x98\x80\\"%.0s' {1..200})" |
		outside put nodes/n3.json
	python3 - "$DIR/m1/.celldfs/peers" <<-'PY'
		import json, sys
		bytes = open(sys.argv[1], "rb").read()
		assert bytes.count(b"\n") == 3, bytes
		assert not any(b < 0x20 and b != 10 for b in bytes), bytes
		n1, n2, n3 = map(json.loads, bytes.decode().splitlines())
		assert n1["addr"] == '\x01\n"},{"node":"evil\\\x7f\xff\U0001f600', n1
		assert n1["generation"] == "g\u2028\xfc\t/", n1
		assert n1["state"] == n2["state"] == "alive"
		assert n2["addr"] == "\u20ac" * 85, n2
		assert n3["state"] == "malformed", n3
	PY
}

@test "who has not been heard of for a minute is not read" {
	local nodes

	only_on sqlite "S3 lets nobody set Last-Modified"
	spy_at m1
	fleet 5
	nodes=$(peers m1 node | xargs)
	is "$nodes" "f001 f002 f003 f004 f005"
	sqlite3 "${STORE#sqlite:}" "UPDATE record SET modified_ms =
		modified_ms - 50000 WHERE key = 'nodes/f001.json';
		UPDATE record SET modified_ms = modified_ms - 60001
		WHERE key IN ('nodes/f002.json', 'nodes/f004.json');"
	sleep 3.5
	is "$(calls m1 cat "$DIR/m1/.celldfs/peers")" "3 0 1"
	is "$(peers m1 node | xargs)" "f001 f003 f005"

	# for a mount with a longer ttl it is longer
	mount_at m2 -o node=n2,ttl-ms=30000
	is "$(peers m2 node | xargs)" "f001 f002 f003 f004 f005 n2"
}

@test "100 nodes, 16 read at a time" {
	local start

	spy_at m1
	fleet 100
	rules m1 'get nodes/* delay 500'
	start=$(now_ms)
	is "$(calls m1 cat "$DIR/m1/.celldfs/peers")" "100 0 1"
	# seven rounds of 16
	[ $(($(now_ms) - start)) -ge 3500 ]
	within 8000 "$start"
	rules m1
	sleep 3.5
	is "$(peers m1 node state | sort | uniq -c | wc -l)" 100
	is "$(peers m1 state | sort -u)" alive
	is "$(peers m1 node | head -n 2 | xargs)" "f001 f002"
}

@test "one that hangs costs half the time that there is, and hides nobody" {
	local start

	spy_at m1 -o deadline-ms=6000
	fleet 20
	rules m1 'get nodes/f007.json hang' 'get nodes/f009.json fail denied' \
		'get nodes/f010.json fail absent' 'get nodes/f011.json html'
	start=$(now_ms)
	cat "$DIR/m1/.celldfs/peers" >"$DIR/peers"
	[ $(($(now_ms) - start)) -ge 2500 ]
	within 5000 "$start"
	is "$(fields state <"$DIR/peers" | sort | uniq -c | xargs)" \
		"16 alive 1 malformed 2 unreadable"
	is "$(fields node state <"$DIR/peers" | tail -n 3 | xargs)" \
		"f007 unreadable f009 unreadable f011 malformed"
	[[ $(sed -n '/f007/p' "$DIR/peers" | fields why) == timeout* ]]
	[[ $(sed -n '/f009/p' "$DIR/peers" | fields why) == denied* ]]
}

@test "within ttl/3 it is the same, without a request; then it is asked again" {
	spy_at m1 -o node=me,ttl-ms=30000
	fleet 3
	is "$(calls m1 cat "$DIR/m1/.celldfs/peers")" "4 0 1"
	cat "$DIR/m1/.celldfs/peers" >"$DIR/peers"
	fleet 4
	is "$(calls m1 cat "$DIR/m1/.celldfs/peers")" "0 0 0"
	cmp "$DIR/m1/.celldfs/peers" "$DIR/peers"

	spy_at m2 -o node=short,ttl-ms=3000
	is "$(peers m2 node | xargs)" "f001 f002 f003 f004 me short"
	fleet 5
	sleep 1.1
	is "$(peers m2 node | xargs)" "f001 f002 f003 f004 f005 me short"
	# one list a second, and no more
	: >"$DIR/m2.calls"
	python3 - "$DIR/m2/.celldfs/peers" <<-'PY'
		import sys, time
		end = time.monotonic() + 4.5
		while time.monotonic() < end:
		    open(sys.argv[1]).read()
		    time.sleep(0.02)
	PY
	between 3 6 "$(listed m2)"
}

@test "many that open it at once share one survey" {
	local n pids=()

	spy_at m1
	fleet 10
	rules m1 'list nodes/ delay 6000'
	: >"$DIR/m1.calls"
	for ((n = 0; n < 20; n++)); do
		behind "$DIR/out$n" cat "$DIR/m1/.celldfs/peers"
		pids+=($!)
	done
	until_is 20 status_of m1 requests_in_store
	wait "${pids[@]}"
	is "$(counted "$DIR/m1.calls")" "10 0 1"
	is "$(wc -l <"$DIR/out0")" 10
	is "$(md5sum "$DIR"/out{0..19} | cut -d ' ' -f 1 | sort -u | wc -l)" 1
}

@test "a listing that fails is the open's errno, with a line in the log" {
	local file errno

	spy_at m1 -o deadline-ms=3000
	file=$DIR/m1/.celldfs/peers
	fleet 2
	for errno in failed:EIO denied:EACCES not-done:ECANCELED; do
		rules m1 "list nodes/ fail ${errno%:*}"
		is "$(errno_of 'open(a[0])' "$file")" "${errno#*:}"
		grep "open .celldfs/peers: ${errno#*:}: " "$DIR/m1.log"
	done
	is "$(metric m1 celldfs_failures_total)" 3
	rules m1 'list nodes/ hang'
	is "$(errno_of 'open(a[0])' "$file")" ETIMEDOUT
	grep -q 'open .celldfs/peers: ETIMEDOUT: timeout' "$DIR/m1.log"
	rules m1
	is "$(peers m1 node | xargs)" "f001 f002"
}

@test "Ctrl-C ends it while it lists, reads, and waits; the next one goes on" {
	local first second

	spy_at m1 -o deadline-ms=30000
	fleet 40
	rules m1 'list nodes/ hang x1' 'get nodes/f040.json hang'
	: >"$DIR/m1.calls"
	behind "$DIR/first" cat "$DIR/m1/.celldfs/peers"
	first=$!
	until_is 1 status_of m1 requests_in_store
	behind "$DIR/second" cat "$DIR/m1/.celldfs/peers"
	second=$!
	behind "$DIR/third" cat "$DIR/m1/.celldfs/peers"
	until_is 3 status_of m1 requests_in_store
	# one that waits
	kill -INT $!
	is_gone $! 1500
	until_is 2 status_of m1 requests_in_store
	is "$(listed m1)" 0
	# the one that lists: the other one that waits lists anew
	kill -INT "$first"
	is_gone "$first" 1500
	until_is 2 listed m1
	until_is 39 grep -c '^get nodes/.* applied' "$DIR/m1.calls"
	kill -0 "$second"
	# it reads, and one of its reads hangs
	kill -INT "$second"
	is_gone "$second" 1500
	until_is 0 status_of m1 requests_in_store
	is "$(grep -c 'interrupted' "$DIR/m1.calls")" 2
	rules m1
	is "$(peers m1 state | sort | uniq -c | xargs)" "40 alive"
}

@test "Ctrl-C while all 16 hang" {
	spy_at m1 -o deadline-ms=30000
	fleet 100
	rules m1 'get nodes/* hang'
	: >"$DIR/m1.calls"
	behind "$DIR/out" cat "$DIR/m1/.celldfs/peers"
	until_is 1 listed m1
	sleep 0.5
	kill -INT $!
	is_gone $! 1500
	until_is 0 status_of m1 requests_in_store
	is "$(cut -d ' ' -f 1,3 "$DIR/m1.calls" | grep -v now | sort | uniq -c |
		xargs)" "16 get interrupted 1 list applied"
}

@test "whoever waits has a deadline of his own" {
	local first

	spy_at m1 -o deadline-ms=4000
	rules m1 'list nodes/ hang'
	behind "$DIR/first" cat "$DIR/m1/.celldfs/peers"
	first=$!
	sleep 2
	start=$(now_ms)
	is "$(errno_of 'open(a[0])' "$DIR/m1/.celldfs/peers")" ETIMEDOUT
	[ $(($(now_ms) - start)) -ge 3900 ]
	within 5500 "$start"
	status=0
	wait "$first" || status=$?
	is "$status" 1
	grep -q 'timed out' "$DIR/first.err"
}

@test "while the store hangs, status, metrics and what is known of peers answer" {
	local n start pids=()

	spy_at m1 -o node=me,ttl-ms=30000,deadline-ms=20000
	fleet 3
	create "$DIR/m1/cells/c/own" "$(own me 1)"
	cat "$DIR/m1/cells/c/own" "$DIR/m1/.celldfs/peers" >/dev/null
	rules m1 'get cells/* hang'
	for ((n = 0; n < 58; n++)); do
		behind "$DIR/out" cat "$DIR/m1/cells/c/own"
		pids+=($!)
	done
	until_is 2 status_of m1 requests_waiting
	start=$(now_ms)
	is "$(peers m1 node | xargs)" "f001 f002 f003 me"
	is "$(metric m1 celldfs_requests_waiting)" 2
	within 4000 "$start"
	kill -INT "${pids[@]}" 2>/dev/null || true
	until_is 0 status_of m1 requests_in_store
}

@test "two mounts, read-only and not, see the same fleet" {
	mount_at m1 -o node=n1
	mount_at m2 -o ro
	is "$(peers m1 node state)" "n1 alive"
	is "$(peers m2 node state)" "n1 alive"
	is "$(metric m2 celldfs_info:node)" ""
}
