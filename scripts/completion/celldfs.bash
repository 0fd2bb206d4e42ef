# shellcheck shell=bash
# Completion of celldfs and its tools for bash.

_celldfs_options="node= keeper=off ttl-ms= addr= peer-protocol= replace fence=exit
	takeover=any skew-ms= deadline-ms= watch-ms= log= allow-http uid= gid=
	umask= ro rw allow_other auto_unmount default_permissions"

# The words of $1 that may stand for the word being typed.
_celldfs_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$word"); }

# The names in a directory of the mount that -m or CELLDFS_MOUNT names, else of the
# one that we are in. Lists; reads no record.
_celldfs_names() {
	local i mount=${CELLDFS_MOUNT-}

	for ((i = 1; i < COMP_CWORD; i++)); do
		[ "${COMP_WORDS[i]}" != -m ] || mount=${COMP_WORDS[i + 1]}
	done
	[ -n "$mount" ] || mount=$(findmnt -nt fuse.celldfs -o TARGET -T . 2>/dev/null)
	[ -d "$mount/.celldfs" ] || return
	mapfile -t COMPREPLY < <(cd "$mount/$1" 2>/dev/null &&
		compgen -f -- "$word")
}

_celldfs() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
	local given

	COMPREPLY=()
	case ${1##*/}:$before in
	celldfs:-o)
		given=${word%"${word##*,}"}
		word=${word##*,}
		_celldfs_words "$_celldfs_options"
		COMPREPLY=("${COMPREPLY[@]/#/$given}")
		[[ ${COMPREPLY-} != *= ]] || compopt -o nospace
		return
		;;
	*:-m)
		mapfile -t COMPREPLY < <(compgen -d -- "$word")
		return
		;;
	*:-w) return ;;
	esac
	case ${1##*/}:$word in
	celldfs:-*) _celldfs_words "-f -d -o -h --help -V --version" ;;
	celldfs-claim:-*) _celldfs_words "-m --restart --help" ;;
	celldfs-owner:-*) _celldfs_words "-m --json --help" ;;
	celldfs-fleet:-*) _celldfs_words "-m --watch --help" ;;
	celldfs-release:-*) _celldfs_words "-m --help" ;;
	celldfs-run:-*) _celldfs_words "-m -w -n -v --help" ;;
	celldfs-watch:-*) _celldfs_words "--help" ;;
	celldfs:sq*) _celldfs_words "sqlite:" && compopt -o nospace ;;
	celldfs:s3*) _celldfs_words "s3://" && compopt -o nospace ;;
	celldfs:* | celldfs-watch:*)
		[ "$COMP_CWORD" -ne 1 ] || [ "${1##*/}" != celldfs ] || {
			_celldfs_words "probe sqlite: s3://"
			return
		}
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		;;
	celldfs-fleet:*) ;;
	*) _celldfs_names cells ;;
	esac
}

complete -F _celldfs celldfs celldfs-claim celldfs-release celldfs-owner \
	celldfs-fleet celldfs-run celldfs-watch
