#!/usr/bin/env bats
# tools: how the tools find a mount; celldfs-claim(1) and celldfs-release(1).
# owner.bats has what they read and tell.

bats_require_minimum_version 1.5.0
load helper
load tools

# ---- the command line ----

@test "tools: dash and bash parse them; --help fits a screen" {
	for name in claim release owner fleet; do
		dash -n "$SCRIPTS/celldfs-$name"
		bash -n "$SCRIPTS/celldfs-$name"
		tool 0 "celldfs-$name" --help
		is "$stderr" ""
		[ "${#lines[@]}" -ge 8 ]
		[ "$(wc -l <<<"$output")" -le 24 ]
		[ "$(wc -L <<<"$output")" -le 80 ]
		[[ $output == "usage: celldfs-$name "* ]]
		for word in -m CELLDFS_MOUNT "Exit status" 111; do
			[[ $output == *"$word"* ]]
		done
	done
	dash -n "$SCRIPTS/tools.sh"
	bash -n "$SCRIPTS/tools.sh"
}

@test "tools: bad words, names and epochs are usage errors, and nothing is written" {
	mount_at m -o node=a,keeper=off
	export CELLDFS_MOUNT=$DIR/m
	long=$(printf 'c%.0s' {1..256})
	for arguments in '' 'x y' '-x x' '--restar x' '-m'; do
		# shellcheck disable=SC2086 # words
		tool 2 celldfs-claim $arguments
		# shellcheck disable=SC2086
		tool 2 celldfs-owner $arguments
	done
	for cell in '' . .. a/b /a 'a b' 'a"b' 'a\b' a, é $'a\nb' "$long" '*'; do
		tool 2 celldfs-claim -- "$cell"
	done
	tool 2 celldfs-release -- a/b 1
	tool 2 celldfs-owner -- a/b
	for epoch in '' x -1 +1 01 1.0 1e3 0x1 ' 1' 18446744073709551616 \
		20000000000000000000 100000000000000000000 $'1\n2'; do
		tool 2 celldfs-release x "$epoch"
	done
	tool 2 celldfs-release x
	tool 2 celldfs-release x 1 2
	tool 2 celldfs-release --restart x 1
	tool 2 celldfs-fleet x
	tool 2 celldfs-fleet --json
	says "celldfs-fleet --help"
	is "$(outside keys)" ""
}

@test "tools: every valid name of a cell" {
	mount_at m -o node=a,keeper=off
	export CELLDFS_MOUNT=$DIR/m
	long=$(printf 'c%.0s' {1..255})
	for cell in 'A:b_$-.9' ... - "$long"; do
		tool 0 celldfs-claim "$cell"
		is "$output" 1
		is "$(record "$cell")" "$(own a 1)"
	done
	tool 0 celldfs-claim -- --help
	tool 0 celldfs-owner -- --help
	is "${lines[0]}" "cell --help"
	tool 0 celldfs-release -- --help 1
	is "$(record --help)" "$(own "" 1)"
}

# ---- which mount ----

@test "tools: the mount is -m, else CELLDFS_MOUNT, else the one around us" {
	two_mounts
	mkdir "$DIR/a dir"
	tool 2 celldfs-claim x
	says "which mount?"
	CELLDFS_MOUNT='' tool 2 celldfs-claim x
	CELLDFS_MOUNT=$DIR/m2 tool 0 celldfs-claim -m "$DIR/m1" x1
	CELLDFS_MOUNT=$DIR/m2 tool 0 celldfs-claim "-m$DIR/m1/" x2
	cd "$DIR/m1/cells"
	CELLDFS_MOUNT=$DIR/m2 tool 0 celldfs-claim y
	tool 0 celldfs-claim x3
	cd "$DIR/m1"
	tool 0 celldfs-claim x4
	cd "$DIR/a dir"
	tool 0 celldfs-claim -m ../m1 x5
	for cell in x1 x2 x3 x4 x5; do
		is "$(record $cell)" "$(own a 1)"
	done
	is "$(record y)" "$(own b 1)"
}

@test "tools: a mount with a strange name, through a link, whatever CDPATH and the environment say" {
	name=$'-a b\\040\n$x'
	mount_at "$name" -o node=a,keeper=off
	cd "$DIR"
	ln -s -- "$name" link
	mkdir -p "./other/$name" other/link
	export CDPATH=$DIR/other mount=/nowhere given=1 flag=-y epoch=7 owner=z
	tool 0 celldfs-claim -m "$name" x1
	tool 0 celldfs-claim -m link x2
	tool 2 celldfs-claim -y x3
	cd "./$name/cells"
	tool 0 celldfs-claim x3
	tool 1 celldfs-claim x3
	for cell in x1 x2 x3; do
		is "$(record $cell)" "$(own a 1)"
	done
	cd "$DIR"
}

@test "tools: where nothing is mounted: 111, and nothing is made there" {
	mkdir -p "$DIR/bare/cells/x"
	for point in bare none; do
		for command in "claim x" "release x 1" "owner x" "fleet"; do
			read -r name arguments <<<"$command"
			# shellcheck disable=SC2086 # words
			tool 111 celldfs-$name -m "$DIR/$point" $arguments
			says "no celldfs is mounted at $DIR/$point"
			is "$output" ""
		done
	done
	# even if it looks like a mount
	mkdir "$DIR/bare/.celldfs"
	printf '%s\n' "version 1" "node a" "keeper off" >"$DIR/bare/.celldfs/status"
	tool 111 celldfs-claim -m "$DIR/bare" x
	says "no celldfs is mounted at"
	echo '{"node":"a","epoch":1}' >"$DIR/bare/cells/x/own"
	tool 111 celldfs-release -m "$DIR/bare" x 1
	is "$(cat "$DIR/bare/cells/x/own")" '{"node":"a","epoch":1}'
	cd "$DIR/bare"
	tool 2 celldfs-claim y
	is "$(find "$DIR/bare" -name own)" "$DIR/bare/cells/x/own"
}

@test "tools: a mount that is taken away meanwhile: nothing is written below it" {
	# By the awk that looks where we are: before that, and after. -z takes
	# the name away, and leaves the daemon.
	mkdir "$DIR/bin"
	for moment in before after; do
		mount_at $moment -o node=a,keeper=off
		cat >"$DIR/bin/awk" <<-END
			#!/bin/sh
			take() {
				fusermount3 -u -z "$DIR/$moment"
				mkdir -p "$DIR/$moment/cells/x"
			}
			[ $moment = after ] || take
			/usr/bin/awk "\$@"
			[ $moment = before ] || take
		END
		chmod +x "$DIR/bin/awk"
		PATH=$DIR/bin:$PATH run --separate-stderr \
			celldfs-claim -m "$DIR/$moment" x
		is "$(find "$DIR/$moment" -type f)" ""
		rm -r "$DIR/$moment/cells"
		if [ $moment = before ]; then
			is "$status" 111
			says "no celldfs is mounted"
			is "$(outside keys)" ""
		else
			is "$status $output" "0 1"
			is "$(record x)" "$(own a 1)"
		fi
	done
}

@test "tools: a mount that is no node's is an error for those who write" {
	mount_at m1
	mount_at m2 -o ro
	put cells/x/own.json "$(own a 1)"
	for m in m1 m2; do
		tool 1 celldfs-claim -m "$DIR/$m" y
		says "no node's"
		tool 1 celldfs-release -m "$DIR/$m" x 1
		tool 0 celldfs-owner -m "$DIR/$m" x
	done
	is "$(outside keys)" "cells/x/own.json"
	is "$(record x)" "$(own a 1)"
}

@test "tools: a node that is called - is a node" {
	mount_at m -o node=-,keeper=off
	tool 0 celldfs-claim -m "$DIR/m" x
	is "$(record x)" "$(own - 1)"
	tool 0 celldfs-owner -m "$DIR/m" x
	is "${lines[2]}" "owner -"
	tool 0 celldfs-release -m "$DIR/m" x 1
}

@test "tools: a daemon that is stopped does not hold them up: 111" {
	mount_at m -o node=a,keeper=off
	kill -STOP "$(pid_of m)"
	start=$(now_ms)
	run --separate-stderr celldfs-claim -m "$DIR/m" x
	kill -CONT "$(pid_of m)"
	is "$status" 111
	says "does not answer"
	[ $(($(now_ms) - start)) -lt 12000 ]
	is "$(outside keys)" ""
}

@test "tools: a daemon that has died: 111, and how to get rid of it" {
	mount_at m -o node=a,keeper=off
	cd "$DIR/m"
	kill -KILL "$(pid_of m)"
	wait_gone "$(pid_of m)"
	for command in claim owner; do
		tool 111 celldfs-$command -m "$DIR/m" x
		says "run: fusermount3 -u $DIR/m"
		# also from within
		tool 111 celldfs-$command x
		says "run: fusermount3 -u $DIR/m"
	done
	cd "$DIR"
}

# ---- claim ----

@test "claim, release: the life of a cell, under dash and bash" {
	two_mounts
	alive a
	alive b
	for shell in dash bash; do
		x=$shell
		tool 0 by $shell claim m1 $x
		is "$output" 1
		is "$stderr" ""
		is "$(record $x)" "$(own a 1)"

		keeps $x
		tool 1 by $shell claim m1 $x
		is "$output" ""
		says "at epoch 1"
		tool 1 by $shell claim m2 $x
		is "$output" ""
		says "owned by a at epoch 1; its lease is alive"
		tool 1 by $shell claim m2 --restart $x
		kept $x

		tool 0 by $shell claim m1 --restart $x
		is "$output" 2
		is "$(record $x)" "$(own a 2)"

		keeps $x
		tool 1 by $shell release m1 $x 1
		says "epoch 2, not 1"
		tool 1 by $shell release m1 $x 3
		tool 1 by $shell release m2 $x 2
		says "owned by a at epoch 2"
		tool 1 by $shell release m1 never 1
		kept $x

		tool 0 by $shell release m1 $x 2
		is "$output$stderr" ""
		is "$(record $x)" "$(own "" 2)"
		keeps $x
		tool 1 by $shell release m1 $x 2
		says "released already"
		kept $x

		tool 0 by $shell claim m2 $x
		is "$output" 3
		is "$(record $x)" "$(own b 3)"
	done
	is "$(outside keys cells/)" $'cells/bash/own.json\ncells/dash/own.json'
}

@test "claim: of a dead owner's cell; not of one of which it is not known" {
	two_mounts
	put cells/x/own.json "$(own a 41)"
	put nodes/a.json '{"node":"a","expires_ms":0,"addr":"h","log":{"state":"open"}}'
	keeps x
	tool 1 celldfs-claim -m "$DIR/m2" x
	says "not known to be dead"
	kept x
	put nodes/a.json '{"node":"a","expires_ms":0,"addr":"h"}'
	tool 0 celldfs-claim -m "$DIR/m2" x
	is "$output" 42
	is "$(record x)" "$(own b 42)"
}

@test "claim: costs what reading and writing cost" {
	spy_at m -o node=a,keeper=off
	# what is not there yet is looked up, and read
	is "$(calls m celldfs-claim -m "$DIR/m" x)" "2 1 0"
	is "$(calls m celldfs-release -m "$DIR/m" x 1)" "1 1 0"
	is "$(calls m celldfs-claim -m "$DIR/m" x)" "1 1 0"
	is "$(calls m celldfs-claim -m "$DIR/m" x)" "1 0 0"
	is "$(calls m celldfs-release -m "$DIR/m" x 7)" "1 0 0"
}

@test "claim: epochs up to 2^64 - 1" {
	mount_at m -o node=a,keeper=off
	export CELLDFS_MOUNT=$DIR/m
	while read -r from to; do
		put cells/x/own.json "$(own "" "$from")"
		tool 0 celldfs-claim x
		is "$output" "$to"
		is "$(record x)" "$(own a "$to")"
		tool 0 celldfs-release x "$to"
		is "$(record x)" "$(own "" "$to")"
	done <<-'END'
		0 1
		8 9
		9 10
		99 100
		1099 1100
		9223372036854775807 9223372036854775808
		9999999999999999999 10000000000000000000
		18446744073709551614 18446744073709551615
	END
	keeps x
	tool 1 celldfs-claim x
	says 18446744073709551615
	kept x
}

@test "claim: the epoch cannot be printed: 111, and it is named" {
	mount_at m -o node=a,keeper=off
	for shell in dash bash; do
		run --separate-stderr "$shell" -c '"$0" "$@" >&-' "$shell" \
			"$SCRIPTS/celldfs-claim" -m "$DIR/m" $shell
		is "$status" 111
		says "claimed at epoch 1"
		run --separate-stderr "$shell" -c '"$0" "$@" >/dev/full' "$shell" \
			"$SCRIPTS/celldfs-claim" -m "$DIR/m" --restart $shell
		is "$status" 111
		says "claimed at epoch 2"
	done
}

# ---- somebody was faster ----

# before_write SCRIPT COMMAND...: runs COMMAND, a tool, and SCRIPT when it has read
# the record and is about to write: by env printf. Sets $status, $output, $stderr.
before_write() {
	mkdir -p "$DIR/bin"
	printf '#!/bin/bash\n%s\nexec /usr/bin/env "$@"\n' "$1" >"$DIR/bin/env"
	chmod +x "$DIR/bin/env"
	shift
	PATH=$DIR/bin:$PATH run --separate-stderr "$@"
}

@test "claim, release: somebody was faster: 1, and the other's record stands" {
	mount_at m -o node=a,keeper=off
	export HERE BODY
	meanwhile='printf %s "$BODY" | python3 "$HERE/outside.py" put cells/x/own.json'
	BODY=$(own b 1)
	before_write "$meanwhile" celldfs-claim -m "$DIR/m" x
	is "$status $output" "1 "
	says "rejected"
	is "$(record x)" "$(own b 1)"

	put cells/x/own.json "$(own "" 1)"
	BODY=$(own b 2)
	before_write "$meanwhile" celldfs-claim -m "$DIR/m" x
	is "$status $output" "1 "
	says "rejected"
	is "$(record x)" "$(own b 2)"

	put cells/x/own.json "$(own a 3)"
	BODY=$(own b 4)
	before_write "$meanwhile" celldfs-release -m "$DIR/m" x 3
	is "$status" 1
	says "rejected"
	is "$(record x)" "$(own b 4)"
	# also if the other one's says the same; S3 has one ETag for both
	[ "$KIND" = sqlite ] || return 0
	put cells/x/own.json "$(own a 5)"
	BODY=$(own a 5)
	before_write "$meanwhile" celldfs-release -m "$DIR/m" x 5
	is "$status" 1
	is "$(record x)" "$(own a 5)"
}

@test "claim: 20 at once through two mounts: one wins, the others are told" {
	mount_at m1 -o node=a
	mount_at m2 -o node=b
	for round in 1 2; do
		pids=()
		for n in {1..20}; do
			celldfs-claim -m "$DIR/m$((n % 2 + 1))" x >"$DIR/out$n" \
				2>"$DIR/err$n" 3>&- &
			pids+=($!)
		done
		won=0
		for n in {1..20}; do
			status=0
			wait "${pids[n - 1]}" || status=$?
			if [ $status -eq 0 ]; then
				won=$((won + 1))
				is "$(cat "$DIR/out$n")" $round
			else
				is "$status $(cat "$DIR/out$n")" "1 "
				grep -qE 'rejected|owns it already' "$DIR/err$n"
			fi
		done
		is $won 1
		tool 0 celldfs-owner --json -m "$DIR/m1" x
		[[ $output == *'"state":"alive"'*"\"epoch\":$round,"* ]]
		if [[ $(record x) == *'"a"'* ]]; then
			celldfs-release -m "$DIR/m1" x $round
		else
			celldfs-release -m "$DIR/m2" x $round
		fi
	done
}

# ---- failures ----

@test "claim, release: errors of the store are 111, and say whether it may have happened" {
	spy_at m -o node=a,keeper=off,deadline-ms=1500
	export CELLDFS_MOUNT=$DIR/m
	put cells/x/own.json "$(own a 1)"
	keeps x
	for tool in "claim --restart x" "release x 1"; do
		# not even read
		rules m 'get cells/* fail failed'
		# shellcheck disable=SC2086 # words
		tool 111 celldfs-$tool
		says "nothing was written"
		# refused for now
		for word in failed not-done; do
			rules m "put_if cells/* fail $word"
			# shellcheck disable=SC2086
			tool 111 celldfs-$tool
			says "nothing was written"
		done
		# no access
		rules m "put_if cells/* fail denied"
		# shellcheck disable=SC2086
		tool 1 celldfs-$tool
		says "Permission denied"
		kept x
		# no answer
		rules m "put_if cells/* drop"
		# shellcheck disable=SC2086
		tool 111 celldfs-$tool
		says "may have happened: read before you retry"
		is "$output" ""
		rules m
		kept x
	done
	rules m 'get cells/* fail failed'
	tool 111 celldfs-owner x
	is "$output" ""
	rules m 'get cells/* hang'
	tool 111 celldfs-owner x
	says "timed out"
	rules m
}

@test "claim, release: a store that loses answers: applied is applied" {
	spy_at m -o node=a,keeper=off
	rules m 'put_if cells/* lose x1'
	tool 0 celldfs-claim -m "$DIR/m" x
	is "$output" 1
	rules m '# again' 'put_if cells/* lose x1 '
	tool 0 celldfs-release -m "$DIR/m" x 1
	is "$(record x)" "$(own "" 1)"
}

@test "release: the outcome is unknown, and then it is found released: done" {
	spy_at m -o node=a,keeper=off,deadline-ms=1500
	export HERE BODY
	# when the tool asks for the outcome the store answers again, and another
	# program may have been there
	mkdir "$DIR/bin"
	cat >"$DIR/bin/getfattr" <<-END
		#!/bin/bash
		if [[ \$* == *outcome* ]]; then
			rm "$DIR/m.rules"
			[ -z "\$BODY" ] || printf %s "\$BODY" |
				python3 "$HERE/outside.py" put cells/x/own.json
		fi
		exec /usr/bin/getfattr "\$@"
	END
	chmod +x "$DIR/bin/getfattr"
	# applied, and no answer, and then none to the reads either
	printf '%s\n' 'put_if cells/* lose' 'get cells/* fail failed' >"$DIR/lost"
	for BODY in '' "$(own "" 1)" "$(own a 1)" "$(own "" 2)" "$(own b 2)"; do
		put cells/x/own.json "$(own a 1)"
		before_write "cp $DIR/lost $DIR/m.rules" \
			celldfs-release -m "$DIR/m" x 1
		[ ! -e "$DIR/m.rules" ]
		is "$(record x)" "${BODY:-$(own "" 1)}"
		case $BODY in
		'' | "$(own "" 1)") is "$status $stderr" "0 " ;;
		*)
			is "$status" 111
			says "may have happened"
			;;
		esac
	done
}

@test "claim: interrupted while it writes: 111, and it says so" {
	spy_at m -o node=a,keeper=off
	rules m 'put_if cells/* delay 500'
	for signal in TERM HUP; do
		# by exec the pid is its own
		before_write "kill -$signal \$(cat $DIR/pid)" bash -c \
			'echo $$ >"$1"; shift; exec "$@"' bash "$DIR/pid" \
			celldfs-claim -m "$DIR/m" $signal
		is "$status $output" "111 "
		says "may have happened: read before you retry"
		# and it has
		is "$(record $signal)" "$(own a 1)"
	done
}

@test "tools: a fenced mount: 1; it writes nothing and still reads" {
	mount_at m1 -o node=a,ttl-ms=2000
	mount_at m2 -o node=b
	tool 0 celldfs-claim -m "$DIR/m1" x
	tool 0 celldfs-claim -m "$DIR/m1" y
	keeps y
	kill -STOP "$(pid_of m1)"
	sleep 3.5
	kill -CONT "$(pid_of m1)"
	tool 1 celldfs-claim -m "$DIR/m1" z
	says "lost its lease"
	says "mount anew"
	tool 1 celldfs-release -m "$DIR/m1" y 1
	says "lost its lease"
	kept y
	tool 0 celldfs-claim -m "$DIR/m2" x
	is "$output" 2
	tool 0 celldfs-owner -m "$DIR/m1" x
	is "${lines[1]}" "state alive"
	is "${lines[2]}" "owner b"
	tool 0 celldfs-owner -m "$DIR/m2" y
	is "${lines[1]}" "state dead"
	tool 0 celldfs-owner -m "$DIR/m1" y
	# within the margin after its expiry, or after it
	[[ ${lines[1]} =~ ^state\ (unknown|dead)$ ]]
	is "$(outside keys cells/z)" ""
}

@test "claim: a mount that is fenced while the claim is on its way: 1" {
	spy_at m -o node=a,ttl-ms=1500
	rules m 'put_if cells/* delay 1200' 'put_if nodes/* fail failed'
	tool 1 celldfs-claim -m "$DIR/m" x
	says "lost its lease"
	is "$output" ""
}

# ---- installed ----

@test "tools: installed, they find what they share" {
	DESTDIR=$DIR/root cmake --install "$BUILD" >/dev/null
	prefix=$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' "$BUILD/CMakeCache.txt")
	PATH=$DIR/root$prefix/bin:/usr/bin
	is "$(command -v celldfs-claim)" "$DIR/root$prefix/bin/celldfs-claim"
	mount_at m -o node=a,keeper=off
	tool 0 celldfs-claim -m "$DIR/m" x
	is "$output" 1
	ln -s "$DIR/root$prefix/bin/celldfs-owner" "$DIR/who"
	tool 0 "$DIR/who" -m "$DIR/m" x
	is "${lines[2]}" "owner a"
	# umount(8) looks in /sbin alone
	[ -x "$DIR/root/usr/sbin/umount.fuse.celldfs" ]
	[ ! -e "$DIR/root$prefix/bin/tools.sh" ]
}
