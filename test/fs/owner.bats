#!/usr/bin/env bats
# owner: which records the tools understand; celldfs-owner(1) and celldfs-fleet(1).

bats_require_minimum_version 1.5.0
load helper
load tools

# ---- records of other forms ----

# What celldfs-release finds, which never writes here, in each record as it is;
# "!" if it refuses to read it. Then the same without getfattr.
records() {
	cat <<'END'
{"node":"b","epoch":5}|b 5|b 5
{"epoch":5,"node":"b"}|b 5|b 5
 { "node" : "b" , "epoch" : 5 } |b 5|b 5
{"node":"","epoch":5}| 5| 5
{"node":"a","epoch":5}|a 5|a 5
{"node":"a","epoch":5,"more":true}|a 5|!
{"more":{"node":"a","epoch":9},"node":"b","epoch":5}|b 5|!
{"node":"b","epoch":5,"more":{"node":"a","epoch":9}}|b 5|!
{"more":"\"node\":\"a\",\"epoch\":9","node":"b","epoch":5}|b 5|!
{"more":[{"node":"a","epoch":9}],"epoch":5,"node":"b"}|b 5|!
{"node":"\u0062","epoch":5}|b 5|!
{"\u006eode":"b","epoch":5}|b 5|!
{"node":"b","epoch":5,"node":"a"}|!|!
{"node":"b","epoch":5,"Node":"a"}|!|!
{"node":"b","epoch":05}|!|!
{"node":"b","epoch":5.0}|!|!
{"node":"b","epoch":"5"}|!|!
{"node":"b","epoch":-5}|!|!
{"node":"b","epoch":18446744073709551616}|!|!
{"node":"b/c","epoch":5}|!|!
{"node":"..","epoch":5}|!|!
{"node":"b","epoch":5}{"node":"a","epoch":6}|!|!
{"node":"b","epoch":5},|!|!
{"node":"b"}|!|!
{"epoch":5}|!|!
[{"node":"b","epoch":5}]|!|!
nothing|!|!
 |!|!
END
}

@test "tools: a record is understood or refused, with getfattr and without" {
	poor=$(poor_path)
	mount_at m -o node=a,keeper=off
	n=0
	while IFS='|' read -r record _; do
		n=$((n + 1))
		put cells/c$n/own.json "$record"
	done < <(records)
	before=$(outside etags)
	n=0
	while IFS='|' read -r record full without; do
		n=$((n + 1))
		for path in "$PATH" "$poor"; do
			expected=$full
			[ "$path" = "$PATH" ] || expected=$without
			PATH=$path tool 1 celldfs-release -m "$DIR/m" c$n 1
			case $stderr in
			*"it is owned by b at epoch 5, and this is a;"*) found="b 5" ;;
			*"this node, a, owns it at epoch 5, not 1;"*) found="a 5" ;;
			*"released already, at epoch 5;"*) found=" 5" ;;
			*"is malformed"*) found=! ;;
			*) found=$stderr ;;
			esac
			is "$record: $found" "$record: $expected"
		done
	done < <(records)
	[ $n -gt 20 ]
	is "$(outside etags)" "$before"

	# the same for the others
	put cells/x/own.json '{"more":{"node":"a","epoch":9},"node":"","epoch":5}'
	PATH=$poor tool 1 celldfs-claim -m "$DIR/m" x
	says getfattr
	PATH=$poor tool 1 celldfs-owner -m "$DIR/m" x
	is "${lines[1]} ${#lines[@]}" "state malformed 4"
	says ""
	tool 0 celldfs-owner -m "$DIR/m" x
	is "${lines[1]}" "state released"
	tool 0 celldfs-claim -m "$DIR/m" x
	is "$(record x)" "$(own a 6)"
}

@test "tools: a record with a NUL, over many lines, and an empty one" {
	poor=$(poor_path)
	mount_at m -o node=a,keeper=off
	printf '{"node":"b\0","epoch":5}' | outside put cells/nul/own.json
	put cells/lines/own.json $'{\n\t"node": "a",\r\n\t"epoch": 5\n}\n'
	put cells/empty/own.json ''
	for path in "$PATH" "$poor"; do
		PATH=$path tool 1 celldfs-owner -m "$DIR/m" nul
		PATH=$path tool 0 celldfs-owner -m "$DIR/m" lines
		is "${lines[2]} ${lines[3]}" "owner a epoch 5"
		PATH=$path tool 1 celldfs-owner -m "$DIR/m" empty
		is "${lines[1]}" "state malformed"
		for cell in nul lines empty; do
			keeps $cell
			PATH=$path tool 1 celldfs-claim -m "$DIR/m" $cell
			kept $cell
		done
	done
}

@test "claim, release: without getfattr the exit status is the same" {
	poor=$(poor_path)
	two_mounts
	spy_at m3 -o node=a,keeper=off,deadline-ms=1500
	alive a
	PATH=$poor run ! command -v getfattr
	PATH=$poor tool 0 celldfs-claim -m "$DIR/m1" x
	PATH=$poor tool 1 celldfs-claim -m "$DIR/m2" x
	says "rejected: Device or resource busy"
	PATH=$poor tool 1 celldfs-release -m "$DIR/m2" x 1
	PATH=$poor tool 0 celldfs-release -m "$DIR/m1" x 1
	rules m3 "put_if cells/* drop"
	PATH=$poor tool 111 celldfs-claim -m "$DIR/m3" x
	says "may have happened"
	rules m3 "put_if cells/* fail failed"
	PATH=$poor tool 111 celldfs-claim -m "$DIR/m3" x
	says "nothing was written"
	is "$(record x)" "$(own "" 1)"
}

# ---- owner ----

# owner_is CELL STATE OWNER EPOCH WHY: WHY is a pattern; "-" for null. By m1.
owner_is() {
	tool "${expected_status:-0}" celldfs-owner --json -m "$DIR/m1" "$1"
	is "$(python3 -c 'import json, sys
r = json.loads(sys.argv[1])
assert list(r) == ["cell", "state", "owner", "epoch", "why", "since_ms"]
print(*("-" if r[k] is None else r[k] for k in list(r)[:4]))' "$output")" \
		"$1 $2 $3 $4"
	json=$output
	tool "${expected_status:-0}" celldfs-owner -m "$DIR/m1" "$1"
	is "${lines[0]}" "cell $1"
	is "${lines[1]}" "state $2"
	is "$(sed -n 's/^owner //p' <<<"$output")" "${3#-}"
	is "$(sed -n 's/^epoch //p' <<<"$output")" "${4#-}"
	# shellcheck disable=SC2053 # a pattern
	[[ $(sed -n 's/^why //p' <<<"$output") == $5 ]] ||
		{ echo "$output"; return 1; }
}

@test "owner: every state" {
	mount_at m1 -o node=a,keeper=off
	mount_at m2 -o node=c
	owner_is x none - - "never owned*"
	put cells/x/own.json "$(own "" 6)"
	owner_is x released - 6 "released*"
	put cells/x/own.json "$(own b 7)"
	owner_is x dead b 7 "it has no lease"
	put nodes/b.json "$(lease b $(($(now_ms) + 100000)) 'b:1')"
	owner_is x alive b 7 "its lease is alive for another * s (addr b:1)"
	put nodes/b.json "$(lease b 0)"
	owner_is x dead b 7 "its lease was given up"
	put nodes/b.json "{}"
	owner_is x unknown b 7 "its lease is malformed*"
	celldfs-claim -m "$DIR/m2" y
	owner_is y alive c 1 "its lease is alive*"
	put cells/x/own.json "{}"
	expected_status=1 owner_is x malformed - - "malformed*"
	# of this mount's own node
	tool 0 celldfs-owner -m "$DIR/m2" y
	is "${lines[1]}" "state alive"
	is "${lines[2]}" "owner c"
	[[ ${lines[4]} == "why this mount keeps its lease"* ]]
	put cells/x/own.json "$(own a 9)"
	owner_is x unknown a 9 "*"
}

@test "owner: since when, by the store's clock; and words are escaped in JSON" {
	mount_at m1
	before=$(($(now_ms) - 1000)) # a bucket's times have whole seconds
	put cells/x/own.json "$(own b 7)"
	put nodes/b.json "$(lease b $(($(now_ms) + 100000)) 'b\"\\:1')"
	owner_is x alive b 7 '* (addr b"\\:1)'
	since=$(sed 's/.*"since_ms":\([0-9]*\)}$/\1/' <<<"$json")
	[ "$since" -ge "$before" ]
	[ "$since" -le "$(($(now_ms) + 1000))" ]
	is "$(sed -n 's/^since //p' <<<"$output")" \
		"$(date -u -d "@$((since / 1000))" +%Y-%m-%dT%H:%M:%SZ)"
}

@test "owner: takeover=any does not make an owner dead" {
	mount_at m1 -o takeover=any
	put cells/x/own.json "$(own b 7)"
	alive b
	owner_is x alive b 7 "its lease is alive*"
}

@test "owner: it speaks of one version, or says that it cannot" {
	mount_at m1
	mkdir "$DIR/bin"
	alive a
	# getfattr changes the owner before it asks for why: as often as is in
	# $DIR/changes
	cat >"$DIR/bin/getfattr" <<-END
		#!/bin/bash
		if [[ \$* == *celld.why* ]]; then
			n=\$(cat "$DIR/changes")
			if [ "\$n" -gt 0 ]; then
				echo \$((n - 1)) >"$DIR/changes"
				echo '{"node":"b'\$n'","epoch":'\$((100 - n))'}' |
					python3 "$HERE/outside.py" put cells/x/own.json
			fi
		fi
		exec /usr/bin/getfattr "\$@"
	END
	chmod +x "$DIR/bin/getfattr"
	PATH=$DIR/bin:$PATH
	put cells/x/own.json "$(own a 1)"
	echo 1 >"$DIR/changes"
	tool 0 celldfs-owner -m "$DIR/m1" x
	is "${lines[1]}, ${lines[2]}, ${lines[3]}" "state dead, owner b1, epoch 99"
	echo 9 >"$DIR/changes"
	tool 111 celldfs-owner -m "$DIR/m1" x
	is "$output" ""
}

@test "owner, fleet: what cannot be printed is 111" {
	mount_at m
	imitate - </dev/null
	for shell in dash bash; do
		for tool in "owner m x" "owner m --json x" "fleet like"; do
			# shellcheck disable=SC2086 # words
			by $shell $tool >"$DIR/out"
			status=0
			# shellcheck disable=SC2086
			by $shell $tool >/dev/full 2>"$DIR/err" || status=$?
			is "$tool: $status" "$tool: 111"
		done
	done
}

# ---- fleet ----

# imitate STORE_TIME_MS: a directory that looks like a mount, with the peers on
# the input.
imitate() {
	mkdir -p "$DIR/like/.celldfs"
	printf '%s\n' "version 1" "node a" "keeper on" "store_time_ms $1" \
		>"$DIR/like/.celldfs/status"
	cat >"$DIR/like/.celldfs/peers"
}

@test "fleet: a table" {
	imitate 1795968010000 <<-'END'
		{"node":"a","state":"alive","expires_ms":1795968018800,"expires_in_ms":9900,"addr":"host-a:7","resident_cells":3,"rss_bytes":12582912,"generation":"00ff","modified_ms":1795968008800}
		{"node":"node-with-a-long-name","state":"alive","expires_ms":1795968020000,"expires_in_ms":10000,"addr":"h","resident_cells":12345,"rss_bytes":21474836480,"generation":"","modified_ms":1795968010500}
		{"node":"d","state":"dead","expires_ms":0,"expires_in_ms":0,"addr":"h","resident_cells":0,"rss_bytes":0,"generation":"","modified_ms":1795967700000,"why":"its lease was given up"}
		{"node":"u","state":"unknown","why":"its log is \"open\": only celld\ncan recover it \u001b[31m\\"}
		{"node":"x","state":"malformed","why":"no expires_ms"}
		{"node":"y","state":"unreadable","why":"timeout"}
	END
	for shell in dash bash; do
		tool 0 by $shell fleet like
		is "$stderr" ""
		is "$output" "$(cat <<-'END'
			NODE                   STATE       RENEWED   LEFT  CELLS     RSS  NOTE
			a                      alive          1.2s   8.8s      3     12M  host-a:7
			node-with-a-long-name  alive          0.0s  10.0s  12345  20480M  h
			d                      dead             5m      -      0      0M  its lease was given up
			u                      unknown           -      -      -       -  its log is "open": only celld can recover it ?[31m\
			x                      malformed         -      -      -       -  no expires_ms
			y                      unreadable        -      -      -       -  timeout
		END
		)"
	done
}

@test "fleet: no nodes; lines that are not understood; spans of time" {
	imitate 1795968000000 </dev/null
	tool 0 celldfs-fleet -m "$DIR/like"
	is "$output" "NODE  STATE  RENEWED  LEFT  CELLS  RSS  NOTE"
	imitate 1795968000000 <<-'END'
		{"node":"a","state":"alive","modified_ms":1795967881000,"more":null,"yes":true,"f":-1.5e3}
		{"node":"b","state":"dead","modified_ms":1795967880000}
		{"node":"c","state":"dead","modified_ms":1795960799000}
		{"node":"d","state":"dead","modified_ms":1795795200000,"expires_ms":"x"}
		{"node":"e","load":{"node":"f"}}
		{"node":"e","node":"f"}
		{"state":"alive"}
		nonsense
		{}
	END
	tool 0 celldfs-fleet -m "$DIR/like"
	is "$(awk '{ print $1, $2, $3 }' <<<"$output" | tail -n +2 | xargs)" \
		"a alive 119.0s b dead 2m c dead 2h d dead 2d$(
			printf ' ? unknown -%.0s' {1..5})"
}

@test "fleet: --watch shows what is, until interrupted, and why there is nothing" {
	local shown="$DIR/shown"

	mkdir -p "$DIR/like"
	setsid "$SCRIPTS/celldfs-fleet" -m "$DIR/like" --watch >"$shown" 2>&1 3>&- &
	until grep -q 'no celldfs is mounted' "$shown"; do
		kill -0 $!
		sleep 0.02
	done
	kill -- -$!
	run wait $!
	mount_at m -o node=a
	setsid "$SCRIPTS/celldfs-fleet" -m "$DIR/m" --watch >"$shown" 2>&1 3>&- &
	until [ "$(grep -c '^a  *alive ' "$shown")" -ge 2 ]; do
		kill -0 $!
		sleep 0.02
	done
	kill -- -$!
	run wait $!
	unmount m
}

@test "fleet: no peers, peers that cannot be read, no store's clock" {
	imitate - </dev/null
	printf '{"node":"a","state":"dead","modified_ms":%s}\n' \
		$(($(now_ms) - 300000)) >"$DIR/like/.celldfs/peers"
	tool 0 celldfs-fleet -m "$DIR/like"
	[[ ${lines[1]} == "a "*" 5m "* ]]
	rm "$DIR/like/.celldfs/peers"
	tool 1 celldfs-fleet -m "$DIR/like"
	says "does not tell of its peers"
	is "$output" ""
	mkdir "$DIR/like/.celldfs/peers"
	tool 111 celldfs-fleet -m "$DIR/like"
	says "Is a directory"
}
