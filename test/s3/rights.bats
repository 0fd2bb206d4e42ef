#!/usr/bin/env bats
# rights: the policy of celldfs.8 is enough for all that a node does, and no more.

bats_require_minimum_version 1.5.0
load ../fs/helper

LEAST=least-$$
ACCESS=LEASTACCESSKEY$$
SECRET=leastsecretkey00000000000000000000000001

admin() {
	radosgw-admin -c "$BUILD/gateway/ceph.conf" -n client.radosgw.a "$@" \
		>"$DIR/admin" 2>&1 || { cat "$DIR/admin"; return 1; }
}

# policy [FILTER]: the bucket's is that of the manual, of the statements that FILTER,
# in Python, lets pass; "none": it has none.
policy() {
	python3 - "$HERE/../../celldfs.8" "$LEAST" "${1-True}" <<-'PY'
		import json, os, re, sys
		sys.path.insert(0, os.environ['HERE'])
		import outside
		page, user, wanted = sys.argv[1:]
		store = outside.connect(os.environ['STORE'])
		if wanted == 'none':
		    sys.exit(store.expect((200, 204), 'DELETE', query=[('policy', '')]) is None)
		text = re.search(r'as an IAM policy:\n\.Bd [^\n]*\n(.*?)\n\.Ed',
		                 open(page).read(), re.S).group(1)
		text = text.replace('my-bucket/fleet', store.bucket + '/' +
		                    store.prefix.rstrip('/'))
		text = text.replace('my-bucket', store.bucket)
		policy = json.loads(text)
		policy['Statement'] = [dict(s, Principal={'AWS': 'arn:aws:iam:::user/' +
		                                                 user})
		                       for s in policy['Statement'] if eval(wanted)]
		store.expect((200, 204), 'PUT', query=[('policy', '')],
		             body=json.dumps(policy).encode())
	PY
}

eval "mounts_$(declare -f teardown)"
teardown() {
	local status=0

	policy none || status=1
	admin user rm --uid="$LEAST" || status=1
	mounts_teardown || status=1
	return $status
}

@test "rights: the policy of the manual suffices, and each part of it is needed" {
	export HERE
	admin user create --uid="$LEAST" --display-name="$LEAST" \
		--access-key="$ACCESS" --secret-key="$SECRET"
	policy
	least=(env AWS_ACCESS_KEY_ID=$ACCESS AWS_SECRET_ACCESS_KEY=$SECRET)

	"${least[@]}" "$BUILD/celldfs" probe "$STORE"
	AWS_ACCESS_KEY_ID=$ACCESS AWS_SECRET_ACCESS_KEY=$SECRET mount_at m -o node=a
	run ! cat "$DIR/m/cells/c/own"
	[[ $output == *"No such file"* ]]
	create "$DIR/m/cells/c/own" "$(own a 1)"
	swap "$DIR/m/cells/c/own" "$(own a 2)"
	swap "$DIR/m/cells/c/own" "$(own '' 2)"
	flock "$DIR/m/cells/d/own" true
	is "$(ls "$DIR/m/cells" | xargs) $(ls "$DIR/m/nodes")" "c d a"
	grep -q '"node":"a","state":"alive"' "$DIR/m/.celldfs/peers"
	unmount m
	MOUNTS=()
	[[ $("${least[@]}" python3 "$HERE/outside.py" get nodes/a.json) == \
		*'"expires_ms":0'* ]]

	# no more
	run ! "${least[@]}" python3 "$HERE/outside.py" put else/x <<<x
	[[ $output == *"PUT else/x: 403"* ]]
	run ! "${least[@]}" python3 -c "
import os, sys
sys.path.insert(0, os.environ['HERE'])
import outside
outside.connect(os.environ['STORE']).expect((204,), 'DELETE', 'cells/c/own.json')"
	[[ $output == *"DELETE cells/c/own.json: 403"* ]]

	# what each part is for
	policy "'s3:DeleteObject' not in s['Action']"
	run ! "${least[@]}" "$BUILD/celldfs" probe "$STORE"
	policy "'s3:PutObject' not in s['Action']"
	run ! "${least[@]}" "$BUILD/celldfs" probe "$STORE"
	policy "'s3:ListBucket' not in s['Action']"
	AWS_ACCESS_KEY_ID=$ACCESS AWS_SECRET_ACCESS_KEY=$SECRET mount_at m -o ro
	run ! cat "$DIR/m/cells/none/own"
	[[ $output == *"Permission denied"* ]]
}
