# helper: what every end-to-end test needs. Load it with `load helper`.
#
# A test gets a directory of its own, $DIR, and mounts as many views of one
# store as it likes:
#
#	mount_at m1 -o node=a,keeper=off    # $DIR/m1, serving; log in $DIR/m1.log
#	spy_at m1 ...                       # the same with the spy between (costs,
#	                                    # faults: see test/spy/store_spy.c)
#
# teardown unmounts everything, also after a failure, and fails the test if a
# daemon did not end by itself or a sanitizer complained.
#
# The same tests run on every kind of store: CELLDFS_STORE=sqlite, or s3 for a
# prefix of its own in the bucket of test/s3/gateway. What a test needs from
# below the mount it gets from outside.py; what is true of one kind of store only
# says `only_on KIND`.

# The system's own programs first: a version manager's shims take a tenth of a
# second each.
PATH=/usr/bin:$PATH
BUILD=${CELLDFS_BUILD:?the build directory}
TOOLS=$BUILD/test
export PYTHONDONTWRITEBYTECODE=1

HERE=$(cd "${BASH_SOURCE[0]%/*}" && pwd)
KIND=${CELLDFS_STORE:-sqlite}

# ROOT_ONLY: why a file needs root.
setup() {
	[ -z "${ROOT_ONLY-}" ] || [ "$(id -u)" -eq 0 ] || skip "$ROOT_ONLY"
	DIR=$(mktemp -d "${TMPDIR:-/tmp}/celldfs-test.XXXXXX")
	MOUNTS=()
	STORE=
	setup_store
	[ -c /dev/fuse ] || { echo "no /dev/fuse: nothing can be tested"; return 1; }
}

# setup_store: an empty store of this run's kind.
setup_store() {
	local line

	case $KIND in
	sqlite) STORE=sqlite:$DIR/store.db ;;
	s3)
		line=$("$HERE/../s3/gateway" env) ||
			{ echo "no S3 gateway: test/s3/gateway start"; return 1; }
		while IFS= read -r line; do
			export "${line?}"
		done <<<"$line"
		# neither this machine's settings nor its proxies
		export AWS_CONFIG_FILE=$DIR/none no_proxy=127.0.0.1
		export AWS_SHARED_CREDENTIALS_FILE=$DIR/none
		unset AWS_PROFILE AWS_SESSION_TOKEN AWS_ENDPOINT_URL_S3
		STORE=s3://$GATEWAY_BUCKET/${DIR##*/}
		;;
	esac
	export STORE
}

# only_on KIND WHY: a test of what is true of one kind of store.
only_on() { [ "$KIND" = "$1" ] || skip "$2"; }

# outside VERB...: another program, beside the daemons; see outside.py.
outside() { python3 "$HERE/outside.py" "$@"; }

# put KEY [BODY]: an object as another program may have put it there.
put() { printf '%s' "${2-}" | outside put "$1"; }

# mount_with PROGRAM NAME [ARGUMENT...]: in the foreground, as our child, so that
# its end can be waited for. Returns when it serves.
mount_with() {
	local program=$1 name=$2 tries
	shift 2
	mkdir -p "$DIR/$name"
	"$program" "$STORE" "$DIR/$name" -f "$@" >"$DIR/$name.out" \
		2>>"$DIR/$name.log" 3>&- &
	MOUNTS+=("$name:$!")
	for ((tries = 0; tries < 600; tries++)); do
		mountpoint -q "$DIR/$name" && stat "$DIR/$name/.celldfs/status" \
			>/dev/null 2>&1 && return 0
		kill -0 $! 2>/dev/null || break
		sleep 0.05
	done
	cat "$DIR/$name.log"
	return 1
}

mount_at() { mount_with "$BUILD/celldfs" "$@"; }

# The spy's log of calls is $DIR/<name>.calls, its rules are $DIR/<name>.rules.
spy_at() {
	CELLDFS_SPY_LOG=$DIR/$1.calls CELLDFS_SPY_RULES=$DIR/$1.rules \
		mount_with "$TOOLS/celldfs-spy" "$@"
}

# rules NAME LINE...: replaces the spy's fault rules; none: no faults.
rules() {
	local name=$1
	shift
	printf '%s\n' "$@" >"$DIR/$name.rules.new"
	mv "$DIR/$name.rules.new" "$DIR/$name.rules"
}

# calls NAME COMMAND...: runs COMMAND and prints how many requests it cost:
# "gets puts lists". The store's clock costs none.
calls() {
	local log=$DIR/$1.calls
	shift
	: >"$log"
	"$@" >/dev/null 2>&1
	counted "$log"
}

counted() {
	awk '$1 == "get" { g++ } $1 == "put_if" { p++ } $1 == "list" { l++ }
	     END { print g + 0, p + 0, l + 0 }' "$1"
}

pid_of() {
	local entry
	for entry in "${MOUNTS[@]}"; do
		[ "${entry%%:*}" = "$1" ] && echo "${entry##*:}"
	done
	return 0
}

# unmount NAME: ends one mount and waits for its daemon.
unmount() {
	local pid
	pid=$(pid_of "$1")
	fusermount3 -u "$DIR/$1" 2>/dev/null || fusermount3 -uz "$DIR/$1" \
		2>/dev/null || true
	wait_gone "$pid"
}

wait_gone() {
	local tries
	for ((tries = 0; tries < 400; tries++)); do
		kill -0 "$1" 2>/dev/null || return 0
		sleep 0.05
	done
	echo "daemon $1 did not end by itself"
	kill -KILL "$1" 2>/dev/null
	return 1
}

teardown() {
	local entry failed=0
	for entry in "${MOUNTS[@]}"; do
		unmount "${entry%%:*}" || failed=1
	done
	if grep -E 'ERROR: (Address|Leak|Thread)|WARNING: ThreadSan|runtime error' \
		"$DIR"/*.log 2>/dev/null; then
		echo "a sanitizer complained"
		failed=1
	fi
	[[ $STORE != s3:* ]] || outside rm '*' || failed=1
	rm -rf "$DIR"
	return $failed
}

# etag FILE, epoch FILE: as a user would ask.
etag() { getfattr -n user.celld.etag --only-values "$1" 2>/dev/null; }
outcome() { getfattr -n user.celld.outcome --only-values "$1" 2>/dev/null; }
arm() { setfattr -n user.celld.if-match -v "$2" "$1"; }

# own NODE EPOCH: an ownership record.
own() { printf '{"node":"%s","epoch":%s}\n' "$1" "$2"; }

# create FILE RECORD: the first record, by O_EXCL.
create() { (set -C && printf '%s\n' "$2" >"$1"); }

# swap FILE RECORD: a guarded write over whatever is there now.
swap() { arm "$1" "$(etag "$1")" && printf '%s\n' "$2" >"$1"; }

# is ACTUAL EXPECTED: fails and shows both unless they are the same.
is() {
	[ "$1" = "$2" ] && return 0
	printf 'got:      %s\nexpected: %s\n' "$1" "$2"
	return 1
}

# errno_of SCRIPT [ARGUMENT...]: runs a Python script on the arguments and prints
# the errno's name that it fails with, or "0". The script has os, sys, fcntl and
# a = the arguments.
errno_of() {
	python3 - "$@" <<-'PY'
		import errno, fcntl, os, sys
		a = sys.argv[2:]
		try:
		    exec(sys.argv[1])
		    print(0)
		except OSError as e:
		    print(errno.errorcode[e.errno])
	PY
}

# lease NODE EXPIRES_MS [ADDR]: a node's record.
lease() {
	printf '{"node":"%s","expires_ms":%s,"addr":"%s"}\n' "$1" "$2" \
		"${3-127.0.0.1:1}"
}

# now_ms: the store's clock is within milliseconds of the wall clock here,
# because every test's store is new.
now_ms() { date +%s%3N; }

# Timing is not judged under a sanitizer.
timed() { [ -z "${CELLDFS_SANITIZE:-}" ]; }

# within MS SINCE: no more than MS have passed since then, if time is judged.
within() {
	local took=$(($(now_ms) - $2))

	[ "$took" -le "$1" ] || ! timed ||
		{ echo "took $took ms, may take $1"; return 1; }
}

# manager SOCKET: a service manager listens there; what it is told comes to $DIR/told, a
# line each. Sets $manager, to be killed.
manager() {
	python3 - "$1" >"$DIR/told" 3>&- <<-'PY' &
		import socket, sys
		manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
		manager.bind(sys.argv[1])
		while True:
		    print(manager.recv(4096).decode(), flush=True)
	PY
	manager=$!
	until [ -S "$1" ]; do sleep 0.02; done
}

# status_of NAME KEY, until_status NAME KEY VALUE: of .celldfs/status.
status_of() { sed -n "s/^$2 //p" "$DIR/$1/.celldfs/status"; }

until_status() {
	local tries

	for ((tries = 0; tries < 200; tries++)); do
		[ "$(status_of "$1" "$2")" = "$3" ] && return 0
		sleep 0.05
	done
	echo "$2 is $(status_of "$1" "$2"), not $3"
	return 1
}

# is_gone PID MS: it ends within that.
is_gone() {
	local start

	start=$(now_ms)
	while kill -0 "$1" 2>/dev/null; do
		[ $(($(now_ms) - start)) -lt 20000 ] || break
		sleep 0.02
	done
	within "$2" "$start"
}
