#!/usr/bin/env bats
# run_cut: celldfs-run on nodes that are cut off the network. The other troubles are
# in test/fs/run.bats.

load nodes
load "$HERE/run"

eval "nodes_$(declare -f teardown)"
teardown() {
	end_started
	nodes_teardown
}

# clock_ahead: how far the gateway's clock, which is this machine's, is ahead of
# CLOCK_BOOTTIME, at most: the quickest of some looks.
clock_ahead() {
	python3 -c '
import time
print(min(int((-time.clock_gettime(time.CLOCK_BOOTTIME) + time.time()) * 1000 + 1)
          for _ in range(100)))'
}

# ended NODE AHEAD: how the command there did.
ended() {
	local end=$(($(expires "$1") - $2))

	status_is 112 wait "${PIDS[$1]}"
	grep -q "$1: lost at epoch 1: .*\(the lease was not seen\|fenced: expired\)" \
		"$DIR/$1.err" || { cat "$DIR/$1.err"; return 1; }
	echo "$1: dead $((end - $(sort -n "$DIR/$1".{1,2,3} | tail -n 1))) ms before"
	dead_by "$1" $((end - 100))
}

# A turn is four nodes at once, each somewhere else between two renewals.
@test "the network is cut: dead 100 ms before the published expiry, and before another node begins" {
	local turns=1 turn node nodes ahead first

	[ -z "${CELLDFS_LONG:-}" ] || turns=10
	a_network
	TTL=30000 node_at b # is not to be disturbed
	at network start_proxy --listen "$HOST"
	ahead=$(clock_ahead)
	for ((turn = 1; turn <= turns; turn++)); do
		nodes=$(echo "$turn"-{1..4})
		for node in $nodes; do
			mount_in_network "$node"
			M=$DIR/$node CELL=$node beating "$node"
			until_true is_beating "$node"
			M=$DIR/b CELL=$node start_run "b$node" -- \
				"$TOOLS/heartbeat" "$DIR/b$node"
			until_true grep -qs waiting "$DIR/b$node.err"
		done
		sleep "0.$((RANDOM % 10))$((RANDOM % 10))"
		ip link set "$CABLE" down
		for node in $nodes; do ended "$node" "$ahead"; done
		for node in $nodes; do
			until_true test -s "$DIR/b$node"
			read -r first <"$DIR/b$node"
			dead_by "$node" $((first - 100))
			kill "${PIDS[b$node]}"
			status_is 143 wait "${PIDS[b$node]}"
			owned "$node" "" 2
		done
		ip link set "$CABLE" up
		for node in $nodes; do unmount "$node"; done
	done
}
