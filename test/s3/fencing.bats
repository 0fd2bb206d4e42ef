#!/usr/bin/env bats
# fencing: on a real gateway a node's lease is lost when it must be, and only then;
# nothing is written without one.

load nodes

# landed NODE: a renewal that was held back was applied.
landed() { [ "$(renewals "$1" 'r["rule"] and r["upstream"] == 200')" -gt 0 ]; }

# at_proxy NODE: a renewal hangs there.
at_proxy() { [ "$(renewals "$1" 'r["rule"]')" -gt 0 ]; }

@test "renewals that are held back: nothing is sent after the end, and a late 200 is none" {
	local for_s=6

	[ -z "${CELLDFS_LONG:-}" ] || for_s=20
	node_at a
	node_at b
	claimed a often 1
	claimed a slow 1
	at a python3 "$S3/stalled.py" "$DIR/a" a $TTL $for_s >"$DIR/end" 3>&- &
	until_true 10 is_fenced a expired
	until_true 10 claimed b slow 2
	wait $!
	is "$(cat "$DIR/end")" "$(end_of a)"
	fence_logged a
	not_taken_early b slow
	# now those that were held back arrive
	at a proxy_rules
	until_true 5 landed a
	sleep 0.5
	fenced_once a expired
	owned slow b 2
	is "$(puts a "r['begun'] * 1000 >= $(end_of a)")" ""
	had_authority a b
}

@test "a blip of 3.5 s, an answer that is lost: the lease is kept" {
	TTL=6000 node_at a
	node_at b
	# from the middle between a renewal and the next one on
	at a mark
	at a proxy_rules '* nodes/a.json reset 1000-4500ms'
	at b mark
	at b proxy_rules 'PUT nodes/b.json lose x1'
	until_true 5 renewed a
	sleep 5.5
	never_fenced a
	[ "$(at a requests 'r["rule"]' | wc -l)" -ge 4 ]
	[ "$(renewals a 'r["status"] == 200')" -ge 2 ]
	claimed a c 1
	# the one that is lost is read back, and its ETag is the next one's guard
	never_fenced b
	is "$(renewals b 'r["rule"]')" 1
	[ "$(renewals b)" -ge 3 ]
	is "$(renewals b 'r["upstream"] != 200')" 0
	is "$(at b requests 'r["op"] == "GET"' | wc -l)" 1
	TTL=6000 had_authority a
	had_authority b
}

# becomes NODE RECORD: from outside, its lease; "": it is removed. The gateway may
# drop a write without a guard that meets a renewal.
becomes() {
	if [ -n "$2" ]; then
		printf %s "$2" | outside put "nodes/$1.json"
	else
		outside rm "nodes/$1.json"
	fi
	is "$(outside get "nodes/$1.json")" "$2"
}

@test "a lease that is replaced, or removed: fenced at the next renewal, and left alone" {
	local node foreign

	foreign=$(lease a "$(($(now_ms) + 60000))" elsewhere:1)
	at c proxy_rules aws # which says 404
	for node in a b c; do node_at "$node"; done
	until_true 10 becomes a "$foreign"
	until_true 10 becomes b ""
	until_true 10 becomes c ""
	until_true 5 is_fenced a replaced
	until_true 5 is_fenced b removed
	until_true 5 is_fenced c removed
	for node in a b c; do at "$node" mark; done
	sleep 1.5
	fenced_once a replaced
	fenced_once b removed
	fenced_once c removed
	for node in a b c; do is "$(puts "$node")" ""; done
	is "$(outside get nodes/a.json)" "$foreign"
	is "$(outside keys nodes/)" nodes/a.json
}

@test "stopped beyond its ttl, taken over, continued: the first write is EROFS, nothing is sent" {
	node_at a
	node_at b
	claimed a c 1
	own "" 5 | outside put cells/free/own.json
	opened "$DIR/go" "$DIR/a/cells/c/own" "$(own a 2)" \
		"$DIR/a/cells/free/own" "$(own a 6)"
	# in the middle of a renewal
	until_renewed a
	at a proxy_rules 'PUT nodes/a.json hang'
	until_true 5 at_proxy a
	kill -STOP "$(pid_of a)"
	at a mark
	at a proxy_rules
	# They are there before it looks at the clock again. The second one's
	# guard still holds.
	: >"$DIR/go"
	until_true 10 claimed b c 2
	not_taken_early b c
	kill -CONT "$(pid_of a)"
	wait "$OPENED"
	is "$(cat "$DIR/go.errnos")" "EROFS EROFS"
	sleep 1.5
	fenced_once a expired
	is "$(puts a)" ""
	owned c b 2
	owned free "" 5
}

@test "cut off the network: fenced, taken over after the lease, and still fenced when it heals" {
	a_network
	node_in_network a
	node_at b
	claimed a c 1
	claimed a d 1
	opened "$DIR/cut" "$DIR/a/cells/c/own" "$(own a 2)"
	until_renewed a
	ip link set "$CABLE" down
	: >"$DIR/cut" # and it may still arrive, much later
	until_true 10 claimed b c 2
	wait "$OPENED"
	[[ $(cat "$DIR/cut.errnos") == @(ETIMEDOUT|EROFS) ]]
	not_taken_early b c
	fence_logged a
	ip link set "$CABLE" up
	until_true 10 cat "$DIR/a/cells/c/own"
	is "$(cat "$DIR/a/cells/c/own")" "$(own b 2)"
	claimed b c 3
	claimed b d 2
	sleep 1.5
	is "$(claim a c 4)" EROFS
	fenced_once a expired
	owned c b 3
	owned d b 2
	never_fenced b
	# whatever came late was refused
	is "$(puts a "r['key'].startswith('cells/') and r['upstream'] == 200 and
		r['begun'] * 1000 >= $(end_of a)")" ""
	had_authority b
}
