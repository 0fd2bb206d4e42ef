# proxied: a mount with the proxy between it and the gateway. Load it instead of
# test/fs/helper.
#
# After each test, whatever it was about, every PUT in the proxy's log has exactly
# one guard and an attempt id, and there is no request that celldfs has no
# business to send.

CELLDFS_STORE=s3
S3=$(cd "${BASH_SOURCE[0]%/*}" && pwd)
load "$S3/../fs/helper"

eval "helper_$(declare -f setup)"
eval "helper_$(declare -f teardown)"

setup() {
	helper_setup
	export REQUESTS=$DIR/requests RULES=$DIR/rules
	: >"$REQUESTS"
	"$S3/proxy" --port-file "$DIR/port" --log "$REQUESTS" --rules "$RULES" \
		--strip "/${STORE#s3://}/" 2>"$DIR/proxy.err" 3>&- &
	PROXY=$!
	until [ -s "$DIR/port" ]; do
		kill -0 "$PROXY" || { cat "$DIR/proxy.err"; return 1; }
		sleep 0.02
	done
	AWS_ENDPOINT_URL=http://127.0.0.1:$(cat "$DIR/port")
}

teardown() {
	local failed=0 entry

	if [ -z "${PROXY-}" ]; then # setup has failed
		helper_teardown
		return
	fi
	proxy_rules
	for entry in "${MOUNTS[@]}"; do
		unmount "${entry%%:*}" || failed=1
	done
	MOUNTS=()
	if ! kill "$PROXY" || [ -s "$DIR/proxy.err" ]; then
		cat "$DIR/proxy.err"
		failed=1
	fi
	python3 "$S3/check_requests.py" "$REQUESTS" || failed=1
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
# expression is true; r is the request.
requests() {
	tail -n +$(($(cat "$REQUESTS.mark" 2>/dev/null) + 1)) "$REQUESTS" |
		python3 -c '
import json, sys
for line in sys.stdin:
    r = json.loads(line)
    if eval(sys.argv[1]):
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
