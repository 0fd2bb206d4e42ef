#!/usr/bin/env bats
# languages: the programs in test/clients, one for each language, through the same
# three scenarios. A language that is not installed is skipped; scripts/packages long
# installs all.

load helper

CLIENTS=$HERE/../clients

# What has to be compiled is, once.
setup_file() {
	cd "$BATS_FILE_TMPDIR"
	gcc -O2 -Wall -Wextra -Werror -o c "$CLIENTS/cell.c"
	! command -v go || GOCACHE=$PWD/cache go build -o go "$CLIENTS/cell.go"
	! command -v rustc || rustc -o rust "$CLIENTS/cell.rs"
	! command -v javac || javac -d . "$CLIENTS/Cell.java"
}

# client LANGUAGE COMMAND FILE: as the node n1.
client() {
	case $1 in
	Python) python3 "$CLIENTS/cell.py" "$2" "$3" n1 ;;
	Node) node "$CLIENTS/cell.mjs" "$2" "$3" n1 ;;
	Ruby) ruby "$CLIENTS/cell.rb" "$2" "$3" n1 ;;
	Perl) perl "$CLIENTS/cell.pl" "$2" "$3" n1 ;;
	C) "$BATS_FILE_TMPDIR/c" "$2" "$3" n1 ;;
	Go) "$BATS_FILE_TMPDIR/go" "$2" "$3" n1 ;;
	Rust) "$BATS_FILE_TMPDIR/rust" "$2" "$3" n1 ;;
	Java) LC_ALL=C java -cp "$BATS_FILE_TMPDIR" Cell "$2" "$3" n1 ;;
	esac
}

# begin LANGUAGE COMMAND FILE: in the background. Returns when it has read FILE.
begin() {
	local line

	rm -f "$DIR/in" "$DIR/out"
	mkfifo "$DIR/in" "$DIR/out"
	client "$@" <"$DIR/in" >"$DIR/out" 2>"$DIR/err" 3>&- &
	exec 4>"$DIR/in" 5<"$DIR/out"
	read -r -t 60 -u 5 line
}

# step FILE [RECORD]: a line of input, after which the client says that it has
# written RECORD, and FILE has it.
step() {
	local line=

	echo >&4
	while [ -z "$line" ]; do
		read -r -t 60 -u 5 line || { cat "$DIR/err"; return 1; }
	done
	line=${line// /}
	is "$line" "${2-$line}"
	is "$(record "$1")" "$line"
}

# record FILE: without white space.
record() { tr -d ' \n' <"$1"; }

# ends STATUS: after the end of its input.
ends() {
	local status=0

	exec 4>&-
	wait $! || status=$?
	exec 5<&-
	[ "$status" = "$1" ] || { cat "$DIR/err"; return 1; }
}

# is_rejected FILE COMMAND...: by which somebody else writes FILE before the client.
is_rejected() {
	local before record

	"${@:2}"
	before=$(etag "$1")
	record=$(cat "$1")
	echo >&4
	ends 1
	[[ $(cat "$DIR/err") == *"busy: nothing was written" ]]
	is "$(etag "$1")" "$before"
	is "$(cat "$1")" "$record"
}

# --- The scenarios -----------------------------------------------------------

# On the client's mount, which is here, and somebody else's, which is there.
claims() {
	here=$DIR/m1/cells/c/own
	there=$DIR/m2/cells/c/own
	begin "$1" claim "$here"
	step "$there" "$(own n1 1)"
	echo >&4
	ends 0
	is "$(record "$there")" "$(own "" 1)"
	# a number that no double holds; a node without a lease is dead, for 1 GET
	here=$DIR/m1/cells/d/own
	there=$DIR/m2/cells/d/own
	create "$there" "$(own gone 18446744073709551613)"
	begin "$1" claim "$here"
	: >"$DIR/m1.calls"
	step "$there" "$(own n1 18446744073709551614)"
	ends 0
	is "$(record "$there")" "$(own "" 18446744073709551614)"
	is "$(counted "$DIR/m1.calls")" "1 2 0"
}

loses() {
	here=$DIR/m1/cells/e/own
	there=$DIR/m2/cells/e/own
	begin "$1" claim "$here"
	is_rejected "$there" create "$there" "$(own n2 1)"
	begin "$1" claim "$here"
	is_rejected "$there" swap "$there" "$(own n2 2)"
}

renews() {
	local n start_ms

	here=$DIR/m1/nodes/n1
	there=$DIR/m2/nodes/n1
	begin "$1" renew "$here"
	for n in 1 2 3 4; do
		: >"$DIR/m1.calls"
		step "$there"
		is "$(counted "$DIR/m1.calls")" "0 1 0"
	done
	is_rejected "$there" swap "$there" "$(lease n1 5 elsewhere)"

	start_ms=$(now_ms)
	begin "$1" renew "$here"
	step "$there"
	# a clock of whole seconds will do
	n=$(sed 's/.*"expires_ms": *\([0-9]*\).*/\1/' "$there")
	[ "$n" -gt $((start_ms + 9000)) ]
	[ "$n" -le $(($(now_ms) + 10000)) ]
	ends 0
	is "$(record "$there")" "$(lease n1 0 n1)"
}

# all LANGUAGE TOOL
all() {
	command -v "$2" >/dev/null || skip "no $2"
	spy_at m1 -o node=n1,keeper=off
	mount_at m2
	claims "$1"
	loses "$1"
	renews "$1"
}

@test "Python: claims and releases, loses races, renews" { all Python python3; }
@test "Node: claims and releases, loses races, renews" { all Node node; }
@test "Perl: claims and releases, loses races, renews" { all Perl perl; }
@test "Ruby: claims and releases, loses races, renews" { all Ruby ruby; }
@test "C: claims and releases, loses races, renews" { all C gcc; }
@test "Go: claims and releases, loses races, renews" { all Go go; }
@test "Rust: claims and releases, loses races, renews" { all Rust rustc; }
@test "Java: claims and releases, loses races, renews" { all Java javac; }
