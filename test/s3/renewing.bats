#!/usr/bin/env bats
# renewing: what a lease on a real gateway costs, and what it survives: a store that
# throttles, keys that expire, a store's clock that steps.

load nodes

@test "a quiet lease costs one PUT every third of its ttl, and nothing else" {
	local counted sent

	node_at a
	at a mark
	until_true 20 at_least 6 a
	is "$(at a requests '(r["op"], r["key"], r["status"]) !=
		("PUT", "nodes/a.json", 200)')" ""
	# Five periods; on the way to the proxy some of the time may be lost.
	at a requests True begun | python3 -c '
import sys
times = [float(line) for line in sys.stdin]
print(times)
assert times[5] - times[0] > 5 * int(sys.argv[1]) / 3000 - 0.3
' $TTL
	# the status counts them and the acquisition
	counted=$(status_of a renewals)
	rm "$DIR/a.requests.mark"
	sent=$(renewals a)
	[ "$counted" -le "$sent" ]
	[ "$sent" -le "$(status_of a renewals)" ]
	is "$(status_of a renewal_errors)" 0
}

at_least() { [ "$(renewals "$2")" -ge "$1" ]; }

@test "throttled writes of cells: ECANCELED, and the lease is kept" {
	local k writers=()

	node_at a -o deadline-ms=5000
	at a mark
	at a proxy_rules 'PUT cells/slow/* answer 503 SlowDown' \
		'PUT cells/* answer 429 SlowDown Retry-After=60'
	for k in slow {1..12}; do
		claim a "$k" 1 >"$DIR/writer.$k" 3>&- &
		writers+=($!)
	done
	wait "${writers[@]}"
	is "$(cat "$DIR"/writer.* | sort | uniq -c | xargs)" "13 ECANCELED"
	never_fenced a
	is "$(renewals a 'r["status"] != 200')" 0
	is "$(status_of a renewal_errors)" 0
	at a proxy_rules
	claimed a slow 1
	had_authority a
}

@test "throttled renewals: tried again while there is authority, whatever Retry-After says" {
	local node

	TTL=6000
	for node in a b c; do
		node_at "$node"
		at "$node" mark
	done
	at a proxy_rules 'PUT nodes/a.json answer 503 SlowDown 0-2000ms'
	at b proxy_rules 'PUT nodes/b.json answer 429 SlowDown 0-2000ms'
	at c proxy_rules 'PUT nodes/c.json answer 503 SlowDown Retry-After=60 x1'
	sleep 9
	for node in a b c; do
		is_renewing "$node"
		never_fenced "$node"
	done
	[ "$(renewals a 'r["status"] == 503')" -ge 2 ]
	[ "$(renewals b 'r["status"] == 429')" -ge 2 ]
	is "$(renewals c 'r["status"] == 503')" 1
	had_authority a b c
}

# is_renewing NODE: its last renewal was answered.
is_renewing() {
	is "$(puts "$1" "r['key'] == 'nodes/$1.json'" status | tail -n 1)" 200
}

eval "nodes_$(declare -f teardown)"

teardown() {
	local failed=0

	nodes_teardown || failed=1
	[ -z "${KEY-}" ] || drop_key || failed=1
	return $failed
}

# admin COMMAND...: of the gateway.
admin() {
	timeout 60 radosgw-admin -c "$BUILD/gateway/ceph.conf" \
		-n client.radosgw.a "$@" >"$DIR/admin" 2>&1 ||
		{ cat "$DIR/admin"; return 1; }
}

drop_key() {
	admin key rm --uid=test --access-key="$KEY"
	KEY=
}

# keys ID SECRET: what the daemon finds when it reads them again.
keys() {
	printf '[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n' \
		"$1" "$2" >"$DIR/credentials.new"
	mv "$DIR/credentials.new" "$DIR/credentials"
}

@test "keys that are rotated: renewals and writes go on" {
	KEY=AKIATEST$(printf %s "$DIR" | md5sum | head -c 12 | tr a-f A-F)
	admin key create --uid=test --access-key="$KEY" --secret-key=other
	keys "$KEY" other
	# only the daemon: outside.py has its own in the environment
	printf '#!/bin/sh\nunset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY\n%s\n' \
		"exec '$BUILD/celldfs' \"\$@\"" >"$DIR/celldfs"
	chmod +x "$DIR/celldfs"
	at a start_proxy
	AWS_SHARED_CREDENTIALS_FILE=$DIR/credentials AWS_ENDPOINT_URL=$ENDPOINT \
		mount_with "$DIR/celldfs" a -o "node=a,ttl-ms=$TTL,log=$DIR/a.log"
	claimed a c 1
	keys "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY"
	at a mark
	drop_key
	until_true 10 refused a
	sleep 3.5
	is_renewing a
	never_fenced a
	claimed a c 2
	had_authority a
}

# refused NODE: a renewal was.
refused() { [ "$(renewals "$1" 'r["status"] == 403')" -gt 0 ]; }

@test "a 404 that is not in the store's words: no lease is absent, and none was removed" {
	node_at a
	node_at b
	claimed a c 1
	at b proxy_rules 'GET nodes/a.json answer 404'
	is "$(claim b c 2)" EIO
	at a mark
	at a proxy_rules '* nodes/a.json answer 404 0-1000ms'
	until_true 5 renewed a
	[ "$(at a requests 'r["status"] == 404' | wc -l)" -ge 2 ]
	never_fenced a
	had_authority a
}

# the_clock NODE SECONDS: the store's as the node sees it, from now on so far from
# the true one.
the_clock() { at "$1" proxy_rules "clock $2 $(date +%s)"; }

# knows_clock NODE SECONDS: its status tells that the store's clock is so far off.
knows_clock() {
	local off

	off=$(($(status_of "$1" clock_offset_ms) + $2 * 1000))
	[ "${off#-}" -lt 5000 ]
}

# goes_on MS: for so long b does not get a's cell, and both leases are kept.
goes_on() {
	local until_ms=$(($(now_ms) + $1))

	while [ "$(now_ms)" -lt "$until_ms" ]; do
		is "$(claim b c 9)" EBUSY
		sleep 0.1
	done
	never_fenced a
	never_fenced b
}

@test "the store's clock steps by an hour, and back: nobody is robbed or fenced" {
	local node shift steps=0

	node_at a
	node_at b
	claimed a c 1
	for shift in 3600 0; do
		the_clock b "$shift"
		# a has not heard of it yet
		goes_on 1500
		the_clock a "$shift"
		goes_on $((2 * TTL))
		steps=$((steps + 1))
		for node in a b; do
			[ "$(grep -c 'clock has stepped' "$DIR/$node.log")" -ge $steps ]
			knows_clock "$node" "$shift"
		done
		# who has not seen the step
		the_clock "new$steps" "$shift"
		node_at "new$steps"
		is "$(claim "new$steps" c 9)" EBUSY
	done
	claimed a c 2
	# A lease that has really run out; who has seen the clock step waits for
	# longer.
	node_at c
	kill -STOP "$(pid_of a)"
	until_true 20 claimed c c 3
	not_taken_early c c
	if [ -n "${CELLDFS_LONG:-}" ]; then
		kill -STOP "$(pid_of c)"
		until_true 100 claimed b c 4
	fi
	had_authority a b c
}

@test "a step of the store's clock that a user's read shows: the lease is renewed by it at once" {
	TTL=30000
	node_at a
	at a mark
	the_clock a 3600
	ls "$DIR/a/cells" >/dev/null
	knows_clock a 3600
	# and not at a third of its ttl, for who mounts now finds it expired
	until_true 7 renewed a
}

@test "two gateways, one 300 ms ahead: that is no step, and a takeover is in time" {
	node_at a
	node_at b
	at b proxy_rules 'GET * date 0.3'
	claimed a c 1
	kill -STOP "$(pid_of a)"
	until_true 15 claimed b c 2
	not_taken_early b c
	never_fenced b
	if grep 'has stepped' "$DIR/b.log"; then return 1; fi
}

@test "a Date that lies, while signatures are judged by the true time: this machine's clock signs" {
	at a proxy_rules '* * date 3600'
	node_at a
	is "$(outside keys probe/)" ""
	claimed a c 1
	at a proxy_rules
	until_renewed a
	claimed a c 2
	at a proxy_rules '* * date -3600'
	until_renewed a
	until_renewed a
	claimed a c 3
	never_fenced a
	# each time one is refused, and the next one is not
	[ "$(wc -l < <(at a requests 'r["status"] == 403'))" -le 2 ]
	had_authority a
}
