#!/usr/bin/env bats
# service: celldfs under a service manager, and under mount(8).

bats_require_minimum_version 1.5.0
load helper

SCRIPTS=$(cd "$HERE/../../scripts" && pwd)

listener() {
	export NOTIFY_SOCKET=$DIR/notify
	manager "$NOTIFY_SOCKET"
}

teardown_listener() { kill "$manager" && wait "$manager" || true; }

# until_told COUNT LINE
until_told() {
	local end=$((SECONDS + 20))

	until [ "$(grep -cFx "$2" "$DIR/told")" -ge "$1" ]; do
		sleep 0.02
		[ "$SECONDS" -lt "$end" ] && continue
		cat "$DIR/told"
		return 1
	done
}

@test "service: READY=1 when it serves, WATCHDOG=1 while it answers, STOPPING=1 at the end" {
	local pings

	listener
	WATCHDOG_USEC=300000 spy_at m
	is "$(head -n 1 "$DIR/told")" READY=1
	until_told 3 WATCHDOG=1
	# the store is not asked, and may hang
	put cells/x/own.json '{"node":"a","epoch":1}'
	rules m "get * hang"
	cat "$DIR/m/cells/x/own" 3>&- &
	pings=$(grep -c WATCHDOG "$DIR/told")
	until_told $((pings + 4)) WATCHDOG=1
	rules m
	kill $!
	wait $! || true
	unmount m
	until_told 1 STOPPING=1
	is "$(grep -vxe READY=1 -e WATCHDOG=1 -e STOPPING=1 "$DIR/told")" ""
	is "$(grep -c READY=1 "$DIR/told")" 1
	teardown_listener
}

@test "service: a mount that does not answer does not ping" {
	local pings

	listener
	LD_PRELOAD=$TOOLS/unanswered.so UNANSWERED=$DIR/unanswered \
		WATCHDOG_USEC=300000 mount_at m
	until_told 2 WATCHDOG=1
	touch "$DIR/unanswered"
	sleep 0.5 # one may be on its way
	pings=$(grep -c WATCHDOG "$DIR/told")
	sleep 1
	is "$(grep -c WATCHDOG "$DIR/told")" "$pings"
	rm "$DIR/unanswered"
	until_told $((pings + 2)) WATCHDOG=1
	unmount m
	teardown_listener
}

@test "service: no pings that nobody asked for, and no manager" {
	listener
	mount_at a
	unmount a
	WATCHDOG_USEC=300000 WATCHDOG_PID=1 mount_at b
	sleep 0.3
	unmount b
	until_told 2 STOPPING=1
	is "$(tr '\n' ' ' <"$DIR/told")" "READY=1 STOPPING=1 READY=1 STOPPING=1 "
	teardown_listener
	NOTIFY_SOCKET=$DIR/nobody WATCHDOG_USEC=300000 mount_at c
	grep -q 'the service manager was not told' "$DIR/c.log"
	cat "$DIR/c/.celldfs/status" >/dev/null
	NOTIFY_SOCKET='' mount_at d
}

@test "service: an abstract socket" {
	python3 - >"$DIR/told" 3>&- <<-'PY' &
		import os, socket
		manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
		manager.bind(f"\0celldfs-test-{os.getppid()}")
		manager.settimeout(20)
		print(flush=True)
		print(manager.recv(4096).decode(), flush=True)
	PY
	listener=$!
	until [ -s "$DIR/told" ]; do sleep 0.02; done
	NOTIFY_SOCKET=@celldfs-test-$$ mount_at m
	wait $listener
	is "$(tail -n 1 "$DIR/told")" READY=1
}

@test "service: the unit is valid, and starts what there is" {
	local unit="$DIR/celldfs@x.service"

	sed "s,^ExecStart=celldfs ,ExecStart=$BUILD/celldfs ," \
		"$SCRIPTS/celldfs@.service" >"$unit"
	run systemd-analyze verify --man=no "$unit"
	is "$status $output" "0 "
}

# in_namespace COMMANDS: as root, where /usr/sbin holds our helpers.
in_namespace() {
	[ "$(id -u)" -eq 0 ] || skip "only root mounts with mount(8)"
	unshare -m true 2>/dev/null || skip "no mount namespaces"
	run --separate-stderr unshare -m env SCRIPTS="$SCRIPTS" \
		BUILD="$BUILD" DIR="$DIR" bash -euc '
		mount -t tmpfs -o mode=755 tmpfs /usr/sbin
		mount -t tmpfs -o mode=755 tmpfs /run
		install -m 755 "$SCRIPTS"/*mount.fuse.celldfs /usr/sbin
		ln -s "$BUILD/celldfs" /usr/sbin # the PATH is made by mount(8)
		mkdir -p "$DIR/m"
		'"$1" 3>&-
	echo "$output$stderr"
	[ "$status" -eq 0 ]
}

@test "service: mount(8) and umount(8), with a line of fstab" {
	only_on sqlite "the store makes no difference"
	in_namespace '
		echo "sqlite:$DIR/f.db $DIR/m fuse.celldfs node=a,noauto,_netdev,uid=7 0 0" \
			>"$DIR/fstab"
		mount --fstab "$DIR/fstab" "$DIR/m"
		pid=$(sed -n "s/^pid //p" "$DIR/m/.celldfs/status")
		grep -qx "node a" "$DIR/m/.celldfs/status"
		[ "$(stat -c %u "$DIR/m/nodes/a")" -eq 7 ]
		! mount --fstab "$DIR/fstab" "$DIR/m" 2>"$DIR/err"
		umount "$DIR/m"
		# umount.fuse.celldfs has waited
		! grep -q "^State:[[:space:]]*[^ZX[:space:]]" "/proc/$pid/status"'
}

@test "service: mount.fuse.celldfs: options, fake, usage" {
	local helper="$SCRIPTS/mount.fuse.celldfs"

	PATH=$BUILD:$PATH
	dash -n "$helper"
	run "$helper" --help
	[ "$status" -eq 0 ]
	run "$helper" "$STORE"
	is "$status" 1
	run "$helper" "$STORE" "$DIR/m" -x
	is "$status" 1
	run "$helper" "$STORE" "$DIR/m" more
	is "$status" 1
	mkdir "$DIR/m"
	run "$helper" "$STORE" "$DIR/m" -fv -o ro -o uid=7
	is "$output" "mount.fuse.celldfs: celldfs $STORE $DIR/m -o ro,uid=7"
	! mountpoint -q "$DIR/m"
	run "$helper" "$STORE" "$DIR/m" -o no-such=1
	is "$status" 2
	[[ $output == *"no-such"* ]]
}
