# nodes: nodes that keep their leases on the gateway, each behind a proxy of its
# own. Load it instead of proxied.

TTL=3000 # of their leases, in ms

# shellcheck source=test/s3/proxied.bash
load "${BASH_SOURCE[0]%/*}/proxied"

setup() {
	PROXIES=() # one for each node, and no other
	helper_setup
}

eval "proxied_$(declare -f teardown)"

teardown() {
	local failed=0

	# before the daemons in it are waited for
	[ -z "${CABLE-}" ] || ip link set "$CABLE" up 2>/dev/null || true
	proxied_teardown || failed=1
	[ -z "${NETNS-}" ] || ip netns del "$NETNS" || failed=1
	return $failed
}

# node_at NODE [ARGUMENT...]: mounts $DIR/NODE, as that node, behind its proxy.
node_at() {
	at "$1" start_proxy
	AWS_ENDPOINT_URL=$ENDPOINT mount_at "$1" \
		-o "node=$1,ttl-ms=$TTL,log=$DIR/$1.log" "${@:2}"
}

# a_network: the network namespace $NETNS, and $HOST, this end of the only $CABLE
# that leads out of it.
a_network() {
	local id=${DIR##*.} net

	[ "$(id -u)" -eq 0 ] || skip "no network namespace without root"
	command -v ip nsenter >/dev/null || skip "no iproute2 or nsenter"
	NETNS=celldfs-test-$id
	ip netns add "$NETNS" || { NETNS= && skip "no network namespaces"; }
	CABLE=ct$id
	net=169.254.$((RANDOM % 254 + 1)).$((RANDOM % 64 * 4))
	HOST=${net%.*}.$((${net##*.} + 1))
	ip link add "$CABLE" type veth peer name eth0 netns "$NETNS"
	ip addr add "$HOST/30" dev "$CABLE"
	ip link set "$CABLE" up
	# not by ip -n, which cannot where / is no mount point, in a chroot
	set -- nsenter --net="/run/netns/$NETNS" ip
	"$@" addr add "${net%.*}.$((${net##*.} + 2))/30" dev eth0
	"$@" link set eth0 up
	printf '#!/bin/sh\nexec nsenter --net=/run/netns/%s %s "$@"\n' \
		"$NETNS" "$BUILD/celldfs" >"$DIR/inside"
	chmod +x "$DIR/inside"
}

# node_in_network NODE: as node_at, on the other end of the cable.
node_in_network() {
	at "$1" start_proxy --listen "$HOST"
	mount_in_network "$1"
}

# mount_in_network NODE: the same behind the proxy that was started last.
mount_in_network() {
	no_proxy=$HOST AWS_ENDPOINT_URL=$ENDPOINT mount_with "$DIR/inside" "$1" \
		-o "node=$1,ttl-ms=$TTL,log=$DIR/$1.log,allow-http"
}

# status_of NODE FIELD
status_of() { sed -n "s/^$2 //p" "$DIR/$1/.celldfs/status"; }

# until_true SECONDS COMMAND...: it succeeds by then.
until_true() {
	local until_ms=$(($(now_ms) + $1 * 1000))

	while ! "${@:2}" >/dev/null 2>&1; do
		if [ "$(now_ms)" -ge "$until_ms" ]; then
			echo "not within $1 s: ${*:2}"
			"${@:2}"
			return
		fi
		sleep 0.05
	done
}

# is_fenced NODE WORD; is_held NODE
is_fenced() { is "$(status_of "$1" fence)" "$2"; }
is_held() { [ "$(status_of "$1" lease)" = held ]; }

# fenced_once NODE WORD: it says so, in the status and in one line of its log, and
# writes nothing.
fenced_once() {
	is "$(status_of "$1" lease) $(status_of "$1" fence)" "fenced $2"
	is "$(status_of "$1" authority_ms)" 0
	is "$(grep -o 'SELF-FENCE: [a-z]*' "$DIR/$1.log")" "SELF-FENCE: $2"
	is "$(claim "$1" "fenced-$1" 1)" EROFS
}

# never_fenced NODE
never_fenced() {
	is_held "$1"
	if grep SELF-FENCE "$DIR/$1.log"; then return 1; fi
}

# claim NODE CELL EPOCH: as a program does it, on one open file. Prints the errno,
# or 0.
claim() {
	errno_of 'fd = os.open(a[0], os.O_RDWR | os.O_CREAT, 0o644)
os.read(fd, 4096)
os.write(fd, a[1].encode())' "$DIR/$1/cells/$2/own" "$(own "$1" "$3")"
}

# claimed NODE CELL EPOCH: it succeeds.
claimed() { is "$(claim "$@")" 0; }

# owned CELL NODE EPOCH: so says the record, as the gateway has it.
owned() { is "$(outside get "cells/$1/own.json")" "$(own "$2" "$3")"; }

# fence_logged NODE: within a second of the end of its authority.
fence_logged() {
	local at

	at=$(date -d "$(grep -m 1 SELF-FENCE "$DIR/$1.log" | cut -d ' ' -f 1)" \
		+%s%3N)
	echo "$1: $((at - $(end_of "$1"))) ms after the end"
	[ $((at - $(end_of "$1"))) -le 1000 ]
}

# puts NODE [FILTER [FIELD]]: those that it sent since its last mark; see requests.
puts() { at "$1" requests "r['op'] == 'PUT' and (${2-True})" "${@:3}"; }

# renewals NODE [FILTER]: how many of its lease that were.
renewals() {
	puts "$1" "r['key'] == 'nodes/$1.json' and (${2-True})" | wc -l
}

# until_renewed NODE: the next renewal has just been answered.
until_renewed() {
	at "$1" mark
	until_true 5 renewed "$1"
}

renewed() { [ "$(renewals "$1" 'r["status"] == 200')" -gt 0 ]; }

# end_of NODE: of its authority, in ms since 1970; see judge.py.
end_of() { python3 "$S3/judge.py" end "$DIR/$1.requests" "$1" "$TTL"; }

# not_taken_early NODE CELL: its claim of a's came after the end of a's authority.
not_taken_early() {
	is "$(puts "$1" "r['key'] == 'cells/$2/own.json' and
		r['begun'] * 1000 < $(end_of a)")" ""
}

# had_authority NODE...: for each PUT that it sent.
had_authority() {
	local node

	for node in "$@"; do
		python3 "$S3/judge.py" puts "$DIR/$node.requests" "$node" "$TTL"
	done
}

# opened SIGN FILE RECORD...: in the background, and nobody else has them open:
# opens and reads all the files, and when the file SIGN appears, writes all the
# records at once. What became of them is in SIGN.errnos, after `wait $OPENED`.
opened() {
	python3 - "$@" >"$1.errnos" 3>&- <<-'PY' &
		import errno, os, sys, threading, time
		sign, names, records = sys.argv[1], sys.argv[2::2], sys.argv[3::2]
		fds = [os.open(name, os.O_RDWR) for name in names]
		for fd in fds:
		    os.read(fd, 4096)
		def write(k):
		    try:
		        os.pwrite(fds[k], records[k].encode(), 0)
		        found[k] = '0'
		    except OSError as e:
		        found[k] = errno.errorcode[e.errno]
		found = [None] * len(fds)
		threads = [threading.Thread(target=write, args=(k,))
		           for k in range(len(fds))]
		open(sign + '.ready', 'w')
		while not os.path.exists(sign):
		    time.sleep(0.01)
		for thread in threads: thread.start()
		for thread in threads: thread.join()
		print(*found)
	PY
	OPENED=$!
	until_true 10 test -e "$1.ready"
}
