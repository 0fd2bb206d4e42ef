#!/usr/bin/env bats
# words: the options that celldfs knows, its help, its manual and the completions say
# the same.

load helper

ROOT=$(cd "$HERE/../.." && pwd)

# The names in the table of fs/options.c that are celldfs' own.
own_options() {
	sed -n 's/^\t{"\([a-z_-]*\)", KIND_OURS, .*/\1/p' "$ROOT/fs/options.c" | sort
}

# Those for libfuse, or that mean nothing to a mount.
foreign_options() {
	sed -nE 's/^\t\{"([a-z_-]*)", KIND_(FUSE|IGNORE), .*/\1/p' \
		"$ROOT/fs/options.c"
}

# without NAME...: those, without these.
without() { grep -vxF -e "$(printf '%s\n' "$@")"; }

@test "words: the table is what celldfs takes" {
	local name

	[ "$(own_options | wc -l)" -ge 20 ]
	mkdir "$DIR/m"
	for name in $(own_options); do
		# not unknown: it wants a value, or there is no such directory
		run "$BUILD/celldfs" "sqlite:$DIR/s.db" "$DIR/none" -o "$name"
		echo "$output"
		[[ $output != *unknown* ]]
		run "$BUILD/celldfs" "sqlite:$DIR/s.db" "$DIR/none" -o "${name}x"
		[[ $output == *unknown* ]]
	done
}

@test "words: --help names each option, and no other" {
	is "$("$BUILD/celldfs" --help | sed -n '/^Options:/,/^Exit/p' | sed '$d' |
		sed -e '1d' -e 's/^  \([a-z-]*\)[ =].*  .*/\1/' -e 's/ as in .*//' \
			-e 's/^  //' -e 's/=[A-Z]*//g' -e 's/,/\n/g' |
		tr -d ' ' | grep -v '^$' | sort)" "$(own_options)"
}

@test "words: the manual has an entry for each option, and no other" {
	is "$(sed -n '/^\.Sh OPTIONS/,/^\.Sh RECORDS/p' "$ROOT/celldfs.8" |
		grep '^\.It Fl o' | sed -e 's/^\.It //' -e 's/Fl o Cm //g' \
			-e 's/ , /\n/g' -e 's/=[^\n]*//g' |
		grep -xvF "$(foreign_options)" | sort)" "$(own_options)"
}

@test "words: bash completes each option, and its values" {
	local words

	words=$(bash -c '. "$1"; printf "%s\n" $_celldfs_options' - \
		"$ROOT/scripts/completion/celldfs.bash")
	is "$(sed 's/=.*//' <<<"$words" | sort)" "$(own_options)"
	is "$(grep '=.' <<<"$words" | sort | tr '\n' ' ')" \
		"fence=exit keeper=off takeover=any "
}

@test "words: zsh completes each option" {
	is "$(sed -n '/_values/,/^}/p' "$ROOT/scripts/completion/_celldfs" |
		sed -e '1d' -e '$d' -e 's/\\$//' |
		grep -oE "'[a-z-]+\[|[a-z_]+( |$)" | tr -d "'[ " |
		grep -xF "$(own_options)" | sort -u)" "$(own_options)"
}

# completed LINE: what bash offers at its end.
completed() {
	bash -c '
		. "$1"
		compopt() { :; }
		read -ra COMP_WORDS <<<"$2"
		[[ $2 != *" " ]] || COMP_WORDS+=("")
		COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
		_celldfs "${COMP_WORDS[0]}"
		[ ${#COMPREPLY[@]} -eq 0 ] ||
			printf "%s\n" "${COMPREPLY[@]}" | sort | tr "\n" " "' - \
		"$ROOT/scripts/completion/celldfs.bash" "$1"
}

@test "words: bash completes options after a comma, cells of the mount, and flags" {
	is "$(completed 'celldfs s3://b /m -o node=a,fe')" "node=a,fence=exit "
	is "$(completed 'celldfs s3://b /m -o t')" "takeover=any ttl-ms= "
	is "$(completed 'celldfs p')" "probe "
	is "$(completed 'celldfs-claim --r')" "--restart "
	mount_at m
	for cell in jam job x; do
		put "cells/$cell/own.json" '{"node":"b","epoch":5}'
	done
	is "$(completed "celldfs-run -m $DIR/m j")" "jam job "
	is "$(CELLDFS_MOUNT=$DIR/m completed 'celldfs-owner ')" "jam job x "
	is "$(cd "$DIR/m" && completed 'celldfs-owner x')" "x "
	is "$(cd "$DIR" && completed 'celldfs-owner x')" ""
}

@test "words: every flag of the tools is completed" {
	local tool flags

	for tool in claim release owner fleet run; do
		flags=$(PATH=$BUILD:$ROOT/scripts:$PATH "celldfs-$tool" --help |
			sed -n '1p' | grep -oE '(^|[[ ])--?[a-z]+' | tr -d '[ ')
		[ -n "$flags" ]
		is "$(completed "celldfs-$tool -" | tr ' ' '\n' | without --help |
			sort)" "$(sort <<<"$flags")"
	done
}
