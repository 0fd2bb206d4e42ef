#!/usr/bin/env bats
# clients: real programs as writers, on two mounts of one store. For each: a
# guarded write, a stale one, the same through one descriptor without an xattr,
# and create-only; then editors and copy tools, which know nothing of guards.

load helper

OLD='{"node":"n1","epoch":1}'
OTHER='{"node":"n1","epoch":2,"by":"somebody else"}'
NEW='{"node":"n1","epoch":3,"by":"this client"}'

two_mounts() {
	mount_at m1
	mount_at m2
	here=$DIR/m1/cells/c/own
	there=$DIR/m2/cells/c/own
}

# --- Write-only clients: put_CLIENT FILE RECORD ------------------------------

put_bash() { bash -c 'echo "$2" >"$1"' bash "$1" "$2"; }
put_dash() { dash -c 'echo "$2" >"$1"' dash "$1" "$2"; }
put_cat() { printf '%s\n' "$2" | cat >"$1"; }
put_tee() { printf '%s\n' "$2" | tee "$1" >/dev/null; }
put_dd() { printf '%s\n' "$2" | dd of="$1" status=none; }
put_cp() { printf '%s\n' "$2" >"$DIR/new" && cp "$DIR/new" "$1"; }
put_c() { "$TOOLS/rw_client" --wronly "$1" "$2"; }

put_python() {
	python3 - "$1" "$2" <<-'PY'
		import errno, sys
		try:
		    with open(sys.argv[1], "w") as file:
		        print(sys.argv[2], file=file)
		except OSError as e:
		    sys.exit(errno.errorcode[e.errno])
	PY
}

put_node() {
	node -e '
		const [path, record] = process.argv.slice(1);
		try { require("fs").writeFileSync(path, record + "\n"); }
		catch (e) { console.error(e.code); process.exit(1); }
	' "$1" "$2"
}

# What each says of EBUSY; dash says only that there was an I/O error.
says_busy() {
	case $1 in
	dash) grep -qi 'I/O error' ;;
	python | node | c) grep -qx 'EBUSY' ;;
	*) grep -q 'Device or resource busy' ;;
	esac
}

# A write under an armed guard that holds.
guarded() {
	two_mounts
	create "$there" "$OLD"
	arm "$here" "$(etag "$here")"
	"put_$1" "$here" "$NEW"
	is "$(cat "$there")" "$NEW"
	is "$(etag "$there")" "$(etag "$here")"
	[[ $(outcome "$here") == applied* ]]
}

# A write under an armed guard that held when it was armed.
stale() {
	local before

	two_mounts
	create "$there" "$OLD"
	arm "$here" "$(etag "$here")"
	swap "$there" "$OTHER"
	before=$(etag "$there")
	run "put_$1" "$here" "$NEW"
	[ "$status" -ne 0 ]
	says_busy "$1" <<<"$output"
	[[ $(outcome "$here") == rejected* ]]
	is "$(cat "$there")" "$OTHER"
	is "$(etag "$there")" "$before"
}

@test "bash: a guarded write is seen by the other mount" { guarded bash; }
@test "bash: a stale write is EBUSY and changes nothing" { stale bash; }
@test "dash: a guarded write is seen by the other mount" { guarded dash; }
@test "dash: a stale write is EBUSY and changes nothing" { stale dash; }
@test "cat: a guarded write is seen by the other mount" { guarded cat; }
@test "cat: a stale write is EBUSY and changes nothing" { stale cat; }
@test "tee: a guarded write is seen by the other mount" { guarded tee; }
@test "tee: a stale write is EBUSY and changes nothing" { stale tee; }
@test "dd: a guarded write is seen by the other mount" { guarded dd; }
@test "dd: a stale write is EBUSY and changes nothing" { stale dd; }
@test "cp: a guarded write is seen by the other mount" { guarded cp; }
@test "cp: a stale write is EBUSY and changes nothing" { stale cp; }
@test "Python: a guarded write is seen by the other mount" { guarded python; }
@test "Python: a stale write is EBUSY and changes nothing" { stale python; }
@test "Node: a guarded write is seen by the other mount" { guarded node; }
@test "Node: a stale write is EBUSY and changes nothing" { stale node; }
@test "C: a guarded write is seen by the other mount" { guarded c; }
@test "C: a stale write is EBUSY and changes nothing" { stale c; }

# --- One descriptor: edit_CLIENT FILE RECORD FIFO ----------------------------
# Each reads FILE, waits until FIFO was opened for writing and closed again, and
# writes through the descriptor that it read from.

edit_bash() {
	bash -c 'exec 3<>"$1" && cat <&3 >/dev/null && read -r _ <"$3"
		echo "$2" >&3' bash "$1" "$2" "$3"
}

edit_dash() {
	dash -c 'exec 3<>"$1" && cat <&3 >/dev/null && read -r _ <"$3"
		echo "$2" >&3' dash "$1" "$2" "$3"
}

# The shell's descriptor, in the hands of its children.
edit_cat() {
	bash -c 'exec 3<>"$1" && cat <&3 >/dev/null && read -r _ <"$3"
		printf "%s\n" "$2" | cat >&3' bash "$1" "$2" "$3"
}

edit_dd() {
	bash -c 'exec 3<>"$1" && dd <&3 of=/dev/null status=none &&
		read -r _ <"$3"
		printf "%s\n" "$2" | dd >&3 status=none' bash "$1" "$2" "$3"
}

# As people edit JSON: load, change, seek to the start, dump, truncate.
edit_python() {
	python3 - "$1" "$2" "$3" <<-'PY'
		import errno, json, sys
		try:
		    with open(sys.argv[1], "r+") as file:
		        record = json.load(file)
		        open(sys.argv[3]).read()
		        record.clear()
		        record.update(json.loads(sys.argv[2]))
		        file.seek(0)
		        json.dump(record, file, separators=(",", ":"))
		        file.truncate()
		except OSError as e:
		    sys.exit(errno.errorcode[e.errno])
	PY
}

edit_node() {
	node -e '
		const fs = require("fs");
		const [path, record, fifo] = process.argv.slice(1);
		try {
			const fd = fs.openSync(path, "r+");
			fs.readFileSync(fd);
			fs.readFileSync(fifo);
			fs.writeSync(fd, record, 0);
			fs.closeSync(fd);
		} catch (e) { console.error(e.code); process.exit(1); }
	' "$1" "$2" "$3"
}

edit_c() { "$TOOLS/rw_client" --wait "$3" "$1" "$2"; }

# edit CLIENT [COMMAND...]: runs the client; COMMAND comes between its read and
# its write. Sets $status and $output as run does.
edit() {
	local client=$1 pid

	shift
	mkfifo "$DIR/fifo"
	"edit_$client" "$here" "$NEW" "$DIR/fifo" >"$DIR/said" 2>&1 3>&- &
	pid=$!
	exec 4>"$DIR/fifo" # returns when the client has read, and waits
	"${@:-true}"
	exec 4>&-
	status=0
	wait "$pid" || status=$?
	output=$(cat "$DIR/said")
}

one_descriptor() {
	two_mounts
	create "$there" "$OLD"
	edit "$1"
	is "$output" ""
	is "$status" 0
	is "$(cat "$there")" "$NEW"
	is "$(etag "$there")" "$(etag "$here")"
}

one_descriptor_stale() {
	two_mounts
	create "$there" "$OLD"
	edit "$1" swap "$there" "$OTHER"
	[ "$status" -ne 0 ]
	says_busy "$1" <<<"$output"
	is "$(cat "$there")" "$OTHER"
	# What somebody else has read, or armed, on this mount is not this
	# descriptor's.
	rm "$DIR/fifo"
	edit "$1" arm_what_is_there
	[ "$status" -ne 0 ]
	says_busy "$1" <<<"$output"
	is "$(cat "$there")" '{"node":"n1","epoch":9}'
}

arm_what_is_there() {
	swap "$there" '{"node":"n1","epoch":9}'
	cat "$here" >"$DIR/seen"
	arm "$here" "$(etag "$there")"
}

@test "bash: one descriptor, no xattr" { one_descriptor bash; }
@test "bash: one descriptor, the record changes in between" { one_descriptor_stale bash; }
@test "dash: one descriptor, no xattr" { one_descriptor dash; }
@test "dash: one descriptor, the record changes in between" { one_descriptor_stale dash; }
@test "cat: one descriptor, no xattr" { one_descriptor cat; }
@test "cat: one descriptor, the record changes in between" { one_descriptor_stale cat; }
@test "dd: one descriptor, no xattr" { one_descriptor dd; }
@test "dd: one descriptor, the record changes in between" { one_descriptor_stale dd; }
@test "Python: one descriptor, no xattr" { one_descriptor python; }
@test "Python: one descriptor, the record changes in between" { one_descriptor_stale python; }
@test "Node: one descriptor, no xattr" { one_descriptor node; }
@test "Node: one descriptor, the record changes in between" { one_descriptor_stale node; }
@test "C: one descriptor, no xattr" { one_descriptor c; }
@test "C: one descriptor, the record changes in between" { one_descriptor_stale c; }

# --- Create-only: make_CLIENT FILE RECORD ------------------------------------

make_bash() { bash -c 'set -C && echo "$2" >"$1"' bash "$1" "$2"; }
make_dash() { dash -c 'set -C && echo "$2" >"$1"' dash "$1" "$2"; }
make_dd() { printf '%s\n' "$2" | dd of="$1" conv=excl status=none; }
make_c() { "$TOOLS/rw_client" --excl "$1" "$2"; }

make_python() {
	python3 - "$1" "$2" <<-'PY'
		import errno, sys
		try:
		    with open(sys.argv[1], "x") as file:
		        file.write(sys.argv[2])
		except OSError as e:
		    sys.exit(errno.errorcode[e.errno])
	PY
}

make_node() {
	node -e '
		const [path, record] = process.argv.slice(1);
		try { require("fs").writeFileSync(path, record, {flag: "wx"}); }
		catch (e) { console.error(e.code); process.exit(1); }
	' "$1" "$2"
}

# bash and dash look before they open, and have words of their own.
says_exists() {
	case $1 in
	bash) grep -q 'cannot overwrite existing file' ;;
	dash) grep -qi 'File exists' ;;
	python | node | c) grep -qx 'EEXIST' ;;
	*) grep -q 'File exists' ;;
	esac
}

create_only() {
	local before

	two_mounts
	"make_$1" "$here" "$OLD"
	is "$(cat "$there")" "$OLD"
	before=$(etag "$there")
	run "make_$1" "$there" "$NEW"
	[ "$status" -ne 0 ]
	says_exists "$1" <<<"$output"
	is "$(cat "$here")" "$OLD"
	is "$(etag "$here")" "$before"
}

@test "bash: set -C creates once" { create_only bash; }
@test "dash: set -C creates once" { create_only dash; }
@test "dd: conv=excl creates once" { create_only dd; }
@test "Python: mode x creates once" { create_only python; }
@test "Node: flag wx creates once" { create_only node; }
@test "C: O_EXCL creates once" { create_only c; }

@test "a create that loses the race is EBUSY and changes nothing" {
	two_mounts
	mkfifo "$DIR/fifo"
	python3 - "$here" "$NEW" "$DIR/fifo" >"$DIR/said" 2>&1 3>&- <<-'PY' &
		import errno, os, sys
		fd = os.open(sys.argv[1], os.O_CREAT | os.O_EXCL | os.O_WRONLY)
		open(sys.argv[3]).read()
		try:
		    os.write(fd, sys.argv[2].encode())
		except OSError as e:
		    print(errno.errorcode[e.errno])
	PY
	exec 4>"$DIR/fifo"
	create "$there" "$OTHER"
	exec 4>&-
	wait $!
	is "$(cat "$DIR/said")" EBUSY
	is "$(cat "$there")" "$OTHER"
}

# --- Editors and copy tools --------------------------------------------------

spied_mount() {
	spy_at m1
	here=$DIR/m1/cells/c/own
	create "$here" "$OLD"
	printf '%s\n' "$NEW" >"$DIR/new"
	: >"$DIR/m1.calls"
}

# wire: the PUTs since, as "KEY GUARD OUTCOME"
wire() {
	sed -nE 's/^put_if (.*) [0-9a-f]{32}$/\1/p' "$DIR/m1.calls"
}

# Nothing was sent but reads, and the record is as it was.
untouched() {
	is "$(grep -vE '^(get|list|now) ' "$DIR/m1.calls")" ""
	is "$(cat "$here")" "$OLD"
}

# without_guard COMMAND...: an editor that knows nothing of guards fails, and
# sends nothing.
without_guard() {
	local before

	spied_mount
	before=$(etag "$here")
	run "$@"
	[ "$status" -ne 0 ]
	is "$(etag "$here")" "$before"
	untouched
}

# with_guard COMMAND...: the same with a guard that was armed before; it cannot
# be used by a tool that would go around it.
with_guard() {
	spied_mount
	arm "$here" "$(etag "$here")"
	run "$@"
	[ "$status" -ne 0 ]
	untouched
}

@test "sed -i fails on its temporary file, and nothing is written" {
	without_guard sed -i s/1/2/ "$DIR/m1/cells/c/own"
	grep -q 'Operation not permitted' <<<"$output"
	arm "$here" "$(etag "$here")"
	run sed -i s/1/2/ "$here"
	[ "$status" -ne 0 ]
	untouched
}

@test "mv onto a record is EPERM, and nothing is written" {
	with_guard mv "$DIR/new" "$DIR/m1/cells/c/own"
	grep -q 'Operation not permitted' <<<"$output"
	is "$(cat "$DIR/new")" "$NEW"
}

@test "mv of a record, inside the mount and out of it, leaves it there" {
	with_guard mv "$DIR/m1/cells/c/own" "$DIR/m1/cells/c/old"
	run mv "$here" "$DIR/elsewhere"
	[ "$status" -ne 0 ]
	untouched
}

@test "install over a record is EPERM, and nothing is written" {
	with_guard install -m 644 "$DIR/new" "$DIR/m1/cells/c/own"
}

@test "cp --remove-destination and --backup are EPERM, and nothing is written" {
	with_guard cp --remove-destination "$DIR/new" "$DIR/m1/cells/c/own"
	run cp --backup "$DIR/new" "$here"
	[ "$status" -ne 0 ]
	untouched
}

@test "ln and ln -s over a record are EPERM, and nothing is written" {
	with_guard ln -sf "$DIR/new" "$DIR/m1/cells/c/own"
	run ln "$here" "$DIR/m1/cells/c/other"
	[ "$status" -ne 0 ]
	untouched
}

@test "cp -p without a guard is EPERM, and nothing is written" {
	without_guard cp -p "$DIR/new" "$DIR/m1/cells/c/own"
	grep -q 'Operation not permitted' <<<"$output"
}

@test "cp -p under a guard is one guarded PUT of own.json" {
	local guard

	spied_mount
	guard=$(etag "$here")
	arm "$here" "$guard"
	# What may not be preserved (times) is as if it were; the mode is that
	# of the record already.
	chmod 644 "$DIR/new"
	cp -p "$DIR/new" "$here"
	is "$(wire)" "cells/c/own.json If-Match: $guard applied"
	is "$(cat "$here")" "$NEW"
}

@test "rsync --inplace under a guard is one guarded PUT of own.json" {
	local guard

	command -v rsync >/dev/null || skip "rsync is not installed"
	spied_mount
	guard=$(etag "$here")
	arm "$here" "$guard"
	rsync --inplace --whole-file "$DIR/new" "$here"
	is "$(wire)" "cells/c/own.json If-Match: $guard applied"
	is "$(cat "$here")" "$NEW"
}

@test "rsync without --inplace fails on its temporary file" {
	command -v rsync >/dev/null || skip "rsync is not installed"
	with_guard rsync "$DIR/new" "$DIR/m1/cells/c/own"
}

@test "the names that editors make beside a record are EPERM, with no request" {
	local name

	spied_mount
	cat "$here" >/dev/null
	: >"$DIR/m1.calls"
	for name in .own.swp .own.swx own~ '#own#' '.#own' sedXXXXXX .own.abcdef \
		own.tmp 4913 own.bak; do
		is "$(errno_of 'os.open(a[0], os.O_CREAT | os.O_EXCL | os.O_RDWR)' \
			"$DIR/m1/cells/c/$name")" EPERM
		[ ! -e "$DIR/m1/cells/c/$name" ]
	done
	is "$(cat "$DIR/m1.calls")" ""
}
