# tools: the tools of scripts/ on real mounts. Load it after helper.

SCRIPTS=$(cd "$HERE/../../scripts" && pwd)
PATH=$SCRIPTS:$PATH
unset CELLDFS_MOUNT

# tool STATUS COMMAND...: runs it and expects that exit status. Sets $output and
# $stderr.
tool() {
	local expected=$1

	shift
	run --separate-stderr "$@"
	[ "$status" -eq "$expected" ] && return
	printf '%s\nexit status %s, not %s\n' "$output$stderr" "$status" "$expected"
	return 1
}

# says TEXT: the last tool's stderr has it.
says() {
	[[ $stderr == *"$1"* ]] && return
	printf 'said:     %s\nexpected: %s\n' "$stderr" "$1"
	return 1
}

record() { outside get "cells/$1/own.json"; }

# keeps CELL, ..., kept CELL: its record was not touched in between.
version() { outside etags cells/ | grep -F " cells/$1/own.json"; }
keeps() { before=$(version "$1"); }
kept() { is "$(version "$1")" "$before"; }

# alive NODE: it has a lease for an hour; for mounts with keeper=off.
alive() { put "nodes/$1.json" "$(lease "$1" $(($(now_ms) + 3600000)))"; }

# two_mounts: of the nodes a and b, which keep no leases.
two_mounts() {
	mount_at m1 -o node=a,keeper=off
	mount_at m2 -o node=b,keeper=off
}

# poor_path: makes and prints the PATH of a system without getfattr.
poor_path() {
	local name

	mkdir "$DIR/poor"
	# mktemp and rm are for bats
	for name in sh dash bash env printf cat tr sed awk timeout dirname \
		readlink expr date stat mktemp rm; do
		ln -s "$(type -P "$name")" "$DIR/poor/$name"
	done
	echo "$SCRIPTS:$DIR/poor"
}

# by SHELL NAME MOUNT ARGUMENT...: celldfs-NAME, run by that shell.
by() { "$1" "$SCRIPTS/celldfs-$2" -m "$DIR/$3" "${@:4}"; }
