#!/usr/bin/env bats
# names: what is visible under a mount, under which names, with which
# attributes, and what reading it shows.

load helper

repeat() { printf "%0.s$1" $(seq "$2"); }

# put_cells FROM TO: cells c00001 and so on, each owned by n1.
put_cells() { own n1 1 | outside fill cells/c%05d/own.json "$1" "$2"; }

# A pause before each page, long enough to change some hundred objects; amid: in
# the second.
PAUSE_MS=4000
amid() { sleep 4.8; }

# no_request COMMAND...: runs it and checks that the store was not asked.
no_request() { is "$(calls m1 "$@")" "0 0 0"; }

# eperm_without_request SCRIPT [ARGUMENT...]: Python, as in errno_of.
eperm_without_request() {
	: >"$DIR/m1.calls"
	is "$(errno_of "$@")" EPERM
	is "$(cat "$DIR/m1.calls")" ""
}

# --- Directories and names ---------------------------------------------------

@test "the root has cells, nodes and .celldfs; an empty fleet is empty" {
	mount_at m1
	is "$(ls -A "$DIR/m1" | LC_ALL=C sort | xargs)" ".celldfs cells nodes"
	is "$(ls -A "$DIR/m1/cells")" ""
	is "$(ls -A "$DIR/m1/nodes")" ""
	is "$(ls -A "$DIR/m1/.celldfs" | xargs)" "metrics peers status"
	[ ! -e "$DIR/m1/other" ]
}

@test "records appear under cells and nodes" {
	mount_at m1
	create "$DIR/m1/cells/b/own" "$(own n1 1)"
	create "$DIR/m1/cells/a/own" "$(own n1 1)"
	create "$DIR/m1/nodes/n1" "$(lease n1 0)"
	is "$(ls "$DIR/m1/cells" | xargs)" "a b"
	is "$(ls "$DIR/m1/nodes")" "n1"
	is "$(ls -A "$DIR/m1/cells/a")" "own"
	is "$(outside keys | xargs)" \
		"cells/a/own.json cells/b/own.json nodes/n1.json"
}

@test "a valid cell can be entered without mkdir and without a request" {
	spy_at m1
	is "$(calls m1 cd "$DIR/m1/cells/new")" "0 0 0"
	no_request stat "$DIR/m1/cells/new/"
	(
		cd "$DIR/m1/cells/new"
		is "$(ls -A)" ""
		is "$(errno_of 'os.stat("own")')" ENOENT
		create own "$(own n1 1)"
		is "$(ls -A)" "own"
	)
}

@test "entering a cell does not list it" {
	mount_at m1
	(cd "$DIR/m1/cells/new" && is "$(ls "$DIR/m1/cells")" "")
}

@test "mkdir -p of a valid cell succeeds, with no request" {
	spy_at m1
	no_request mkdir -p "$DIR/m1/cells/x"
	mkdir -p "$DIR/m1/cells/x"
	mkdir -p "$DIR/m1/cells" "$DIR/m1/nodes"
}

@test "any other mkdir is refused with no request" {
	spy_at m1
	# As anywhere, what is there already is EEXIST; a cell always is.
	is "$(errno_of 'os.mkdir(a[0])' "$DIR/m1/cells/x")" EEXIST
	eperm_without_request 'os.mkdir(a[0])' "$DIR/m1/top"
	eperm_without_request 'os.mkdir(a[0])' "$DIR/m1/cells/x/ltx"
	eperm_without_request 'os.mkdir(a[0])' "$DIR/m1/.celldfs/x"
	[ ! -e "$DIR/m1/cells/x/ltx" ]
}

@test "rmdir is EPERM with no request" {
	spy_at m1
	eperm_without_request 'os.rmdir(a[0])' "$DIR/m1/cells/x"
	eperm_without_request 'os.rmdir(a[0])' "$DIR/m1/cells"
	eperm_without_request 'os.rmdir(a[0])' "$DIR/m1/nodes"
}

@test "unlink, rename, link, symlink and mknod are EPERM with no request" {
	local own lease before

	spy_at m1
	own=$DIR/m1/cells/c/own
	lease=$DIR/m1/nodes/n1
	create "$own" "$(own n1 1)"
	create "$lease" "$(lease n1 0)"
	before=$(outside etags)

	eperm_without_request 'os.unlink(a[0])' "$own"
	eperm_without_request 'os.unlink(a[0])' "$lease"
	eperm_without_request 'os.unlink(a[0])' "$DIR/m1/.celldfs/status"
	eperm_without_request 'os.rename(a[0], a[1])' "$own" "$DIR/m1/cells/c/x"
	eperm_without_request 'os.rename(a[0], a[1])' "$DIR/m1/cells/c" \
		"$DIR/m1/cells/d"
	eperm_without_request 'os.rename(a[0], a[1])' "$lease" \
		"$DIR/m1/.celldfs/x"
	eperm_without_request 'os.link(a[0], a[1])' "$own" "$DIR/m1/cells/c/x"
	eperm_without_request 'os.symlink(a[0], a[1])' "$own" \
		"$DIR/m1/cells/c/x"
	eperm_without_request 'os.symlink(a[0], a[1])' "$own" "$DIR/m1/x"
	eperm_without_request 'os.mkfifo(a[0])' "$DIR/m1/cells/c/x"
	eperm_without_request 'os.mkfifo(a[0])' "$DIR/m1/x"
	eperm_without_request 'os.mknod(a[0], 0o100644)' "$DIR/m1/cells/c/x"
	is "$(outside etags)" "$before"
}

# The last component is looked up first there, and that is a request of its own.
@test "a record that is absent cannot be made but by writing it" {
	spy_at m1
	is "$(errno_of 'os.mknod(a[0], 0o100644)' "$DIR/m1/cells/c/own")" EPERM
	is "$(errno_of 'os.mkfifo(a[0])' "$DIR/m1/nodes/n1")" EPERM
	is "$(errno_of 'os.symlink("x", a[0])' "$DIR/m1/cells/c/own")" EPERM
	run grep -c ^put_if "$DIR/m1.calls"
	is "$output" "$(grep -c '^put_if probe/' "$DIR/m1.calls")"
	is "$(outside keys)" ""
}

@test "only records can be created: other names are EPERM with no request" {
	spy_at m1
	eperm_without_request 'os.open(a[0], os.O_CREAT | os.O_WRONLY)' \
		"$DIR/m1/cells/c/other"
	eperm_without_request 'os.open(a[0], os.O_CREAT | os.O_WRONLY)' \
		"$DIR/m1/top"
	eperm_without_request 'os.open(a[0], os.O_CREAT | os.O_WRONLY)' \
		"$DIR/m1/.celldfs/other"
}

@test "invalid names are ENOENT on lookup and EINVAL on create, with no request" {
	local name

	spy_at m1
	: >"$DIR/m1.calls"
	for name in 'a b' 'a+b' 'ü' $'a\nb' 'a\b' 'a*b' 'a,b' 'a@b' 'a%20b' \
		'..%2fb' 'a?acl' 'a#b' 'a&b=c' 'a"b' $'a\r\nx-evil: b' $'a\e[2J'; do
		is "$(errno_of 'os.stat(a[0])' "$DIR/m1/cells/$name")" ENOENT
		is "$(errno_of 'os.mkdir(a[0])' "$DIR/m1/cells/$name")" EINVAL
		is "$(errno_of 'os.stat(a[0])' "$DIR/m1/cells/$name/own")" ENOENT
		is "$(errno_of 'os.stat(a[0])' "$DIR/m1/nodes/$name")" ENOENT
		is "$(errno_of 'os.open(a[0], os.O_CREAT | os.O_WRONLY)' \
			"$DIR/m1/nodes/$name")" EINVAL
	done
	# These two are for cells only.
	for name in 'a:b' 'a$b'; do
		is "$(errno_of 'os.stat(a[0])' "$DIR/m1/nodes/$name")" ENOENT
		is "$(errno_of 'os.open(a[0], os.O_CREAT | os.O_WRONLY)' \
			"$DIR/m1/nodes/$name")" EINVAL
	done
	is "$(cat "$DIR/m1.calls")" ""
}

@test "the longest names work, longer ones are ENAMETOOLONG with no request" {
	local cell node

	spy_at m1
	cell=$(repeat c 255)
	node=$(repeat n 128)
	create "$DIR/m1/cells/$cell/own" "$(own n1 1)"
	create "$DIR/m1/nodes/$node" "$(lease "$node" 0)"
	is "$(ls "$DIR/m1/cells")" "$cell"
	is "$(ls "$DIR/m1/nodes")" "$node"
	is "$(cat "$DIR/m1/cells/$cell/own")" "$(own n1 1)"
	: >"$DIR/m1.calls"
	is "$(errno_of 'os.stat(a[0])' "$DIR/m1/cells/${cell}c")" ENAMETOOLONG
	is "$(errno_of 'os.mkdir(a[0])' "$DIR/m1/cells/${cell}c")" ENAMETOOLONG
	is "$(errno_of 'os.stat(a[0])' "$DIR/m1/cells/${cell}c/own")" \
		ENAMETOOLONG
	is "$(errno_of 'os.stat(a[0])' "$DIR/m1/nodes/${node}n")" ENAMETOOLONG
	is "$(errno_of 'os.open(a[0], os.O_CREAT | os.O_WRONLY)' \
		"$DIR/m1/nodes/${node}n")" ENAMETOOLONG
	is "$(cat "$DIR/m1.calls")" ""
}

@test "every byte that a name may have works, in names like a:b and a\$b too" {
	local name

	mount_at m1
	for name in 'a:b' 'a$b' 'A-Z_a.z' '...' '.hidden' '-' '$' ':'; do
		create "$DIR/m1/cells/$name/own" "$(own n1 1)"
		is "$(cat "$DIR/m1/cells/$name/own")" "$(own n1 1)"
		is "$(outside get "cells/$name/own.json")" "$(own n1 1)"
	done
	is "$(ls -A "$DIR/m1/cells" | wc -l)" 8
	create "$DIR/m1/nodes/a.json" "$(lease a.json 0)"
	is "$(ls "$DIR/m1/nodes")" "a.json"
	is "$(outside keys nodes/)" nodes/a.json.json
}

# --- Listings ----------------------------------------------------------------

@test "a cell with objects but without own is listed" {
	mount_at m1
	put cells/data/ltx/e1/00000001 x
	put cells/both/own.json '{"node":"n1","epoch":1}'
	put cells/both/ltx/e1/00000001 x
	is "$(ls "$DIR/m1/cells" | xargs)" "both data"
	is "$(ls -A "$DIR/m1/cells/data")" ""
	is "$(ls -A "$DIR/m1/cells/both")" "own"
	is "$(errno_of 'open(a[0])' "$DIR/m1/cells/data/own")" ENOENT
	is "$(errno_of 'os.stat(a[0])' "$DIR/m1/cells/both/ltx")" ENOENT
	create "$DIR/m1/cells/data/own" "$(own n1 1)"
	is "$(ls -A "$DIR/m1/cells/data")" "own"
}

@test "keys that are no names are skipped, and the rest stands" {
	mount_at m1 -o log="$DIR/m1.log"
	put cells/good1/own.json '{"node":"n1","epoch":1}'
	put cells//own.json x
	put cells/../own.json x
	put cells/./own.json x
	put 'cells/a b/own.json' x
	put 'cells/a+b/own.json' x
	put "cells/$(repeat c 256)/own.json" x
	put "cells/$(repeat c 300)/own.json" x
	put cells/plain 'an object where directories are'
	put cells/zzz/own.json '{"node":"n1","epoch":1}'
	put cells/c$'\x01\n\x7f'/own.json x
	is "$(ls -A "$DIR/m1/cells" | xargs)" "good1 zzz"

	put nodes/good.json '{"node":"good","expires_ms":0}'
	put nodes/.json x
	put nodes/..json x
	put nodes/plain x
	put nodes/plain.txt x
	put "nodes/$(repeat n 129).json" x
	put 'nodes/a b.json' x
	put nodes/dir.json/x x
	put nodes//x.json x
	is "$(ls -A "$DIR/m1/nodes")" "good"
	# A line of the log tells of it.
	grep -q '^.*list cells/: 9 keys skipped' "$DIR/m1.log"
	grep -q '^.*list nodes/: 8 keys skipped' "$DIR/m1.log"
}

@test "2,500 cells list whole through a 512-byte buffer" {
	mount_at m1
	put_cells 1 2500
	"$TOOLS/getdents" "$DIR/m1/cells" 512 >"$DIR/listed"
	is "$(wc -l <"$DIR/listed")" 2502
	is "$(sort -u "$DIR/listed" | wc -l)" 2502
	is "$(grep -c '^c[0-9]\{5\}$' "$DIR/listed")" 2500
	# and through a large one, the same in the same order
	"$TOOLS/getdents" "$DIR/m1/cells" 65536 | cmp - "$DIR/listed"
}

@test "no name is lost or doubled while others come and go" {
	spy_at m1
	put_cells 1 2500
	# Three pages, with a pause before each: what changes, changes between them.
	rules m1 "list cells/ delay $PAUSE_MS"
	"$TOOLS/getdents" "$DIR/m1/cells" 512 >"$DIR/listed" 3>&- &
	amid
	# Every tenth goes, in the pages behind and ahead; others come there.
	outside rm $(printf 'cells/c%04d5/own.json ' {0..249})
	own n1 1 | outside fill cells/c%04d7.new/own.json 0 249
	wait $!
	is "$(sort "$DIR/listed" | uniq -d)" ""
	is "$(grep -c '^c....[012346789]$' "$DIR/listed")" 2250
	is "$(grep -vcE '^(c[0-9]{5}(\.new)?|\.|\.\.)$' "$DIR/listed")" 0
	# The change did come in between: some were seen and some were not.
	is "$(grep -c '^list cells/ applied' "$DIR/m1.calls")" 3
	grep -q '^c00005$' "$DIR/listed"
	run grep -c '^c02495$' "$DIR/listed"
	is "$output" 0
	grep -q '^c02497\.new$' "$DIR/listed"
}

@test "a directory that is emptied while it is read ends without an error" {
	spy_at m1
	put_cells 1 1500
	rules m1 "list cells/ delay $PAUSE_MS"
	"$TOOLS/getdents" "$DIR/m1/cells" 512 >"$DIR/listed" 3>&- &
	amid
	outside rm '*'
	wait $!
	is "$(wc -l <"$DIR/listed")" 1002
}

@test "a page that cannot be had is an error, never a shorter directory" {
	spy_at m1
	put_cells 1 1500
	"$TOOLS/getdents" "$DIR/m1/cells" 512 >"$DIR/listed"
	is "$(wc -l <"$DIR/listed")" 1502
	rules m1 'list cells/ delay 0 x1' 'list cells/ fail failed'
	status=0
	"$TOOLS/getdents" "$DIR/m1/cells" 512 >"$DIR/listed" 2>"$DIR/error" ||
		status=1
	is "$status $(cat "$DIR/error")" "1 EIO"
	status=0
	ls "$DIR/m1/cells" >"$DIR/listed" 2>&1 || status=1
	is "$status" 1
	rules m1
	is "$(ls "$DIR/m1/cells" | wc -l)" 1500
}

@test "seekdir finds every entry again" {
	mount_at m1
	is "$("$TOOLS/seekdir" "$DIR/m1")" 5
	put_cells 1 2500
	is "$("$TOOLS/seekdir" "$DIR/m1/cells")" 2502
	put nodes/n1.json x
	is "$("$TOOLS/seekdir" "$DIR/m1/nodes")" 3
	is "$("$TOOLS/seekdir" "$DIR/m1/cells/c00001")" 3
}

@test "a listing is a snapshot: opendir before a change, and the next after it" {
	mount_at m1
	put_cells 1 3
	is "$(PYTHONPATH=$HERE python3 - "$DIR/m1/cells" <<-'PY'
		import os, outside, sys
		fd = os.open(sys.argv[1], os.O_RDONLY)
		before = sorted(os.listdir(fd))
		outside.connect(os.environ["STORE"]).rm(["cells/c00002/own.json"])
		print(before == sorted(["c00001", "c00002", "c00003"]),
		      sorted(os.listdir(sys.argv[1])))
	PY
	)" "True ['c00001', 'c00003']"
}

# --- Attributes --------------------------------------------------------------

@test "st_ino is one and the same over lookups, opens and d_ino" {
	mount_at m1
	create "$DIR/m1/cells/c/own" "$(own n1 1)"
	create "$DIR/m1/cells/d/own" "$(own n1 1)"
	create "$DIR/m1/nodes/n1" "$(lease n1 0)"
	python3 - "$DIR/m1" <<-'PY'
		import os, subprocess, sys
		numbers = {}
		def note(path, number):
		    assert number == numbers.setdefault(path, number), path
		for turn in range(3):
		    for top, dirs, files in os.walk(sys.argv[1]):
		        note(top, os.stat(top).st_ino)
		        for entry in os.scandir(top):
		            note(entry.path, entry.inode())
		            note(entry.path, os.stat(entry.path).st_ino)
		        for name in files:
		            path = os.path.join(top, name)
		            with open(path) as one, open(path) as two:
		                note(path, os.fstat(one.fileno()).st_ino)
		                note(path, os.fstat(two.fileno()).st_ino)
		    # as if the kernel had forgotten everything
		    subprocess.run(["sh", "-c", "echo 2 >/proc/sys/vm/drop_caches"],
		                   stderr=subprocess.DEVNULL)
		assert len(numbers) == len(set(numbers.values())) == 12, numbers
	PY
}

@test "modes, owner and link counts" {
	mount_at m1
	create "$DIR/m1/cells/c/own" "$(own n1 1)"
	is "$(stat -c '%A %u:%g %h' "$DIR/m1/cells/c/own")" \
		"-rw-r--r-- $(id -u):$(id -g) 1"
	is "$(stat -c '%A %u:%g' "$DIR/m1/cells/c")" \
		"drwxr-xr-x $(id -u):$(id -g)"
	is "$(stat -c %A "$DIR/m1/.celldfs/status")" "-r--r--r--"
	is "$(stat -c '%s' "$DIR/m1/cells/c/own")" "$(own n1 1 | wc -c)"
}

@test "uid=, gid= and umask= are obeyed" {
	mount_at m1 -o uid=1234,gid=2345,umask=037
	create "$DIR/m1/cells/c/own" "$(own n1 1)"
	is "$(stat -c '%A %u:%g' "$DIR/m1/cells/c/own")" "-rw-r----- 1234:2345"
	is "$(stat -c '%A %u:%g' "$DIR/m1/cells/c")" "drwxr----- 1234:2345"
	is "$(stat -c '%A %u:%g' "$DIR/m1/cells")" "drwxr----- 1234:2345"
}

@test "chmod, chown and touch of what is: 0; of anything else: EPERM" {
	spy_at m1
	create "$DIR/m1/cells/c/own" "$(own n1 1)"
	: >"$DIR/m1.calls"
	is "$(errno_of 'os.chmod(a[0], 0o644)' "$DIR/m1/cells/c/own")" 0
	is "$(errno_of 'os.chown(a[0], os.getuid(), os.getgid())' \
		"$DIR/m1/cells/c/own")" 0
	is "$(errno_of 'os.utime(a[0])' "$DIR/m1/cells/c/own")" 0
	is "$(errno_of 'os.chmod(a[0], 0o600)' "$DIR/m1/cells/c/own")" EPERM
	is "$(errno_of 'os.chown(a[0], 4321, -1)' "$DIR/m1/cells/c/own")" EPERM
	is "$(errno_of 'os.chmod(a[0], 0o700)' "$DIR/m1/cells")" EPERM
	is "$(grep -c ^put_if "$DIR/m1.calls")" 0
	is "$(stat -c %a "$DIR/m1/cells/c/own")" 644
}

@test "ro: 0444, and every write is EROFS with no request" {
	mount_at m1
	create "$DIR/m1/cells/c/own" "$(own n1 1)"
	unmount m1
	MOUNTS=()
	spy_at m1 -o ro
	is "$(stat -c %a "$DIR/m1/cells/c/own")" 444
	is "$(stat -c %a "$DIR/m1/cells/c")" 555
	is "$(cat "$DIR/m1/cells/c/own")" "$(own n1 1)"
	: >"$DIR/m1.calls"
	is "$(errno_of 'os.open(a[0], os.O_WRONLY)' "$DIR/m1/cells/c/own")" \
		EROFS
	is "$(errno_of 'os.open(a[0], os.O_RDWR)' "$DIR/m1/cells/c/own")" EROFS
	is "$(errno_of 'os.open(a[0], os.O_CREAT | os.O_WRONLY)' \
		"$DIR/m1/nodes/n1")" EROFS
	is "$(errno_of 'os.setxattr(a[0], "user.celld.if-match", b"x")' \
		"$DIR/m1/cells/c/own")" EROFS
	is "$(errno_of 'os.unlink(a[0])' "$DIR/m1/cells/c/own")" EROFS
	is "$(grep -c ^put_if "$DIR/m1.calls")" 0
}

@test "st_mtime is the time of the write, to the millisecond of the store" {
	local before after mtime coarse=5

	[ "$KIND" = sqlite ] || coarse=1005 # S3 tells whole seconds
	mount_at m1
	mount_at m2
	before=$(now_ms)
	create "$DIR/m1/cells/c/own" "$(own n1 1)"
	after=$(now_ms)
	mtime=$(outside modified cells/c/own.json)
	[ "$mtime" -ge "$((before - coarse))" ]
	[ "$mtime" -le "$((after + 5))" ]
	sleep 1.1
	for mount in m1 m2; do
		cat "$DIR/$mount/cells/c/own" >/dev/null
		is "$(stat -c %.3Y "$DIR/$mount/cells/c/own" | tr -d .)" "$mtime"
	done
	swap "$DIR/m2/cells/c/own" "$(own n1 2)"
	sleep 1.1
	[ "$(stat -c %.3Y "$DIR/m1/cells/c/own" | tr -d .)" -gt "$((mtime + 1000))" ]
}

# --- Open files --------------------------------------------------------------

@test "two opens share nothing" {
	local own first

	spy_at m1
	mount_at m2
	own=$DIR/m1/cells/c/own
	create "$own" "$(own n1 1)"
	exec 4<>"$own"
	is "$(cat <&4)" "$(own n1 1)"
	first=$(etag /dev/fd/4)
	swap "$DIR/m2/cells/c/own" "$(own n1 2)"
	is "$(cat "$own")" "$(own n1 2)"
	[ "$(etag "$own")" != "$first" ]
	is "$(etag /dev/fd/4)" "$first"
	: >"$DIR/m1.calls"
	run bash -c 'echo "$1" >&4' bash "$(own n1 3)"
	exec 4>&-
	[ "$status" -ne 0 ]
	grep -q 'Device or resource busy' <<<"$output"
	is "$(sed -nE 's/^put_if (.*) [0-9a-f]{32}$/\1/p' "$DIR/m1.calls")" \
		"cells/c/own.json If-Match: $first rejected"
	is "$(cat "$own")" "$(own n1 2)"
}

@test "MAP_SHARED for writing is ENODEV, a private map reads" {
	mount_at m1
	create "$DIR/m1/cells/c/own" "$(own n1 1)"
	python3 - "$DIR/m1/cells/c/own" <<-'PY'
		import errno, mmap, os, sys
		fd = os.open(sys.argv[1], os.O_RDWR)
		size = os.fstat(fd).st_size
		try:
		    mmap.mmap(fd, size, mmap.MAP_SHARED,
		              mmap.PROT_READ | mmap.PROT_WRITE)
		    sys.exit("mapped")
		except OSError as e:
		    assert e.errno == errno.ENODEV, e
		private = mmap.mmap(fd, size, mmap.MAP_PRIVATE, mmap.PROT_READ)
		assert private[:] == b'{"node":"n1","epoch":1}\n', private[:]
		private = mmap.mmap(fd, size, mmap.MAP_PRIVATE,
		                    mmap.PROT_READ | mmap.PROT_WRITE)
		private[0:1] = b"X"
		private.close()
		assert os.pread(fd, 9, 0) == b'{"node":"', os.pread(fd, 9, 0)
	PY
}

# Python: a = the record on this mount; change() is a swap on another mount.
across_a_change() {
	mount_at m1
	mount_at m2
	create "$DIR/m1/cells/c/own" '{"node":"n1","epoch":1,"long":"'"$(
		repeat x 200)"'"}'
	python3 - "$DIR/m1/cells/c/own" "$DIR/m2/cells/c/own" "$1" <<-'PY'
		import os, sys
		path, there = sys.argv[1:3]
		def change():
		    fd = os.open(there, os.O_RDWR)
		    os.read(fd, 4096)
		    os.write(fd, b'{"node":"n1","epoch":2}')
		    os.close(fd)
		def etag(fd):
		    return os.getxattr(fd, "user.celld.etag")
		with open(path, "rb") as file:
		    old, old_etag = file.read(), etag(file.fileno())
		fd = os.open(path, os.O_RDONLY)
		exec(sys.argv[3])
	PY
}

@test "a record read in small blocks across a change is one version" {
	across_a_change '
bytes = os.read(fd, 10)
change()
while piece := os.read(fd, 10):
    bytes += piece
assert bytes == old, bytes
assert open(path, "rb").read() == b"{\"node\":\"n1\",\"epoch\":2}"
'
}

@test "size, ETag and bytes of one open agree across a change" {
	across_a_change '
change()
assert os.fstat(fd).st_size == len(old), os.fstat(fd)
assert etag(fd) == old_etag
assert os.read(fd, 4096) == old
# From the start again: all of the new one.
new = os.pread(fd, 4096, 0)
assert new == b"{\"node\":\"n1\",\"epoch\":2}", new
assert os.fstat(fd).st_size == len(new)
assert etag(fd) == os.getxattr(there, "user.celld.etag") != old_etag
'
}

@test "locks are ENOLCK, never local" {
	mount_at m1
	create "$DIR/m1/cells/c/own" "$(own n1 1)"
	is "$(errno_of 'fcntl.flock(os.open(a[0], os.O_RDWR), fcntl.LOCK_EX)' \
		"$DIR/m1/cells/c/own")" ENOLCK
	is "$(errno_of 'fcntl.flock(os.open(a[0], os.O_RDWR),
		fcntl.LOCK_EX | fcntl.LOCK_NB)' "$DIR/m1/cells/c/own")" ENOLCK
	is "$(errno_of 'fcntl.lockf(os.open(a[0], os.O_RDWR), fcntl.LOCK_EX)' \
		"$DIR/m1/cells/c/own")" ENOLCK
	is "$(errno_of 'fcntl.lockf(os.open(a[0], os.O_RDONLY), fcntl.LOCK_SH |
		fcntl.LOCK_NB)' "$DIR/m1/cells/c/own")" ENOLCK
	is "$(errno_of 'fcntl.fcntl(os.open(a[0], os.O_RDWR), fcntl.F_GETLK,
		bytes(32))' "$DIR/m1/cells/c/own")" ENOLCK
	run flock -n "$DIR/m1/cells/c/own" true
	[ "$status" -ne 0 ]
}

@test "poll: a record is readable and writable at once, with no request" {
	spy_at m1
	create "$DIR/m1/cells/c/own" "$(own n1 1)"
	exec 4<>"$DIR/m1/cells/c/own"
	: >"$DIR/m1.calls"
	is "$(python3 -c '
import select
poll = select.poll()
poll.register(4, select.POLLIN | select.POLLOUT)
print(poll.poll(1000) == [(4, select.POLLIN | select.POLLOUT)],
	select.select([4], [4], [], 1) == ([4], [4], []))
')" "True True"
	exec 4>&-
	is "$(cat "$DIR/m1.calls")" ""
}

@test "statfs works, and names the longest name" {
	mount_at m1
	is "$(stat -f -c %l "$DIR/m1/cells")" 255
	df "$DIR/m1" >"$DIR/df"
	[[ $(stat -f -c %T "$DIR/m1") == fuse* ]]
}

# --- What others have written ------------------------------------------------

@test "an object of 1 MiB is read, a larger one is EFBIG" {
	local head='{"node":"n1","epoch":1,"x":"'

	mount_at m1
	printf '%s%s"}' "$head" "$(head -c $((1048576 - ${#head} - 2)) /dev/zero |
		tr '\0' x)" | outside put cells/most/own.json
	is "$(wc -c <"$DIR/m1/cells/most/own")" 1048576
	is "$(outside get cells/most/own.json | md5sum)" \
		"$(md5sum <"$DIR/m1/cells/most/own")"
	is "$(getfattr -n user.celld.epoch --only-values \
		"$DIR/m1/cells/most/own" 2>/dev/null)" 1

	head -c 1048577 /dev/zero | outside put cells/over/own.json
	is "$(errno_of 'open(a[0]).read()' "$DIR/m1/cells/over/own")" EFBIG
	head -c 50000000 /dev/zero | outside put cells/far/own.json
	is "$(errno_of 'open(a[0]).read()' "$DIR/m1/cells/far/own")" EFBIG
	is "$(ls "$DIR/m1/cells" | xargs)" "far most over"
}

@test "malformed records are read as they are" {
	local body

	mount_at m1
	for body in '{"node":"n1"' 'hello' '{"node":"n1","epoch":"4"}' '[]' \
		'{"node":"n1","epoch":007}' '{"node":"n1","epoch":1} tail' \
		"$(repeat '[' 2000)" $'\xef\xbb\xbf{}'; do
		put cells/c/own.json "$body"
		is "$(cat "$DIR/m1/cells/c/own")" "$body"
		# It has an ETag, but no fields.
		[ -n "$(etag "$DIR/m1/cells/c/own")" ]
	done
	printf '\0\1\2\3\377\n' | outside put cells/c/own.json
	is "$(od -An -tx1 <"$DIR/m1/cells/c/own")" " 00 01 02 03 ff 0a"
	put cells/c/own.json ''
	is "$(cat "$DIR/m1/cells/c/own" | wc -c)" 0
}

# --- .celldfs/status ---------------------------------------------------------

status_of() { sed -n "s/^$2 //p" "$DIR/$1/.celldfs/status"; }

@test "status has its lines, and they move" {
	local key

	mount_at m1 -o node=n1,keeper=off,skew-ms=700,deadline-ms=9000
	mount_at m2
	for key in version pid store node keeper read_only uptime_s store_time_ms skew_ms \
		deadline_ms requests_in_store requests_waiting reads \
		swaps_applied swaps_rejected swaps_unknown failures; do
		is "$(grep -c "^$key [^ ]" "$DIR/m1/.celldfs/status")" 1
	done
	is "$(status_of m1 pid)" "$(pid_of m1)"
	is "$(status_of m1 store)" "$STORE"
	is "$(status_of m1 node)" n1
	is "$(status_of m1 skew_ms)" 700
	is "$(status_of m1 deadline_ms)" 9000
	is "$(status_of m1 swaps_applied)" 0
	create "$DIR/m1/cells/c/own" "$(own n1 1)"
	is "$(status_of m1 swaps_applied)" 1
	arm "$DIR/m1/cells/c/own" "$(etag "$DIR/m1/cells/c/own")"
	swap "$DIR/m2/cells/c/own" "$(own n1 2)"
	run bash -c 'echo "$1" >"$2"' bash "$(own n1 3)" "$DIR/m1/cells/c/own"
	[ "$status" -ne 0 ]
	is "$(status_of m1 swaps_rejected)" 1
	is "$(status_of m1 requests_in_store)" 0
	is "$(status_of m1 requests_waiting)" 0
	is "$(errno_of 'os.open(a[0], os.O_WRONLY)' \
		"$DIR/m1/.celldfs/status")" EACCES
}
