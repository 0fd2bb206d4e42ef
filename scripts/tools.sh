# shellcheck shell=sh
# tools.sh: what celldfs-claim, celldfs-release, celldfs-owner and celldfs-fleet
# share. They source it; each has a usage().
#
# 1. A tool works in the root of the mount (enter_mount), so that it never writes
#    into the directory below a mount that is unmounted meanwhile.
# 2. A record is read and written through one open file, descriptor 3: what was
#    read guards the write. The mount and the store decide; what is checked here
#    makes for better messages.
# 3. A record that is not understood for certain is refused.
#
# POSIX sh, coreutils, sed and awk. getfattr (Debian: attr) is used where it is
# there: it reads records of every form and knows reasons.

# shellcheck disable=SC2034 # the tools use what is set here

export LC_ALL=C # names are bytes, and the words of errors are looked at
unset CDPATH

DONE=0
REJECTED=1
USAGE=2
PASSING=111

mount= # -m
flag=  # the option that a tool has beside
given= # it was given

EPOCH_MAX=18446744073709551615
PATIENCE_S=5 # for .celldfs/status, which does not wait for the store
LF='
'

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

# fail CODE TEXT...
fail() {
	code=$1
	shift
	say "$@"
	exit "$code"
}

usage_error() { fail $USAGE "$*; see ${0##*/} --help"; }

# options ARGUMENT...: takes the options that all tools have, and $flag, the one
# of this tool, which sets $given. Sets $skip: how many arguments those were.
options() {
	skip=$#
	while :; do
		case ${1-} in
		-h | --help)
			usage
			exit $DONE
			;;
		-m)
			[ -n "${2-}" ] || usage_error "-m needs a MOUNTPOINT"
			mount=$2
			shift 2
			;;
		-m?*)
			mount=${1#-m}
			shift
			;;
		--)
			shift
			break
			;;
		-?*)
			[ "$1" = "$flag" ] || usage_error "unknown option $1"
			given=1
			shift
			;;
		*) break ;;
		esac
	done
	skip=$((skip - $#))
}

# ---- names and numbers, by the rules of lib/name.h and lib/record.h ----

is_cell() {
	case $1 in
	'' | . | .. | *[!A-Za-z0-9_.:\$-]*) return 1 ;;
	esac
	[ ${#1} -le 255 ]
}

is_node() {
	case $1 in
	'' | . | .. | *[!A-Za-z0-9_.-]*) return 1 ;;
	esac
	[ ${#1} -le 128 ]
}

# is_epoch TEXT: an unsigned 64-bit number, as JSON has it.
is_epoch() {
	case $1 in
	'' | *[!0-9]* | 0?*) return 1 ;;
	esac
	[ ${#1} -lt ${#EPOCH_MAX} ] || {
		[ ${#1} -eq ${#EPOCH_MAX} ] &&
			expr "x$1" \<= "x$EPOCH_MAX" >/dev/null
	}
}

# after NUMBER: prints the next one. The shell's arithmetic ends at half of
# EPOCH_MAX.
after() {
	head=$1
	zeros=
	while [ "$head" != "${head%9}" ]; do
		head=${head%9}
		zeros=0$zeros
	done
	digit=${head#"${head%?}"}
	printf '%s\n' "${head%?}$((${digit:-0} + 1))$zeros"
}

# ---- the mount ----

# mount_around: prints "TYPE MOUNTPOINT" of the mount that the current directory
# lies in. Asks the kernel only: the mount may hang.
mount_around() {
	here=$(pwd -P) awk '
		{
			point = $5
			gsub(/\\040/, " ", point)
			gsub(/\\011/, "\t", point)
			gsub(/\\012/, "\n", point)
			gsub(/\\134/, "\\", point)
			inside = point == "/" ? point : point "/"
			if (index(ENVIRON["here"] "/", inside) != 1 ||
			    length(point) < length(best))
				next
			best = point
			for (i = 7; $i != "-"; i++)
				;
			type = $(i + 1)
		}
		END { print type, best }' /proc/self/mountinfo
}

# ask_status DIRECTORY [PREFIX...]: sets $status to what DIRECTORY/.celldfs/status
# says, read by a command with that PREFIX.
ask_status() {
	asked=$1
	shift
	status=$("$@" cat "$asked/.celldfs/status" 2>&1)
	case $?:$status in
	0:"version "*) ;;
	124:* | 137:*)
		fail $PASSING "the celldfs at $where does not answer"
		;;
	*"Permission denied"*)
		fail $REJECTED "no access to $where: Permission denied"
		;;
	*"not connected"* | *"connection abort"*)
		fail $PASSING "no celldfs is mounted at $where: its daemon" \
			"has died; run: fusermount3 -u $where"
		;;
	*) fail $PASSING "no celldfs is mounted at $where" ;;
	esac
}

# status_of NAME: sets $value to what $status says of it, or to nothing.
status_of() {
	value=$LF$status$LF
	case $value in
	*"$LF$1 "*)
		value=${value#*"$LF$1 "}
		value=${value%%"$LF"*}
		;;
	*) value= ;;
	esac
}

# enter_mount: makes the root of the mount the current directory and reads its
# status. Which mount: -m, else CELLDFS_MOUNT, else the one around us.
enter_mount() {
	where=${mount:-${CELLDFS_MOUNT-}}
	if [ -z "$where" ]; then
		around=$(mount_around)
		[ "${around%% *}" = fuse.celldfs ] ||
			usage_error "which mount? Give -m MOUNTPOINT, set" \
				"CELLDFS_MOUNT, or run it inside one"
		where=${around#* }
	fi
	path=$where
	[ "${path#/}" != "$path" ] || path=./$path
	# whatever touches the mount of a daemon that is stopped is stopped, too
	ask_status "$path" timeout --foreground -k 1 $PATIENCE_S
	cd -P "$path" || fail $PASSING "cannot enter $where"
	ask_status .
}

# may_write: for a tool that writes. Sets $node, this mount's.
may_write() {
	around=$(mount_around)
	# a directory that looks like a mount would accept every claim
	[ "${around%% *}" = fuse.celldfs ] ||
		fail $PASSING "no celldfs is mounted at $where"
	status_of keeper
	keeper=$value # "node -" may be a node of that name
	[ "$keeper" != - ] ||
		fail $REJECTED "the mount at $where is no node's: mount it" \
			"with -o node=NAME"
	status_of node
	node=$value
	is_node "$node" || fail $PASSING "no node in $where/.celldfs/status"
	status_of lease
	[ "$keeper" != on ] || [ "$value" = held ] ||
		fenced "nothing was written"
}

# fenced TEXT: says so, and TEXT.
fenced() {
	status_of lease
	lease=$value
	status_of fence
	fail $REJECTED "the mount at $where has lost its lease ($lease, $value)" \
		"and writes nothing any more, mount anew; $1"
}

# ---- a record, open as descriptor 3 ----

# attribute NAME: prints the open file's.
attribute() {
	getfattr --only-values -n "user.celld.$1" /dev/fd/3 2>/dev/null
}

# read_record: sets $form to own, empty, malformed, or unclear (getfattr could
# tell); and for own $owner ("" if released) and $epoch. Fails if nothing can be
# read.
read_record() {
	record=$(tr '\000\t\n\r' '\001   ' <&3) || return 1
	owner=
	epoch=
	form=own
	if [ -z "$record" ]; then
		form=empty
	elif ! read_by_mount && ! read_by_pattern; then
		form=unclear
		owner=
		epoch=
		! command -v getfattr >/dev/null || form=malformed
	fi
}

# As the mount understands the version that was read.
read_by_mount() { owner=$(attribute node) && epoch=$(attribute epoch); }

# The two members that it must have, in either order, and nothing else.
read_by_pattern() {
	found=$(printf '%s\n' "$record" | sed -n '
		s/^ *{ *"node" *: *"\([^"\\]*\)" *, *"epoch" *: *\([0-9]*\) *} *$/\2 \1/p
		s/^ *{ *"epoch" *: *\([0-9]*\) *, *"node" *: *"\([^"\\]*\)" *} *$/\1 \2/p')
	epoch=${found%% *}
	owner=${found#* }
	[ -n "$found" ] && is_epoch "$epoch" &&
		{ [ -z "$owner" ] || is_node "$owner"; }
}

# open_record CELL: opens its record and reads it. A record that is not there is
# empty, and is created by the first write alone.
open_record() {
	own=cells/$1/own
	# "command": else the shell would end here, with a status of its own
	command exec 3<>"$own" ||
		fail $PASSING "$own cannot be opened; nothing was written"
	read_record || fail $PASSING "$own cannot be read; nothing was written"
	case $form in
	malformed) fail $REJECTED "$own is malformed; nothing was written" ;;
	unclear)
		fail $REJECTED "$own is malformed, or has other fields, too," \
			"for which getfattr (Debian: attr) is needed;" \
			"nothing was written"
		;;
	esac
}

# swap RECORD: writes it. Returns when it was applied; else says what became of
# $what, this write, and exits.
#
# By printf(1), not by the shell's: dash would call every error an I/O error.
swap() {
	trap 'unknown interrupted' HUP INT TERM
	if said=$(env printf '%s\n' "$1" 2>&1 >&3); then
		trap - HUP INT TERM
		return
	fi
	trap - HUP INT TERM
	said=${said##*: }
	# of the last write by anybody here: it explains, it decides nothing
	outcome=$(attribute outcome) || outcome=
	case $said in
	*" busy")
		case $outcome in
		rejected*) said=$outcome ;;
		*) said="rejected: $said" ;;
		esac
		fail $REJECTED "$own: $said; nothing was written"
		;;
	"Read-only file system")
		! is_released || return 0
		ask_status .
		fenced "${outcome:-the $what may have happened before}"
		;;
	"Operation not permitted" | "Permission denied" | "Invalid argument")
		fail $REJECTED "$own: $said${outcome:+: $outcome};" \
			"nothing was written"
		;;
	"Input/output error" | "Operation canceled" | "Cannot allocate memory" | \
		"Interrupted system call")
		fail $PASSING "$own: $said${outcome:+: $outcome};" \
			"nothing was written"
		;;
	*)
		! is_released || return 0
		unknown "$said${outcome:+: $outcome}"
		;;
	esac
}

# Was that the release of $epoch, and is it released now, by whomever?
is_released() {
	[ "$what" = release ] && (
		expected=$epoch
		command exec 3<"$own" && read_record && [ "$form" = own ] &&
			[ -z "$owner" ] && [ "$epoch" = "$expected" ]
	)
}

unknown() {
	fail $PASSING "$own: $1; the $what may have happened: read before you" \
		"retry"
}

# ---- .celldfs/peers ----

# Functions for awk programs. flat(TEXT) reads an object that holds no other one
# into value[], without escapes and control characters; 0: it is none.
flat_json='
	function flat(text,    key) {
		split("", value)
		rest = text
		if (!take("^[ \t]*[{][ \t]*"))
			return 0
		do {
			if (!take("^\"[^\"\\\\]*\"[ \t]*:[ \t]*"))
				return 0
			key = substr(taken, 2, index(substr(taken, 2), "\"") - 1)
			if (key in value)
				return 0
			if (take("^\"([^\"\\\\]|\\\\.)*\""))
				value[key] = plain(substr(taken, 2, length(taken) - 2))
			else if (take("^-?[0-9]+([.][0-9]+)?([eE][-+]?[0-9]+)?") ||
			    take("^(true|false|null)"))
				value[key] = taken
			else
				return 0
			take("^[ \t]*")
		} while (take("^,[ \t]*"))
		return take("^[}][ \t\r]*$")
	}
	function take(pattern) {
		if (!match(rest, pattern))
			return 0
		taken = substr(rest, 1, RLENGTH)
		rest = substr(rest, RLENGTH + 1)
		return 1
	}
	function plain(string,    text, at) {
		while ((at = index(string, "\\")) > 0) {
			text = text substr(string, 1, at - 1)
			if (substr(string, at + 1, 1) == "u") {
				text = text "?"
				string = substr(string, at + 6)
			} else {
				text = text (substr(string, at + 1) ~ /^[bfnrt]/ ? \
					" " : substr(string, at + 1, 1))
				string = substr(string, at + 2)
			}
		}
		text = text string
		gsub(/[\001-\037\177]/, "?", text)
		return text
	}
'
