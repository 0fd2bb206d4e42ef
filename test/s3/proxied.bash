# proxied: a mount with the proxy between it and the gateway. Load it instead of
# test/fs/helper.
#
# After each test, whatever it was about, every PUT in the proxies' logs has
# exactly one guard and an attempt id, and there is no request that celldfs has no
# business to send.
#
# There can be more than one: `at NAME start_proxy`, and `at NAME` before whatever
# has to do with rules and requests.

CELLDFS_STORE=s3
S3=$(cd "${BASH_SOURCE[0]%/*}" && pwd)
load "$S3/../fs/helper"

eval "helper_$(declare -f setup)"
eval "helper_$(declare -f teardown)"

setup() {
	PROXIES=()
	helper_setup
	export REQUESTS=$DIR/requests RULES=$DIR/rules
	start_proxy
	AWS_ENDPOINT_URL=$ENDPOINT
}

# start_proxy [--listen ADDRESS]: with the log $REQUESTS and the rules $RULES. Sets
# ENDPOINT.
start_proxy() {
	: >"$REQUESTS"
	"$S3/proxy" --port-file "$REQUESTS.port" --log "$REQUESTS" \
		--rules "$RULES" --strip "/${STORE#s3://}/" "$@" \
		2>"$REQUESTS.err" 3>&- &
	PROXIES+=("$!:$REQUESTS:$RULES")
	until [ -s "$REQUESTS.port" ]; do
		kill -0 $! || { cat "$REQUESTS.err"; return 1; }
		sleep 0.02
	done
	ENDPOINT=http://${2-127.0.0.1}:$(cat "$REQUESTS.port")
}

# at NAME COMMAND...: with another proxy's rules and log.
at() {
	local -x REQUESTS=$DIR/$1.requests RULES=$DIR/$1.rules

	"${@:2}"
}

teardown() {
	local failed=0 entry pid log rules

	for entry in "${PROXIES[@]}"; do
		RULES=${entry##*:} proxy_rules
	done
	for entry in "${MOUNTS[@]}"; do
		kill -CONT "${entry##*:}" 2>/dev/null || true
		unmount "${entry%%:*}" || failed=1
	done
	MOUNTS=()
	for entry in "${PROXIES[@]}"; do
		IFS=: read -r pid log rules <<<"$entry"
		if ! kill "$pid" || [ -s "$log.err" ]; then
			cat "$log.err"
			failed=1
		fi
		python3 "$S3/check_requests.py" "$log" || failed=1
	done
	helper_teardown || failed=1
	return $failed
}

# proxy_rules LINE...: replaces the proxy's rules; none: it does nothing.
proxy_rules() {
	printf '%s\n' "$@" >"$RULES.new"
	mv "$RULES.new" "$RULES"
}

# mark: from here on the requests count.
mark() { wc -l <"$REQUESTS" >"$REQUESTS.mark"; }

# requests FILTER [FIELD]: those since the last mark for which the Python
# expression is true; r is the request. What is no expression is not nothing.
requests() {
	tail -n +$(($(cat "$REQUESTS.mark" 2>/dev/null) + 1)) "$REQUESTS" |
		python3 -c '
import json, sys
sys.excepthook = lambda kind, e, where: print("no expression:", sys.argv[1], e)
fits = compile("(%s)" % sys.argv[1], "filter", "eval")
for line in sys.stdin:
    r = json.loads(line)
    if eval(fits):
        print(r[sys.argv[2]] if len(sys.argv) > 2 else line.strip())
' "$@"
}

# cost COMMAND: "gets puts lists" at the proxy, then what else there was, if any.
cost() {
	mark
	eval "$1" >/dev/null 2>&1
	requests True op | awk '{ n[$1]++ } END {
		printf "%d %d %d", n["GET"], n["PUT"], n["LIST"]
		delete n["GET"]; delete n["PUT"]; delete n["LIST"]
		for (op in n) printf " %d %s", n[op], op
	}'
}

# attempt OPERATION RULE...: see attempt.py.
attempt() { PYTHONPATH=$HERE python3 "$S3/attempt.py" "$DIR/m" "$@"; }
