#!/usr/bin/env bats
# mounting: the command line, from the first word to the last unmount.

bats_require_minimum_version 1.5.0
load helper

CELLDFS=$BUILD/celldfs

# mounts_here: how many mounts lie below the test's directory.
mounts_here() { awk -v dir="$DIR/" 'index($2, dir) == 1' /proc/mounts | wc -l; }

# celldfs ARGUMENT...: the program, as a user runs it. Sets $status, $output
# (stdout) and $error. The daemon that it may leave is unmounted in teardown.
celldfs() {
	local point pid

	status=0
	"$CELLDFS" "$@" >"$DIR/stdout" 2>"$DIR/stderr" 3>&- || status=$?
	output=$(cat "$DIR/stdout")
	error=$(cat "$DIR/stderr")
	for point in "$DIR"/*/.celldfs/status; do
		[ -e "$point" ] || continue
		point=${point%/.celldfs/status}
		pid=$(status_pid "$point")
		[ -n "$(pid_of "${point##*/}")" ] ||
			MOUNTS+=("${point##*/}:$pid")
	done
}

status_pid() { sed -n 's/^pid //p' "$1/.celldfs/status"; }

# gone PID: it ends within a while. Nobody may be there to reap it.
gone() {
	local tries

	for ((tries = 0; tries < 400; tries++)); do
		grep -q '^State:[[:space:]]*[^ZX]' "/proc/$1/status" \
			2>/dev/null || return 0
		sleep 0.05
	done
	echo "$1 is still there"
	return 1
}

# usage_error ARGUMENT...: exit status 2, a word on stderr, nothing mounted.
usage_error() {
	mkdir -p "$DIR/m"
	celldfs "$@"
	is "$status" 2
	is "$output" ""
	[[ $error == celldfs:* ]]
	is "$(mounts_here)" 0
	[ ! -e "${STORE#sqlite:}" ]
}

# failure ARGUMENT...: exit status 1, one line on stderr, nothing mounted.
failure() {
	celldfs "$@"
	is "$status" 1
	is "$output" ""
	is "$(wc -l <"$DIR/stderr")" 1
	[[ $error == celldfs:* ]]
	is "$(mounts_here)" "${expected_mounts:-0}"
}

# --- Help and usage ----------------------------------------------------------

@test "--help fits a terminal: at most 24 lines of at most 80 columns" {
	celldfs --help
	is "$status" 0
	is "$error" ""
	[ "$(wc -l <"$DIR/stdout")" -le 24 ]
	[ "$(wc -l <"$DIR/stdout")" -ge 5 ]
	[ "$(wc -L <"$DIR/stdout")" -le 80 ]
	for word in STORE MOUNTPOINT probe -f -o --version ro node=; do
		grep -q -e "$word" "$DIR/stdout"
	done
	celldfs -h
	is "$status" 0
	# also beside other words
	celldfs "$STORE" "$DIR/m" --help
	is "$status" 0
	is "$(mounts_here)" 0
}

@test "--version names the version" {
	celldfs --version
	is "$status" 0
	[[ $output =~ ^celldfs\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
	celldfs -V
	[[ $output =~ ^celldfs\ [0-9] ]]
}

@test "too few and too many words are usage errors" {
	usage_error
	usage_error "$STORE"
	usage_error "$STORE" "$DIR/m" "$DIR/m"
	usage_error probe
	usage_error probe "$STORE" "$DIR/m"
	usage_error "$STORE" "$DIR/m" -o
	usage_error "$STORE" "$DIR/m" -x
	usage_error "$STORE" "$DIR/m" --verbose
	grep -q -e --verbose <<<"$error"
}

@test "a typo in an option names it and the nearest" {
	usage_error "$STORE" "$DIR/m" -o deadlin-ms=5
	grep -q "deadlin-ms.*deadline-ms" <<<"$error"
	usage_error "$STORE" "$DIR/m" -o ro,nofial
	grep -q "nofial.*nofail" <<<"$error"
	usage_error "$STORE" "$DIR/m" -o keper=off
	grep -q "keper.*keeper" <<<"$error"
	usage_error "$STORE" "$DIR/m" -o allow-other
	grep -q "allow-other.*allow_other" <<<"$error"
	# far from everything
	usage_error "$STORE" "$DIR/m" -o xyzzyxyzzy
	grep -q "xyzzyxyzzy" <<<"$error"
}

@test "missing and superfluous values are usage errors that name the option" {
	local option

	for option in node keeper takeover skew-ms deadline-ms log uid gid \
		umask ttl-ms addr peer-protocol fence; do
		usage_error "$STORE" "$DIR/m" -o "$option"
		grep -q "$option" <<<"$error"
		usage_error "$STORE" "$DIR/m" -o "$option="
		grep -q "$option" <<<"$error"
	done
	usage_error "$STORE" "$DIR/m" -o ro=yes
	usage_error "$STORE" "$DIR/m" -o nofail=1
}

@test "bad values are usage errors" {
	local option

	for option in node=a/b,keeper=off 'node=a b,keeper=off' \
		node=..,keeper=off "node=$(printf 'n%.0s' {1..129}),keeper=off" \
		node=n1,ttl-ms=999 node=n1,addr= 'node=n1,addr=a b' \
		node=n1,fence=yes node=n1,peer-protocol=70000 \
		$'node=a\r\nb,keeper=off' $'node=n1,addr=a\nb' \
		node=n1,keeper=on takeover=none skew-ms=-1 skew-ms=x \
		skew-ms=1s skew-ms=99999999999999999999 deadline-ms=0 \
		deadline-ms=5.5 log=relative/path log= uid=root uid=-1 \
		uid=4294967295 gid=0x10 umask=8 umask=1777; do
		usage_error "$STORE" "$DIR/m" -o "$option"
	done
}

@test "options that exclude or need each other" {
	usage_error "$STORE" "$DIR/m" -o node=n1,keeper=off,ro
	grep -q node <<<"$error"
	grep -q ro <<<"$error"
	usage_error "$STORE" "$DIR/m" -o ro -o keeper=off,node=n1
	usage_error "$STORE" "$DIR/m" -o keeper=off
	usage_error "$STORE" "$DIR/m" -o ttl-ms=5000
	grep -q node <<<"$error"
	usage_error "$STORE" "$DIR/m" -o node=n1,keeper=off,replace
	grep -q keeper <<<"$error"
	usage_error "$STORE" "$DIR/m" -o node=n1,fence=exit,auto_unmount
	grep -q auto_unmount <<<"$error"
}

@test "a STORE that is no store URL is a usage error" {
	local store

	mkdir "$DIR/m"
	for store in "$DIR/store.db" sqlite: nosuch:thing ''; do
		celldfs "$store" "$DIR/m"
		is "$status" 2
		is "$(mounts_here)" 0
	done
}

# --- A good start ------------------------------------------------------------

@test "in the background it returns when it serves, and is silent" {
	mkdir "$DIR/m"
	celldfs "$STORE" "$DIR/m"
	is "$status" 0
	is "$output$error" ""
	is "$(ls -A "$DIR/m" | LC_ALL=C sort | xargs)" ".celldfs cells nodes"
	create "$DIR/m/cells/c/own" "$(own n1 1)"
	# a daemon: no terminal, no directory held, a session of its own
	is "$(readlink "/proc/$(status_pid "$DIR/m")/cwd")" /
	is "$(readlink "/proc/$(status_pid "$DIR/m")/fd/0")" /dev/null
	is "$(readlink "/proc/$(status_pid "$DIR/m")/fd/2")" /dev/null
	[ "$(ps -o sid= -p "$(status_pid "$DIR/m")")" -ne \
		"$(ps -o sid= -p $$)" ]
}

@test "the mount is told by /proc/mounts, with store and type" {
	mkdir "$DIR/m"
	celldfs "$STORE" "$DIR/m"
	is "$(awk -v m="$DIR/m" '$2 == m { print $1, $3 }' /proc/mounts)" \
		"$STORE fuse.celldfs"
}

@test "a store's path with a comma, a space and a backslash" {
	only_on sqlite "the store is no file"
	mkdir "$DIR/m"
	STORE="sqlite:$DIR/a,b c\\d.db"
	celldfs "$STORE" "$DIR/m"
	is "$error" ""
	is "$status" 0
	create "$DIR/m/cells/c/own" "$(own n1 1)"
	[ -s "$DIR/a,b c\\d.db" ]
}

@test "fstab's words are accepted" {
	mkdir "$DIR/m"
	celldfs "$STORE" "$DIR/m" -o "rw,defaults,nofail,_netdev,noauto,user" \
		-o "x-systemd.automount,x-systemd.mount-timeout=30,noatime" \
		-o "nosuid,nodev,noexec,relatime,comment=a word,x-gvfs-hide"
	is "$error" ""
	is "$status" 0
	create "$DIR/m/cells/c/own" "$(own n1 1)"
}

@test "-o as one word, twice, and before the other words" {
	mkdir "$DIR/m"
	celldfs -odeadline-ms=2000 "$STORE" -oskew-ms=5,umask=077 "$DIR/m"
	is "$status" 0
	is "$(sed -n 's/^deadline_ms //p' "$DIR/m/.celldfs/status")" 2000
	is "$(sed -n 's/^skew_ms //p' "$DIR/m/.celldfs/status")" 5
	is "$(stat -c %a "$DIR/m/cells")" 700
	# it is what ps shows
	is "$(tr '\0' ' ' <"/proc/$(status_pid "$DIR/m")/cmdline")" \
		"$CELLDFS -odeadline-ms=2000 $STORE -oskew-ms=5,umask=077 $DIR/m "
}

@test "relative store path and mount point" {
	only_on sqlite "the store is no file"
	mkdir "$DIR/m"
	pushd "$DIR" >/dev/null
	celldfs sqlite:fleet.db m
	popd >/dev/null
	is "$status" 0
	create "$DIR/m/cells/c/own" "$(own n1 1)"
	[ -s "$DIR/fleet.db" ]
	is "$(sed -n 's/^store //p' "$DIR/m/.celldfs/status")" \
		"sqlite:$DIR/fleet.db"
}

@test "two mounts of one store show each other's writes" {
	mkdir "$DIR/m" "$DIR/n"
	celldfs "$STORE" "$DIR/m"
	celldfs "$STORE" "$DIR/n"
	is "$(mounts_here)" 2
	create "$DIR/m/cells/c/own" "$(own n1 1)"
	is "$(cat "$DIR/n/cells/c/own")" "$(own n1 1)"
	swap "$DIR/n/cells/c/own" "$(own n1 2)"
	is "$(cat "$DIR/m/cells/c/own")" "$(own n1 2)"
}

@test "ro on a store that another mount writes" {
	mkdir "$DIR/m" "$DIR/n"
	celldfs "$STORE" "$DIR/m"
	celldfs "$STORE" "$DIR/n" -o ro
	is "$error" ""
	create "$DIR/m/cells/c/own" "$(own n1 1)"
	is "$(cat "$DIR/n/cells/c/own")" "$(own n1 1)"
	swap "$DIR/m/cells/c/own" "$(own n1 2)"
	is "$(cat "$DIR/n/cells/c/own")" "$(own n1 2)"
	run bash -c 'echo x >"$1"' bash "$DIR/n/cells/c/own"
	[ "$status" -ne 0 ]
	grep -q '^read_only yes' "$DIR/n/.celldfs/status"
}

@test "log=PATH: one line for each failed operation" {
	mkdir "$DIR/m"
	celldfs "$STORE" "$DIR/m" -o log="$DIR/log"
	is "$status" 0
	create "$DIR/m/cells/c/own" "$(own n1 1)"
	is "$(grep -c 'cells/c/own' "$DIR/log")" 0
	run bash -c 'echo "$1" >"$2"' bash "$(own n1 2)" "$DIR/m/cells/c/own"
	[ "$status" -ne 0 ]
	is "$(grep -c 'write cells/c/own\.json: EPERM: ' "$DIR/log")" 1
	is "$(wc -l <"$DIR/log")" "$(grep -c . "$DIR/log")"
}

@test "a log that cannot be opened fails the mount" {
	mkdir "$DIR/m"
	failure "$STORE" "$DIR/m" -o log="$DIR/none/log"
	grep -q "$DIR/none/log" <<<"$error"
}

# --- A start that fails ------------------------------------------------------

# refused: the store's file is named, and was not changed.
refused() {
	cp "${STORE#sqlite:}" "$DIR/before"
	failure "$STORE" "$DIR/m"
	grep -q "${STORE#sqlite:}" <<<"$error"
	cmp "${STORE#sqlite:}" "$DIR/before"
	failure "$STORE" "$DIR/m" -f
	failure "$STORE" "$DIR/m" -o ro
	cmp "${STORE#sqlite:}" "$DIR/before"
}

@test "another program's SQLite file is refused" {
	only_on sqlite "the store is no file"
	mkdir "$DIR/m"
	sqlite3 "${STORE#sqlite:}" 'CREATE TABLE t (a); INSERT INTO t VALUES (1)'
	refused
}

@test "a file that is no SQLite file is refused" {
	only_on sqlite "the store is no file"
	mkdir "$DIR/m"
	head -c 20000 /dev/urandom >"${STORE#sqlite:}"
	refused
	seq 1000 >"${STORE#sqlite:}"
	refused
}

# a_store: a store with something in it, and no mount.
a_store() {
	mkdir "$DIR/m"
	celldfs "$STORE" "$DIR/m"
	for n in {1..40}; do
		create "$DIR/m/cells/c$n/own" "$(own n1 "$n")"
	done
	fusermount3 -u "$DIR/m"
	gone "${MOUNTS[0]#*:}"
	MOUNTS=()
	sqlite3 "${STORE#sqlite:}" 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null
}

@test "a damaged store is refused" {
	local size

	only_on sqlite "the store is no file"
	a_store
	size=$(stat -c %s "${STORE#sqlite:}")
	[ "$size" -gt 8192 ]
	dd if=/dev/urandom of="${STORE#sqlite:}" bs=1 seek=4096 \
		count=$((size - 4096)) conv=notrunc status=none
	refused
}

@test "a store that was cut is refused" {
	only_on sqlite "the store is no file"
	a_store
	truncate -s 4096 "${STORE#sqlite:}"
	refused
}

@test "a store of a newer version is refused, and the reason is named" {
	only_on sqlite "the store is no file"
	a_store
	sqlite3 "${STORE#sqlite:}" 'PRAGMA user_version = 99'
	sqlite3 "${STORE#sqlite:}" 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null
	refused
	grep -q newer <<<"$error"
}

@test "a store whose directory is missing" {
	only_on sqlite "the store is no file"
	mkdir "$DIR/m"
	failure "sqlite:$DIR/none/store.db" "$DIR/m"
	grep -q "$DIR/none/store.db" <<<"$error"
	failure "sqlite:$DIR" "$DIR/m"
}

@test "ro does not make a store" {
	only_on sqlite "the store is no file"
	mkdir "$DIR/m"
	failure "$STORE" "$DIR/m" -o ro
	is "$(ls "$DIR" | xargs)" "m stderr stdout"
}

@test "the mount point is missing or no directory" {
	failure "$STORE" "$DIR/none"
	grep -q "$DIR/none" <<<"$error"
	touch "$DIR/file"
	failure "$STORE" "$DIR/file"
	grep -q "$DIR/file" <<<"$error"
	[ ! -e "${STORE#sqlite:}" ]
}

@test "the mount point is a celldfs mount already" {
	mkdir "$DIR/m"
	celldfs "$STORE" "$DIR/m"
	expected_mounts=1 failure "$STORE" "$DIR/m"
	grep -q "already" <<<"$error"
	ls "$DIR/m/cells"
}

# --- probe -------------------------------------------------------------------

@test "probe says its verdict, exits 0 and leaves nothing behind" {
	celldfs probe "$STORE"
	is "$error" ""
	is "$status" 0
	[ -n "$output" ]
	is "$(outside keys)" ""
	# on a store that is in use
	mkdir "$DIR/m"
	celldfs "$STORE" "$DIR/m"
	create "$DIR/m/cells/c/own" "$(own n1 1)"
	celldfs probe "$STORE"
	is "$status" 0
	is "$(outside keys)" "cells/c/own.json"
}

@test "probe of what is no store exits 1" {
	only_on sqlite "the store is no file"
	seq 1000 >"${STORE#sqlite:}"
	celldfs probe "$STORE"
	is "$status" 1
	grep -q "${STORE#sqlite:}" <<<"$error"
	celldfs probe "sqlite:$DIR/none/store.db"
	is "$status" 1
}

# --- The end -----------------------------------------------------------------

@test "fusermount3 -u ends the daemon" {
	local pid

	mkdir "$DIR/m"
	celldfs "$STORE" "$DIR/m"
	pid=$(status_pid "$DIR/m")
	fusermount3 -u "$DIR/m"
	gone "$pid"
	is "$(mounts_here)" 0
	MOUNTS=()
	# and the mount point can be used again
	celldfs "$STORE" "$DIR/m"
	is "$status" 0
}

@test "SIGTERM and SIGINT end the daemon and unmount" {
	local signal pid

	mkdir "$DIR/m"
	for signal in TERM INT; do
		celldfs "$STORE" "$DIR/m"
		is "$status" 0
		pid=$(status_pid "$DIR/m")
		kill -"$signal" "$pid"
		gone "$pid"
		is "$(mounts_here)" 0
		is "$(ls -A "$DIR/m")" ""
		MOUNTS=()
	done
}

@test "in the foreground it ends with 0 after fusermount3 -u and SIGTERM" {
	mount_at m
	fusermount3 -u "$DIR/m"
	wait "$(pid_of m)"
	MOUNTS=()
	mount_at m
	kill -TERM "$(pid_of m)"
	wait "$(pid_of m)"
	is "$(mounts_here)" 0
	MOUNTS=()
}

@test "after a crash the next start says what to run, and then it works" {
	local command

	mount_at m
	create "$DIR/m/cells/c/own" "$(own n1 1)"
	kill -KILL "$(pid_of m)"
	gone "$(pid_of m)"
	MOUNTS=()
	is "$(errno_of 'os.listdir(a[0])' "$DIR/m")" ENOTCONN
	expected_mounts=1 failure "$STORE" "$DIR/m"
	command=$(grep -o "fusermount3 -u .*" <<<"$error")
	is "$command" "fusermount3 -u $DIR/m"
	bash -c "$command"
	celldfs "$STORE" "$DIR/m"
	is "$status" 0
	is "$(cat "$DIR/m/cells/c/own")" "$(own n1 1)"
}

# --- Other users -------------------------------------------------------------

# As nobody, in a mount namespace where /dev/fuse is open to everybody, as udev
# makes it.
as_nobody() {
	[ "$(id -u)" -eq 0 ] || skip "only root can become somebody else"
	unshare -m true 2>/dev/null || skip "no mount namespaces"
	chmod 755 "$DIR"
	install -m 755 "$CELLDFS" "$DIR/celldfs"
	mkdir "$DIR/home"
	mkdir "$DIR/home/m"
	chown -R 65534:65534 "$DIR/home"
	export NOBODY="setpriv --reuid=65534 --regid=65534 --clear-groups env
		HOME=/ TMPDIR=/tmp"
	export DIR
	unshare -m bash -euc '
		mount -t tmpfs -o mode=755,dev tmpfs /mnt
		mknod -m 666 /mnt/fuse c 10 229
		mount --bind /mnt/fuse /dev/fuse
		point=$DIR/home/m
		is() {
			[ "$1" = "$2" ] || { echo "got: $1, not $2"; exit 1; }
		}
		end() {
			$NOBODY fusermount3 -u "$point"
			while $NOBODY pgrep -f "^$DIR/celldfs" >/dev/null; do
				sleep 0.05
			done
		}
		'"$1" 3>&-
}

@test "a user without privileges mounts, swaps and unmounts" {
	only_on sqlite "the store is no file"
	as_nobody '
		$NOBODY "$DIR/celldfs" "sqlite:$DIR/home/store.db" "$point"
		$NOBODY sh -c '\''set -C; echo "{\"node\":\"n1\",\"epoch\":1}" >"$1"
			'\'' sh "$point/cells/c/own"
		is "$($NOBODY cat "$point/cells/c/own")" \
			"{\"node\":\"n1\",\"epoch\":1}"
		is "$($NOBODY stat -c %u:%g "$point/cells/c/own")" 65534:65534
		# by default nobody else, not even root, is let in
		if ls "$point" 2>/dev/null; then exit 1; fi
		end
		is "$(ls -A "$point")" ""
	'
}

@test "a user who may not write there is told so" {
	only_on sqlite "the store is no file"
	as_nobody '
		status=0
		$NOBODY "$DIR/celldfs" "sqlite:$DIR/store.db" "$point" \
			2>"$DIR/stderr" || status=$?
		is "$status" 1
		is "$(wc -l <"$DIR/stderr")" 1
		grep -q "$DIR/store.db" "$DIR/stderr"
		if grep " $point " /proc/mounts; then exit 1; fi
	'
}

@test "allow_other lets others in, under the modes of the files" {
	[ "$(id -u)" -eq 0 ] || skip "only root can become somebody else"
	chmod 755 "$DIR"
	mount_at m -o allow_other
	create "$DIR/m/cells/c/own" "$(own n1 1)"
	nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
	is "$("${nobody[@]}" cat "$DIR/m/cells/c/own")" "$(own n1 1)"
	run "${nobody[@]}" bash -c 'exec 4<>"$1"' bash "$DIR/m/cells/c/own"
	[ "$status" -ne 0 ]
	grep -q 'Permission denied' <<<"$output"
	run "${nobody[@]}" setfattr -n user.celld.if-match -v x \
		"$DIR/m/cells/c/own"
	[ "$status" -ne 0 ]
	unmount m
	MOUNTS=()
	mount_at m
	run "${nobody[@]}" ls "$DIR/m"
	[ "$status" -ne 0 ]
}

# As root could see whatever it asks for.
@test "the keys of a bucket are not to be seen in the daemon by other programs of its user" {
	only_on s3 "there are no keys"
	export STORE AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
	as_nobody '
		$NOBODY "$DIR/celldfs" "$STORE" "$point" -o node=n
		pid=$($NOBODY sed -n "s/^pid //p" "$point/.celldfs/status")
		grep -qz "^AWS_SECRET_ACCESS_KEY=$AWS_SECRET_ACCESS_KEY" \
			"/proc/$pid/environ"
		for file in environ mem maps auxv; do
			if $NOBODY head -c 1 "/proc/$pid/$file" 2>/dev/null; then
				exit 1
			fi
		done
		if $NOBODY grep -F "$AWS_SECRET_ACCESS_KEY" "/proc/$pid/cmdline" \
			"$point"/.celldfs/* "$point/nodes/n"; then exit 1; fi
		end
	'
}

@test "with its standard descriptors closed it has a log all the same" {
	mkdir "$DIR/m"
	"$CELLDFS" "$STORE" "$DIR/m" -o "log=$DIR/log" <&- >&- 2>&- 3>&-
	MOUNTS+=("m:$(status_pid "$DIR/m")")
	run ! create "$DIR/m/cells/c/own" '{"node":7}'
	grep -q 'write cells/c/own.json: EINVAL' "$DIR/log"
}

@test "an interrupt while it waits for the store: no mount comes after" {
	local pid locker

	only_on sqlite "the queue that it waits in is the embedded store's"
	mount_at m
	unmount m
	MOUNTS=()
	python3 -c 'import fcntl, sys, time
f = open(sys.argv[1], "r+")
fcntl.lockf(f, fcntl.LOCK_EX, 1, 0)
open(sys.argv[2], "w")
time.sleep(20)' "${STORE#sqlite:}-queue" "$DIR/locked" 3>&- &
	locker=$!
	until [ -e "$DIR/locked" ]; do sleep 0.02; done
	env --default-signal=INT setsid "$CELLDFS" "$STORE" "$DIR/m" \
		2>"$DIR/stderr" 3>&- &
	pid=$!
	sleep 0.5
	kill -0 "$pid"
	kill -INT -- "-$pid"
	wait "$pid" || true
	kill "$locker"
	sleep 1
	run ! mountpoint -q "$DIR/m"
	run ! pgrep -f "$DIR/m"
}
