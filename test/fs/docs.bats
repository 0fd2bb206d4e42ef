#!/usr/bin/env bats
# docs: what README.md and the manual pages show is so; see docs.py.

bats_require_minimum_version 1.5.0
load helper

TOP=$(cd "$HERE/../.." && pwd)
SCRIPTS=$TOP/scripts

eval "helper_$(declare -f teardown)"

teardown() {
	local point

	# those that the examples have mounted
	for point in "$DIR"/fleet "$DIR"/empty/{a,b}; do
		! mountpoint -q "$point" ||
			"$SCRIPTS/umount.fuse.celldfs" "$point" || true
	done
	helper_teardown
}

docs() { PATH=$DIR/bin:$BUILD:$SCRIPTS:$PATH python3 "$HERE/docs.py" "$@"; }

# stub NAME: a command that says how it was called, and with which epoch.
stub() {
	mkdir -p "$DIR/bin"
	printf '#!/bin/sh\necho "%s $* ${CELLD_EPOCH-}" >>%s\n' "$1" \
		"$DIR/called" >"$DIR/bin/$1"
	chmod +x "$DIR/bin/$1"
}

# examples PAGE [OLD=NEW...]: runs those of a page, on $DIR/fleet.
examples() { docs "$SCRIPTS/$1" "/fleet=$DIR/fleet" "${@:2}"; }

called() { xargs <"$DIR/called"; }

# ----

@test "README.md: its blocks print what they are said to print" {
	only_on sqlite "the tour is on the embedded store"
	# the repository, after a build and scripts/quickstart
	mkdir "$DIR/top" "$DIR/fleet"
	cd "$DIR/top"
	ln -s "$BUILD" build
	ln -s "$SCRIPTS" scripts
	mount_at celldfs-quickstart/a -o node=a
	mount_at celldfs-quickstart/b -o node=b
	stub backup.sh
	cp "$DIR/bin/backup.sh" .
	HOME=$DIR docs "$TOP/README.md" \
		"s3://my-bucket/fleet=sqlite:$DIR/fleet.db" \
		" /fleet= $DIR/fleet"
	is "$(called)" "backup.sh 1"
}

@test "celldfs.8: its examples, one after the other" {
	only_on sqlite "they have a store of their own"
	mkdir "$DIR/empty"
	cd "$DIR/empty"
	run -0 docs "$TOP/celldfs.8"
	[[ $output == *"busy: owned by a at epoch 3; its lease is alive "* ]]
	[[ $output == *'{"node":"a","epoch":3}'*'{"node":"b","epoch":4}'* ]]
	[[ $output == *'this store can be trusted'* ]]
}

@test "celldfs-run.1: its examples" {
	mount_at fleet -o node=a
	stub nightly
	stub mailer
	stub curl
	run -0 examples celldfs-run.1 "/usr/local/bin=$DIR/bin" "/usr/bin=$DIR/bin"
	is "$output" "2 blocks"
	is "$(called)" "nightly 1 curl -H Epoch: 1 -d @report https://sink.example 1"
	# the unit's
	rm "$DIR/called"
	PATH=$DIR/bin:$BUILD:$PATH bash -c "$(sed -n "s:/fleet:$DIR&:
		s:/usr/bin:$DIR/bin:; s/^ExecStart=//p" "$SCRIPTS/celldfs-run.1")"
	is "$(called)" "mailer 1"
}

@test "the tools' manuals: their examples" {
	mount_at fleet -o node=a
	stub serve-room
	stub page
	run -0 examples celldfs-claim.1
	is "$(called)" "serve-room --epoch 1"
	is "$(cat "$DIR/fleet/cells/room-7/own")" '{"node":"","epoch":1}'
	"$SCRIPTS/celldfs-claim" -m "$DIR/fleet" room-7
	run -0 examples celldfs-release.1
	is "$(cat "$DIR/fleet/cells/room-7/own")" '{"node":"","epoch":2}'

	run -0 examples celldfs-owner.1
	is "$(called)" "serve-room --epoch 1 page mailer"
	"$SCRIPTS/celldfs-claim" -m "$DIR/fleet" mailer
	run -0 examples celldfs-owner.1
	is "$(called)" "serve-room --epoch 1 page mailer"
	"$SCRIPTS/celldfs-release" -m "$DIR/fleet" mailer 1

	put nodes/dead.json "$(lease dead 0)"
	run -0 examples celldfs-fleet.1
	is "$output" $'a\n1 blocks'

	run -0 examples umount.fuse.celldfs.8
	[[ $(outside get nodes/a.json) == *'"expires_ms":0'* ]]
}

@test "celldfs-watch.1: its example" {
	local watch tries

	mount_at fleet -o node=a,watch-ms=100
	stub set-backend
	create "$DIR/fleet/cells/room-7/own" "$(own a 1)"
	examples celldfs-watch.1 3>&- &
	watch=$!
	# it may not have begun yet
	for ((tries = 2; tries < 100; tries++)); do
		swap "$DIR/fleet/cells/room-7/own" "$(own a $tries)"
		sleep 0.2
		[ ! -s "$DIR/called" ] || break
	done
	pkill -f "^celldfs-watch $DIR/fleet/"
	wait "$watch"
	[[ $(called) == "set-backend room-7 a"* ]]
}
