#!/usr/bin/env bats
# faults: what becomes of a create, a guarded write, a read and a listing when the
# network or the gateway fails: the errno, the number of requests, the truth (see
# attempt.py, which judges it each time).

load proxied

# mounted [OPTION...]: with a deadline that a test can wait for.
mounted() { mount_at m -o deadline-ms=4000 "$@"; }

# becomes OPERATION "ERRNO GETS PUTS LISTS" RULE...: the second may be a pattern.
becomes() {
	local found

	found=$(attempt "$1" "${@:3}" 2>"$DIR/told") || {
		echo "$1 under ${*:3}: $found"
		cat "$DIR/told"
		return 1
	}
	# shellcheck disable=SC2053 # a pattern
	[[ $found == $2 ]] && return 0
	echo "$1 under ${*:3}: $found, expected $2"
	cat "$DIR/told"
	return 1
}

# both "ERRNO GETS PUTS LISTS" RULE...: of a create and of a guarded write.
both() {
	becomes create "$@"
	becomes write "$@"
}

@test "no fault" {
	mounted
	both "0 0 1 0"
	becomes read "0 1 0 0"
	becomes list "0 0 0 1"
}

# --- Answers that do not come ------------------------------------------------

@test "the answer is lost: a write is settled by reading back, a read is sent again" {
	mounted
	both "0 1 1 0" 'PUT KEY lose'
	becomes read "0 2 0 0" 'GET KEY lose x1'
	becomes list "0 0 0 2" 'LIST * lose x1'
	becomes read "EIO [2-5] 0 0" 'GET KEY lose'
	becomes list "EIO 0 0 [2-5]" 'LIST * lose'
}

@test "the request is lost: it is sent again, with the same guard" {
	mounted
	both "0 1 2 0" 'PUT KEY drop x1'
	both "ETIMEDOUT [1-9]* [1-9]* 0" 'PUT KEY drop'
	becomes read "0 2 0 0" 'GET KEY drop x1'
	becomes list "0 0 0 2" 'LIST * drop x1'
}

@test "all requests are lost" {
	mounted
	both "ETIMEDOUT [1-9]* 1 0" '* * drop'
	becomes read "EIO [2-5] 0 0" '* * drop'
	becomes list "EIO 0 0 [2-5]" '* * drop'
}

@test "slow answers are waited for, and nothing is sent twice" {
	mounted
	both "0 0 1 0" 'PUT KEY delay 1000'
	both "0 0 1 0" 'PUT KEY late 1000'
	becomes read "0 1 0 0" 'GET KEY late 1000'
	becomes list "0 0 0 1" 'LIST * delay 1000'
}

@test "a black hole: all end by the deadline" {
	mounted
	both "ETIMEDOUT [1-4] 1 0" '* * hang'
	becomes read "ETIMEDOUT [1-4] 0 0" '* * hang'
	becomes list "ETIMEDOUT 0 0 [1-4]" '* * hang'
}

@test "one request into a black hole leaves time for another" {
	mounted
	both "0 1 2 0" 'PUT KEY hang x1'
	both "0 1 1 0" 'PUT KEY late 2500 x1'
	becomes read "0 2 0 0" 'GET KEY hang x1'
	becomes list "0 0 0 2" 'LIST * hang x1'
}

# After the first such end other requests may go out on new connections.
@test "a reused connection closes after the request: a read and a write come through" {
	mounted
	becomes write "0 1 2 0" 'PUT KEY close x1'
	becomes create "0 [01] [12] 0" 'PUT KEY close x1'
	becomes read "0 [12] 0 0" 'GET KEY close x1'
	becomes list "0 0 0 [12]" 'LIST * close x1'
}

@test "every reused connection closes after the request" {
	mounted
	becomes write "0 [1-4] [2-3] 0" '* * close'
	becomes create "0 [0-4] [1-3] 0" '* * close'
	becomes read "0 [1-4] 0 0" '* * close'
	becomes list "0 0 0 [1-4]" '* * close'
}

# --- Refusals ----------------------------------------------------------------

@test "409 is a conflict: tried again, never EBUSY" {
	mounted
	both "0 0 2 0" 'PUT KEY answer 409 ConditionalRequestConflict x1'
	# a gateway that has done it nevertheless
	both "0 1 2 0" 'PUT KEY instead 409 ConditionalRequestConflict x1'
	both "0 1 2 0" 'PUT KEY instead 503 SlowDown x1'
	# the last one may still be on its way when time is up
	both "E@(CANCELED|TIMEDOUT) 0 [3-9] 0" \
		'PUT KEY answer 409 ConditionalRequestConflict'
}

@test "429 and 503 SlowDown: tried again after a second, else ECANCELED" {
	local status

	mounted
	for status in 429 503; do
		both "0 0 2 0" "PUT KEY answer $status SlowDown x1"
		both "ECANCELED 0 [2-5] 0" "PUT KEY answer $status SlowDown"
		becomes read "0 2 0 0" "GET KEY answer $status SlowDown x1"
		becomes read "ECANCELED [2-5] 0 0" "GET KEY answer $status SlowDown"
		becomes list "0 0 0 2" "LIST cells/ answer $status SlowDown x1"
		becomes list "ECANCELED 0 0 [2-5]" "LIST * answer $status SlowDown"
	done
}

@test "Retry-After is obeyed" {
	mounted
	becomes write "0 0 2 0" 'PUT KEY answer 503 SlowDown Retry-After=2 x1'
	[ "$(requests 'r["op"] == "PUT" and r["key"].startswith("cells/")' time |
		awk '{ t[NR] = $1 } END { print int((t[2] - t[1]) * 1000) }')" -ge 2000 ]
}

@test "503 in nobody's words is no refusal: a write is settled" {
	mounted
	both "0 1 2 0" 'PUT KEY answer 503 x1'
	both "0 1 1 0" 'PUT KEY instead 503'
	becomes read "0 2 0 0" 'GET KEY answer 503 x1'
	becomes list "0 0 0 2" 'LIST * answer 503 x1'
}

@test "500: a write is settled, whether it was applied or not" {
	mounted
	both "0 1 1 0" 'PUT KEY instead 500 InternalError'
	both "0 1 2 0" 'PUT KEY answer 500 UnknownError x1'
	both "ETIMEDOUT [3-9] [3-9] 0" 'PUT KEY answer 500 InternalError'
	becomes read "0 2 0 0" 'GET KEY answer 500 InternalError x1'
	becomes read "EIO [2-5] 0 0" 'GET KEY answer 500 InternalError'
	becomes list "0 0 0 2" 'LIST * answer 500 InternalError x1'
	becomes list "EIO 0 0 [2-5]" 'LIST * answer 500 InternalError'
}

@test "412 to the only try is EBUSY; one that may be an echo is settled" {
	mounted
	both "EBUSY [01] 1 0" 'PUT KEY answer 412 PreconditionFailed'
	both "0 2 3 0" 'PUT KEY drop x1' 'PUT KEY answer 412 PreconditionFailed x1'
}

@test "a redirect is never success, and nothing goes to the host it names" {
	local status

	mounted
	for status in 301 307; do
		both "EIO 0 1 0" \
			"* * answer $status Redirect Location=http://127.0.0.1:9/"
		becomes read "EIO 1 0 0" \
			"* * answer $status Redirect Location=http://127.0.0.1:9/"
		becomes list "EIO 0 0 1" \
			"* * answer $status Redirect Location=http://127.0.0.1:9/"
	done
}

@test "a redirect to another region: signed again for it, once" {
	mounted
	becomes write "0 0 2 0" \
		'PUT KEY answer 301 PermanentRedirect x-amz-bucket-region=eu-west-1 x1'
	becomes create "0 0 2 0" \
		'PUT KEY answer 307 TemporaryRedirect x-amz-bucket-region=eu-west-2 x1'
	becomes read "0 2 0 0" \
		'GET KEY answer 301 PermanentRedirect x-amz-bucket-region=eu-west-3 x1'
	becomes list "0 0 0 2" \
		'LIST * answer 301 PermanentRedirect x-amz-bucket-region=us-east-1 x1'
	both "EIO 0 [12] 0" \
		'PUT * answer 301 PermanentRedirect x-amz-bucket-region=eu-west-1'
}

@test "regions that name each other in turn: EIO after one more try" {
	local redirect='answer 301 PermanentRedirect x-amz-bucket-region'

	mounted
	both "EIO 0 2 0" "PUT KEY $redirect=eu-west-1 x1" \
		"PUT KEY $redirect=us-east-1 x1"
	becomes read "EIO 2 0 0" "GET KEY $redirect=eu-west-1 x1" \
		"GET KEY $redirect=us-east-1 x1"
	both "0 0 1 0"
}

@test "403: EACCES at once" {
	mounted
	both "EACCES 0 1 0" '* * answer 403 AccessDenied'
	becomes read "EACCES 1 0 0" '* * answer 403 AccessDenied'
	becomes list "EACCES 0 0 1" '* * answer 403 AccessDenied'
}

@test "an expired token that cannot be renewed is EACCES" {
	local status

	mounted
	for status in 400 403; do
		both "EACCES 0 1 0" "* * answer $status ExpiredToken"
		becomes read "EACCES 1 0 0" "* * answer $status ExpiredToken"
		becomes list "EACCES 0 0 1" "* * answer $status ExpiredToken"
	done
}

@test "RequestTimeTooSkewed: the clock is corrected once, then EACCES" {
	mounted
	both "0 0 2 0" 'PUT KEY answer 403 RequestTimeTooSkewed Date=100 x1'
	becomes read "0 2 0 0" 'GET KEY answer 403 RequestTimeTooSkewed Date=100 x1'
	becomes list "0 0 0 2" 'LIST * answer 403 RequestTimeTooSkewed Date=100 x1'
	becomes read "EACCES [12] 0 0" '* * answer 403 RequestTimeTooSkewed'
	becomes list "EACCES 0 0 [12]" '* * answer 403 RequestTimeTooSkewed'
	both "EACCES 0 [12] 0" '* * answer 403 RequestTimeTooSkewed'
}

@test "a bucket that has gone is EIO, not a record that is absent" {
	mounted
	both "EIO 0 1 0" '* * answer 404 NoSuchBucket'
	becomes read "EIO 1 0 0" '* * answer 404 NoSuchBucket'
	becomes list "EIO 0 0 1" '* * answer 404 NoSuchBucket'
}

@test "a 404 that is not in the store's words says nothing of a record" {
	mounted
	becomes read "EIO 1 0 0" '* * answer 404'
	becomes list "EIO 0 0 1" '* * answer 404'
	both "0 1 2 0" 'PUT KEY answer 404 x1'
}

# --- Answers that are spoilt -------------------------------------------------

@test "a PUT's answer without an ETag is settled by reading back" {
	mounted
	both "0 1 1 0" 'PUT KEY set ETag='
}

@test "a read-back without an ETag: what is ours is applied, what is not is read again" {
	mounted
	both "0 1 1 0" 'PUT KEY lose x1' 'GET KEY set ETag= x1'
	becomes write "0 2 2 0" 'PUT KEY drop x1' 'GET KEY set ETag= x1'
}

@test "a record without an ETag, or with a weak one, can be read but not guarded" {
	local tag

	mounted
	own a 1 | outside put cells/c/own.json
	for tag in '' 'W/"x"'; do
		proxy_rules "GET * set ETag=$tag"
		is "$(cat "$DIR/m/cells/c/own")" "$(own a 1)"
		mark
		is "$(errno_of 'f = os.open(a[0], os.O_RDWR)
os.read(f, 4096)
os.write(f, a[1].encode())' "$DIR/m/cells/c/own" "$(own a 2)")" EIO
		is "$(requests 'r["op"] == "PUT"')" ""
	done
}

# The gateway does not know them, so it refuses; what counts is what was sent.
@test "ETags are opaque: byte for byte from the answer to xattr and If-Match" {
	local tag

	mounted
	for tag in '"9b-2"' '"0x8DA5"' '"with,comma"' '"with;semicolon/+=%41"'; do
		own a 1 | outside put cells/c/own.json
		proxy_rules "GET * set ETag=$tag"
		mark
		exec 4<>"$DIR/m/cells/c/own"
		cat <&4 >/dev/null
		is "$(etag /dev/fd/4)" "$tag"
		run bash -c 'echo "$1" >&4' bash "$(own a 2)"
		exec 4>&-
		[ "$status" -ne 0 ]
		is "$(requests 'r["op"] == "PUT"' if_match | tr -d '"')" \
			"$(tr -d '"' <<<"$tag")"
		proxy_rules
	done
}

@test "a cut body is no record and no directory" {
	mounted
	becomes read "0 2 0 0" 'GET KEY cut 10 x1'
	becomes read "EIO [2-5] 0 0" 'GET KEY cut 10'
	becomes list "0 0 0 2" 'LIST * cut 100 x1'
	becomes list "EIO 0 0 [2-5]" 'LIST * cut 100'
}

@test "an answer that is compressed unasked is EIO" {
	mounted
	both "0 0 1 0" 'PUT KEY gzip'
	becomes read "EIO [1-4] 0 0" 'GET KEY gzip'
	becomes list "EIO 0 0 [1-4]" 'LIST * gzip'
}

@test "a store that ignores the delimiter of a listing is EIO" {
	local key=${STORE#s3://*/}/cells/a/own.json

	mounted
	becomes list "EIO 0 0 1" "LIST * body <ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>$key</Key></Contents></ListBucketResult>"
	grep "the store ignores the delimiter: it lists '$key'" "$DIR/m.log"
}

@test "a listing that is no listing, or never ends, is EIO" {
	mounted
	becomes list "EIO 0 0 [1-4]" 'LIST * body hello'
	becomes list "EIO 0 0 [1-4]" 'LIST * body <html><body>Welcome</body></html>'
	becomes list "EIO 0 0 [1-4]" 'LIST * body <ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>'
	becomes list "EIO 0 0 [1-4]" 'LIST * body <ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken></NextContinuationToken></ListBucketResult>'
	becomes list "EIO 0 0 [1-4]" 'LIST * body <ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>again</NextContinuationToken></ListBucketResult>'
}

# --- The other dialect, other clocks, other keys -----------------------------

@test "a gateway that wants quotes and says 404 for a missing key" {
	proxy_rules aws
	mounted
	export EVER=aws
	becomes create "0 0 1 0"
	becomes write "0 0 1 0"
	is "$(requests 'r["op"] == "PUT" and r["if_match"]' if_match |
		grep -vc '^".*"$')" 0
	# stale, and gone
	for after in put rm; do
		own a 1 | outside put cells/c/own.json
		exec 4<>"$DIR/m/cells/c/own"
		cat <&4 >/dev/null
		own b 5 | outside put cells/c/own.json
		[ "$after" = put ] || outside rm cells/c/own.json
		mark
		is "$(errno_of 'os.write(4, a[0].encode())' "$(own a 2)")" EBUSY
		exec 4>&-
		is "$(requests 'r["op"] == "PUT"' status)" \
			"$([ "$after" = put ] && echo 412 || echo 404)"
	done
}

@test "a clock 16 minutes off is corrected, and costs one request at the start" {
	local shift

	export EVER
	for shift in 960 -960; do
		EVER="clock $shift"
		proxy_rules "$EVER"
		mark
		mounted
		is "$(requests 'r["status"] == 403' | wc -l)" 1
		both "0 0 1 0"
		becomes read "0 1 0 0"
		becomes list "0 0 0 1"
		unmount m
		MOUNTS=()
	done
}

# fails_to_mount WORD [NAME=VALUE...]: with the reason, quickly, and leaving no
# mount.
fails_to_mount() {
	local word=$1 status=0

	shift
	mkdir -p "$DIR/m"
	env "$@" timeout 20 "$BUILD/celldfs" "$STORE" "$DIR/m" \
		>"$DIR/stdout" 2>"$DIR/stderr" 3>&- || status=$?
	cat "$DIR/stderr"
	is "$status" 1
	is "$(wc -l <"$DIR/stderr")" 1
	grep -q "$word" "$DIR/stderr"
	if mountpoint -q "$DIR/m"; then return 1; fi
	if grep -F "$AWS_SECRET_ACCESS_KEY" "$DIR/stderr"; then return 1; fi
}

@test "a wrong secret, an unknown key, a missing bucket fail the mount" {
	fails_to_mount SignatureDoesNotMatch AWS_SECRET_ACCESS_KEY=wrong
	fails_to_mount InvalidAccessKeyId AWS_ACCESS_KEY_ID=AKIAUNKNOWN000000000
	STORE=s3://nosuchbucket-at-all/x fails_to_mount NoSuchBucket
}

@test "a gateway that is not there fails the mount" {
	fails_to_mount 127.0.0.1 AWS_ENDPOINT_URL=http://127.0.0.1:9
}

@test "plain http to another machine needs allow-http" {
	fails_to_mount allow-http AWS_ENDPOINT_URL=http://192.0.2.1
}

# keys_from_file ID SECRET: what the daemon finds when it reads them again.
keys_from_file() {
	printf '[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n' \
		"$1" "$2" >"$DIR/credentials.new"
	mv "$DIR/credentials.new" "$DIR/credentials"
}

@test "keys that expire are read again from their file; the same keys are no help" {
	local right=("$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY") status

	keys_from_file "${right[@]}"
	# only the daemon: outside.py has its own in the environment
	printf '#!/bin/sh\nunset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY\n%s\n' \
		"exec '$BUILD/celldfs' \"\$@\"" >"$DIR/celldfs"
	chmod +x "$DIR/celldfs"
	export AWS_SHARED_CREDENTIALS_FILE=$DIR/credentials
	mount_with "$DIR/celldfs" m -o deadline-ms=4000
	both "0 0 1 0"
	for status in 400 403; do
		becomes write "EACCES 0 1 0" "* * answer $status ExpiredToken"
		sleep 1.1 # it reads them at most once a second
	done
	# A key that is revoked, and then a new one.
	keys_from_file AKIAUNKNOWN000000000 "${right[1]}"
	becomes read "EACCES [12] 0 0" '* * answer 403 ExpiredToken'
	sleep 1.1
	keys_from_file "${right[@]}"
	both "0 0 [12] 0"
	becomes read "0 1 0 0"
}

@test "no secret is in a log, an argument list or a file of the mount" {
	mounted -o log="$DIR/m.log"
	attempt write '* * answer 403 AccessDenied'
	attempt read '* * drop'
	[ -s "$DIR/m.log" ]
	if grep -rF "$AWS_SECRET_ACCESS_KEY" "$DIR/m.log" "$DIR/m/.celldfs" \
		"/proc/$(pid_of m)/cmdline"; then return 1; fi
}

# --- What it costs, counted where it counts ----------------------------------

# python SCRIPT ARGUMENT...: os and a = the arguments.
python() { python3 -c 'import os, sys; a = sys.argv[2:]; exec(sys.argv[1])' "$@"; }

READ_WRITE='
fd = os.open(a[0], os.O_RDWR)
os.read(fd, 4096)
os.write(fd, a[1].encode())
'

@test "the table of costs, in requests" {
	local here guard

	mount_at m
	here=$DIR/m/cells/c/own
	own n1 1 | outside put cells/c/own.json
	is "$(cost 'cat "$here"')" "2 0 0"
	is "$(cost 'cat "$here"')" "1 0 0"
	is "$(cost 'python "$READ_WRITE" "$here" "$(own n1 2)"')" "1 1 0"
	guard=$(etag "$here")
	is "$(cost 'arm "$here" "$guard"; own n1 3 >"$here"')" "0 1 0"
	is "$(cost 'python "
os.write(os.open(a[0], os.O_CREAT | os.O_EXCL | os.O_WRONLY), a[1].encode())
" "$DIR/m/cells/new/own" "$(own n1 1)"')" "1 1 0"
	is "$(cost 'create "$DIR/m/cells/new2/own" "$(own n1 1)"')" "2 1 0"
	# a takeover: the lease, too
	lease n1 0 | outside put nodes/n1.json
	is "$(cost 'python "$READ_WRITE" "$here" "$(own n2 4)"')" "2 1 0"
	# a rejected write
	exec 4<>"$here"
	cat <&4 >/dev/null
	own n9 9 | outside put cells/c/own.json
	[[ $(cost 'own n2 5 >&4') == [01]" 1 0" ]]
	is "$(cost 'own n2 6 >&4')" "0 0 0"
	exec 4>&-
	sleep 1.1
	is "$(cost 'stat "$here"')" "1 0 0"
	is "$(cost 'ls "$DIR/m/cells"')" "0 0 1"
	is "$(cost 'ls "$DIR/m/nodes"')" "0 0 1"
	is "$(cost 'df "$DIR/m"; cat "$DIR/m/.celldfs/status"')" "0 0 0"
	is "$(cost 'python "os.getxattr(a[0], a[1])" "$here" security.x')" "0 0 0"
	is "$(cost 'stat -f "$here"')" "0 0 0"
}

@test "connections are reused" {
	local k

	mount_at m
	own n1 1 | outside put cells/c/own.json
	for k in {1..20}; do cat "$DIR/m/cells/c/own" >/dev/null; done
	mark
	for k in {1..20}; do cat "$DIR/m/cells/c/own" >/dev/null; done
	is "$(requests 'True' connection | sort -u | wc -l)" 1
}
