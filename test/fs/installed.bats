#!/usr/bin/env bats
# installed: the .deb on a Debian 12 that has nothing else, its unit without
# systemd, and what is left after it.
#
# That Debian 12 is made for it under scripts/test --long, or it is what
#
#	debootstrap --variant=minbase bookworm ROOT
#
# has made at CELLDFS_ROOT, with a /etc/apt from where apt can install.

bats_require_minimum_version 1.5.0
load helper

ROOT_ONLY="only root uses chroot"

make_root() {
	debootstrap --variant=minbase bookworm "$CELLDFS_ROOT" &&
		# proxies and the like
		cp -r /etc/apt/apt.conf.d "$CELLDFS_ROOT/etc/apt/" &&
		cp /etc/resolv.conf /etc/hosts "$CELLDFS_ROOT/etc/"
}

setup_file() {
	local log=$BATS_FILE_TMPDIR/log

	[ "$(id -u)" -eq 0 ] && [ -n "${CELLDFS_LONG-}${CELLDFS_ROOT-}" ] || return 0
	if [ -z "${CELLDFS_ROOT-}" ]; then
		export CELLDFS_ROOT=$BATS_FILE_TMPDIR/root
		make_root >"$log" 2>&1 || { cat "$log"; return 1; }
	fi
	(cd "$CELLDFS_BUILD" && cpack -B "$BATS_FILE_TMPDIR") >"$log" 2>&1 ||
		{ cat "$log"; return 1; }
	cp "$BATS_FILE_TMPDIR"/celldfs_*.deb "$CELLDFS_ROOT/tmp/celldfs.deb"
	[ -c "$CELLDFS_ROOT/dev/fuse" ] ||
		mknod -m 666 "$CELLDFS_ROOT/dev/fuse" c 10 229
	# as systemd would; else fusermount3 keeps a list of mounts in /etc
	ln -sf ../proc/self/mounts "$CELLDFS_ROOT/etc/mtab"
	mount -t proc proc "$CELLDFS_ROOT/proc"
	in_root apt-get -q update
	files >"$BATS_FILE_TMPDIR/before"
	in_root apt-get -q -y --no-install-recommends install /tmp/celldfs.deb
}

teardown_file() {
	[ -n "${CELLDFS_ROOT-}" ] || return 0
	# the unit has made it immutable
	chattr -i "$CELLDFS_ROOT$POINT" 2>/dev/null || true
	! mountpoint -q "$CELLDFS_ROOT/proc" || umount "$CELLDFS_ROOT/proc"
}

there_is_a_root() {
	[ -n "${CELLDFS_ROOT-}" ] || skip "it is long: scripts/test --long"
}

# in_root COMMAND...
in_root() {
	chroot "$CELLDFS_ROOT" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
		LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}

files() { in_root find / -xdev -path /proc -prune -o -print | sort; }

# --- What a service manager does, for one instance of the unit ----------------

POINT=/srv/fleet

# unit KEY: its values, a line each.
unit() {
	sed -e ':a' -e '/\\$/N; s/\\\n//; ta' \
		"$CELLDFS_ROOT/lib/systemd/system/celldfs@.service" |
		sed -n "s/^$1=//p"
}

# as_service COMMAND: a line of the unit, in which ${X} is one word.
as_service() {
	local environment

	mapfile -t environment <"$CELLDFS_ROOT/etc/celldfs/fleet"
	# shellcheck disable=SC2001
	in_root env "${environment[@]}" NOTIFY_SOCKET=/tmp/notify \
		sh -c "exec $(sed 's/\${[A-Z]*}/"&"/g' <<<"$1")"
}

# start COUNT: returns when READY=1 has come so often. Sets $service, to wait for,
# and $daemon.
start() {
	local line end=$((SECONDS + 60))

	while IFS= read -r line; do
		as_service "${line#-}" || [[ $line == -* ]]
	done < <(unit ExecStartPre)
	as_service "$(unit ExecStart)" >>"$DIR/log" 2>&1 3>&- &
	service=$!
	until [ "$(grep -cFx READY=1 "$DIR/told")" -ge "$1" ]; do
		sleep 0.05
		[ "$SECONDS" -lt "$end" ] || { cat "$DIR/log" "$DIR/told"; return 1; }
	done
	daemon=$(sed -n 's/^pid //p' "$CELLDFS_ROOT$POINT/.celldfs/status")
}

teardown() {
	if [ -n "${CELLDFS_ROOT-}" ]; then
		fusermount3 -u -z -q "$CELLDFS_ROOT$POINT" || true
		[ -z "${manager-}" ] || kill "$manager"
		rm -f "$CELLDFS_ROOT/tmp/notify"
	fi
	[[ $STORE != s3:* ]] || outside rm '*'
	rm -rf "$DIR"
}

@test "installed: what it depends on suffices; the unit serves, and again after kill -9" {
	there_is_a_root
	local own=$CELLDFS_ROOT$POINT/cells/c/own store=$STORE environment

	run in_root sh -c 'ldd /usr/bin/celldfs* 2>&1 | grep "not found"'
	is "$output" ""
	# $DIR is not there
	[[ $store == s3:* ]] || store=sqlite:/srv/fleet.db
	mkdir -p "$CELLDFS_ROOT/etc/celldfs"
	{
		printf '%s\n' "STORE=$store" "MOUNTPOINT=$POINT" \
			"OPTIONS=node=a,ttl-ms=3000"
		env | grep '^AWS_' || true
	} >"$CELLDFS_ROOT/etc/celldfs/fleet"
	manager "$CELLDFS_ROOT/tmp/notify"
	is "$(unit Type) $(unit Restart)" "notify always"

	start 1
	create "$own" "$(own a 1)"
	kill -KILL "$daemon"
	run ! wait "$service"
	run cat "$own"
	[[ $output == *"not connected"* ]]
	sleep "$(unit RestartSec)"
	start 2
	is "$(cat "$own")" "$(own a 1)"
	swap "$own" "$(own '' 1)"
	kill -TERM "$daemon"
	wait "$service"
	grep -qFx STOPPING=1 "$DIR/told"
	run ! mountpoint -q "$CELLDFS_ROOT$POINT"
	# nobody takes the directory for the fleet
	is "$(stat -c %a "$CELLDFS_ROOT$POINT")" 555
	run ! mkdir -p "${own%/*}"

	# by mount(8), as in fstab
	mapfile -t environment < <(env | grep '^AWS_')
	in_root env "${environment[@]}" mount -t fuse.celldfs "$store" /mnt -o node=b
	is "$(cat "$CELLDFS_ROOT/mnt/cells/c/own")" "$(own '' 1)"
	[[ $(cat "$CELLDFS_ROOT/mnt/nodes/a") == *'"expires_ms":0,'* ]]
	in_root umount /mnt
}

# /srv/fleet and /etc/celldfs are the operator's; what else stays is apt's.
@test "installed: purged, it leaves nothing" {
	there_is_a_root
	chattr -i "$CELLDFS_ROOT$POINT"
	rmdir "$CELLDFS_ROOT$POINT"
	rm -rf "$CELLDFS_ROOT/etc/celldfs" "$CELLDFS_ROOT"/srv/fleet.db*
	in_root apt-get -q -y purge --autoremove celldfs
	is "$(files | grep -vxFf "$BATS_FILE_TMPDIR/before" |
		grep -vE '^/var/(cache|lib|log)/apt/')" ""
}
