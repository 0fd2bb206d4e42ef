#!/usr/bin/env bats
# umount.fuse.celldfs(8): after it the daemon has ended.

bats_require_minimum_version 1.5.0
load helper

HELPER=$(cd "$HERE/../../scripts" && pwd)/umount.fuse.celldfs

ROOT_ONLY="only root unmounts with umount -i"

# helper STATUS ARGUMENT...: runs it and expects that exit status. Sets $stderr
# and $took, in ms.
helper() {
	local expected=$1 start

	shift
	start=$(now_ms)
	run --separate-stderr "$HELPER" "$@"
	took=$(($(now_ms) - start))
	[ "$status" -eq "$expected" ] && return
	printf '%s\nexit status %s, not %s\n' "$output$stderr" "$status" "$expected"
	return 1
}

# ended NAME: its daemon has, already. Nobody may be there to reap it.
ended() { has_ended "$(pid_of "$1")"; }
has_ended() {
	grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status" 2>/dev/null ||
		return 0
	echo "process $1 is still there"
	return 1
}

# fake NAME SCRIPT: a command that is found before the system's.
fake() {
	mkdir -p "$DIR/bin"
	printf '#!/bin/bash\n%s\n' "$2" >"$DIR/bin/$1"
	chmod +x "$DIR/bin/$1"
}

mounted() { awk -v dir="$DIR/$1" '$2 == dir' /proc/mounts | grep -q .; }

@test "umount: dash and bash parse it; --help fits a screen; usage errors" {
	dash -n "$HELPER"
	bash -n "$HELPER"
	helper 0 --help
	is "$stderr" ""
	[ "${#lines[@]}" -ge 8 ]
	[ "$(wc -l <<<"$output")" -le 24 ]
	[ "$(wc -L <<<"$output")" -le 80 ]
	mount_at m
	helper 1
	helper 1 "$DIR/m" "$DIR/m"
	helper 1 "$DIR/m" -x
	helper 1 "$DIR/m" -lx
	helper 1 "$DIR/m" -
	helper 1 "$DIR/m" -t
	helper 1 "$DIR/m" -N
	[[ $stderr == "umount.fuse.celldfs: "*--help ]]
	mounted m
}

@test "umount: it returns when the daemon has ended, and the lease is given up" {
	for shell in dash bash; do
		mount_at $shell -o node=$shell
		run --separate-stderr "$shell" "$HELPER" "$DIR/$shell"
		is "$status $output$stderr" "0 "
		ended $shell
		run ! mounted $shell
		[[ $(outside get nodes/$shell.json) == *'"expires_ms":0'* ]]
	done
	# keeps none
	mount_at m
	helper 0 "$DIR/m" -v
	ended m
}

@test "umount: a last write that takes long is waited for, with a word" {
	mount_at m -o node=a
	fake umount "kill -STOP $(pid_of m) && /usr/bin/umount \"\$@\"
		(sleep 3.5; kill -CONT $(pid_of m)) >/dev/null 2>&1 3>&- &"
	PATH=$DIR/bin:$PATH helper 0 "$DIR/m"
	[[ $stderr == *"process $(pid_of m), still writes"* ]]
	ended m
	[ "$took" -ge 3400 ]
	[[ $(outside get nodes/a.json) == *'"expires_ms":0'* ]]
}

@test "umount: no longer than deadline-ms and 5 s: 2" {
	mount_at m -o deadline-ms=1000
	fake umount "kill -STOP $(pid_of m) && /usr/bin/umount \"\$@\""
	PATH=$DIR/bin:$PATH helper 2 "$DIR/m"
	[[ $stderr == *"process $(pid_of m), has not ended"* ]]
	run ! mounted m
	[ "$took" -ge 4900 ]
	! timed || [ "$took" -lt 12000 ]
	kill -CONT "$(pid_of m)"
}

@test "umount: a busy mount: 32, and nothing has changed" {
	mount_at m -o node=a
	create "$DIR/m/cells/c/own" "$(own a 1)"
	exec 7<"$DIR/m/cells/c/own"
	helper 32 "$DIR/m"
	[[ $stderr == *busy* ]]
	mounted m
	is "$(cat "$DIR/m/cells/c/own")" "$(own a 1)"
	grep -q '^lease held' "$DIR/m/.celldfs/status"
	helper 32 "$DIR/m" -r
	is "$(stat -c %a "$DIR/m/cells/c/own")" 644
	awk -v dir="$DIR/m" '$2 == dir && $4 ~ /^rw,/' /proc/mounts | grep -q .
	exec 7<&-
	helper 0 "$DIR/m"
}

@test "umount -f: a mount that hangs, and one that does not" {
	mount_at m -o node=a
	helper 0 "$DIR/m" -f
	is "$stderr" ""
	ended m
	mount_at n
	kill -STOP "$(pid_of n)"
	(sleep 7; kill -CONT "$(pid_of n)") 3>&- &
	helper 2 "$DIR/n" -f
	run ! mounted n
	wait $!
}

@test "umount -l: a busy mount is detached; its daemon goes on" {
	mount_at m
	mount_at idle -o node=a
	create "$DIR/m/cells/c/own" "$(own a 1)"
	exec 7<"$DIR/m/cells/c/own"
	helper 0 "$DIR/m" -l
	[[ $stderr == *"goes on for as long as files are open"* ]]
	run ! mounted m
	is "$(cat <&7)" "$(own a 1)"
	exec 7<&-
	wait_gone "$(pid_of m)"
	# one that is not in use ends
	helper 0 "$DIR/idle" -l
	! timed || is "$stderr" ""
	ended idle
}

@test "umount: a mount whose daemon has died" {
	mount_at m -o node=a
	kill -KILL "$(pid_of m)"
	wait_gone "$(pid_of m)"
	mounted m
	helper 0 "$DIR/m"
	is "$stderr" ""
	run ! mounted m
}

@test "umount: a daemon that hangs: unmounted all the same, and 2" {
	mount_at m
	kill -STOP "$(pid_of m)"
	helper 2 "$DIR/m"
	[[ $stderr == *"could not be watched"* ]]
	run ! mounted m
	[ "$took" -lt 15000 ]
	kill -CONT "$(pid_of m)"
}

@test "umount: what is no celldfs is left alone: 32" {
	mkdir "$DIR/m"
	helper 32 "$DIR/m"
	[[ $stderr == *"no celldfs is mounted at $DIR/m"* ]]
	helper 32 "$DIR/none"
	helper 32 /proc
	# by whatever lies over it
	mount_at over
	mount -t tmpfs tmpfs "$DIR/over"
	helper 32 "$DIR/over"
	/usr/bin/umount "$DIR/over"
	mounted over
}

@test "umount: a strange name, a relative path, a link" {
	name=$'-a b\\040\n$x'
	mount_at "$name"
	helper 0 "$DIR/$name"
	ended "$name"
	mount_at m
	cd "$DIR"
	helper 0 m/
	ended m
	mount_at n
	ln -s n link
	helper 0 link
	ended n
}

# How it is told apart from one that got the same number.
@test "umount: it does not wait for another process of that number" {
	unshare -pfm --mount-proc true 2>/dev/null || skip "no pid namespaces"
	mkdir "$DIR/m"
	cp "$(type -P sleep)" "$DIR/celldfs"
	fake umount '
		pid=$(sed -n "s/^pid //p" "$DIR/m/.celldfs/status")
		/usr/bin/umount "$@"
		while [ -e "/proc/$pid" ]; do sleep 0.02; done
		for tries in {1..50}; do
			echo $((pid - 1)) >/proc/sys/kernel/ns_last_pid
			"$DIR/celldfs" 60 >/dev/null 2>&1 &
			[ $! -eq "$pid" ] && break
			kill $!
		done
		[ $! -eq "$pid" ] && echo reused'
	export DIR BUILD STORE HELPER
	run --separate-stderr unshare -pfm --mount-proc bash -c '
		"$BUILD/celldfs" "$STORE" "$DIR/m" || exit 90
		start=$SECONDS
		PATH=$DIR/bin:$PATH "$HELPER" "$DIR/m" || exit 91
		[ $((SECONDS - start)) -lt 10 ]'
	is "$status $output" "0 reused"
	is "$stderr" ""
}

@test "umount: it waits for no process that is not called celldfs" {
	mount_at m
	sleep 60 3>&- &
	fake cat "/usr/bin/cat \"\$@\" | sed 's/^pid .*/pid $!/'"
	PATH=$DIR/bin:$PATH helper 2 "$DIR/m"
	[[ $stderr == *"could not be watched"* ]]
	[ "$took" -lt 10000 ]
	kill $!
}

# ---- by umount(8) ----

# in_namespace SCRIPT: by bash, in a mount namespace of its own, where the helper
# is in /sbin, and $nobody COMMAND is somebody else's.
in_namespace() {
	unshare -m true 2>/dev/null || skip "no mount namespaces"
	mkdir -p "$DIR/home/m"
	chmod 755 "$DIR"
	chown -R 65534:65534 "$DIR/home"
	install -m 755 "$BUILD/celldfs" "$DIR/celldfs"
	export DIR STORE HELPER
	export -f has_ended
	run --separate-stderr unshare -m bash -euc '
		nobody="setpriv --reuid=65534 --regid=65534 --clear-groups env
			HOME=/ TMPDIR=/tmp"
		mount -t tmpfs -o mode=755,dev tmpfs /mnt
		mknod -m 666 /mnt/fuse c 10 229
		mount --bind /mnt/fuse /dev/fuse
		mount -t tmpfs -o mode=755 tmpfs /usr/sbin
		install -m 755 "$HELPER" /usr/sbin/umount.fuse.celldfs
		[ -x /sbin/umount.fuse.celldfs ]
		# mounts $DIR/home/m, as $1, and sets $pid
		serve() {
			$1 "$DIR/celldfs" "sqlite:$DIR/home/$2" "$DIR/home/m" \
				-o "node=$3"
			pid=$($1 sed -n "s/^pid //p" "$DIR/home/m/.celldfs/status")
			[ -e "/proc/$pid" ]
		}
		'"$1" 3>&-
	echo "$output$stderr"
	[ "$status" -eq 0 ]
}

# An absolute path by root is not among those for which umount(8) of util-linux 2.38
# looks for "fuse.celldfs"; see umount.fuse.celldfs(8).
@test "umount(8) finds the helper in /sbin, and passes its exit status on" {
	only_on sqlite "the store makes no difference"
	in_namespace '
		cd "$DIR/home"
		serve "" root.db n
		# busy
		exec 7<m/.celldfs/status
		status=0
		umount m || status=$?
		[ $status -eq 32 ]
		exec 7<&-
		umount m
		has_ended "$pid"
		# -i does without it: the daemon goes on for a while
		serve "" root.db n
		strace -f -e trace=execve -o "$DIR/trace" umount -i m
		! grep -q umount.fuse.celldfs "$DIR/trace"
		until has_ended "$pid"; do sleep 0.02; done
		serve "" root.db n
		umount -l "$DIR/home/m"
		has_ended "$pid"
		# in utab, as after mount(8) with an option of its own
		mount -t tmpfs tmpfs /run
		mkdir /run/mount
		serve "" root.db n
		mount --no-canonicalize -i -f -t fuse.celldfs -o x-celldfs \
			"sqlite:$DIR/home/root.db" "$DIR/home/m"
		umount "$DIR/home/m"
		has_ended "$pid"'
	is "$(STORE=sqlite:$DIR/home/root.db outside get nodes/n.json |
		grep -o '"expires_ms":[0-9]*')" '"expires_ms":0'
}

@test "umount(8) by root of a user's mount, which lets in nobody else" {
	only_on sqlite "the store makes no difference"
	in_namespace '
		serve "$nobody" store.db n
		if ls "$DIR/home/m" 2>/dev/null; then exit 1; fi
		umount "$DIR/home/m"
		has_ended "$pid"'
	! timed || is "$stderr" ""
}

@test "umount(8) by the user whose mount it is; and not by another" {
	only_on sqlite "the store makes no difference"
	in_namespace '
		other="setpriv --reuid=1 --regid=1 --clear-groups"
		serve "$nobody" store.db n
		status=0
		$other /usr/sbin/umount.fuse.celldfs "$DIR/home/m" || status=$?
		[ $status -eq 32 ]
		[ -e "/proc/$pid" ]
		$nobody umount "$DIR/home/m"
		has_ended "$pid"
		serve "$nobody" store.db n
		$nobody umount -l "$DIR/home/m"
		has_ended "$pid"'
}

# umount(8) -N of util-linux 2.38 calls no helper; it is documented to.
@test "umount -N: in another mount namespace" {
	only_on sqlite "the store makes no difference"
	in_namespace '
		unshare -m sh -c "echo \$\$ >$DIR/inside; exec sleep 60" &
		until [ -s "$DIR/inside" ]; do sleep 0.02; done
		ns=/proc/$(cat "$DIR/inside")/ns/mnt
		nsenter --mount="$ns" "$DIR/celldfs" "sqlite:$DIR/home/n.db" \
			"$DIR/home/m" -o node=n
		pid=$(nsenter --mount="$ns" sed -n "s/^pid //p" \
			"$DIR/home/m/.celldfs/status")
		if mountpoint -q "$DIR/home/m"; then exit 1; fi
		umount.fuse.celldfs "$DIR/home/m" -N "$ns" -t fuse.celldfs
		has_ended "$pid"
		kill $!'
}
