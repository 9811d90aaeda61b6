# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# To be sourced by the scripts beside it, after they have set usage: what follows the script's name
# in --help. Ends the script at the first command that fails.
set -eu
# So grep has no -q in a pipe: it would leave early, and the program before it would fail.
set -o pipefail
export PATH=/usr/sbin:/sbin:/usr/bin:/bin
script=$(basename "$0")
top=$(cd "$(dirname "$0")/../.." && pwd)

say() {
	printf '%s: %s\n' "$script" "$*" >&2
}

# die CODE TEXT
die() {
	say "$2"
	exit "$1"
}

help() {
	cat <<END
usage: test/install/$script $usage
  -h, --help      this text

Exit code 0: all is well, 1: something is not, 2: wrong usage, 77: it cannot be tried here.
END
	exit 0
}

# options NAMES ARGUMENT...: sets a variable for each option, its value if it is NAME=, else 1.
options() {
	local known=" $1 " name
	shift
	while [ $# -gt 0 ]; do
		name=${1#--}
		case "$1 $known" in
		"-h "* | "--help "*) help ;;
		"--$name "*" $name= "*)
			[ $# -ge 2 ] || die 2 "$1 needs a directory"
			printf -v "${name//-/_}" %s "$2"
			shift
			;;
		"--$name "*" $name "*) printf -v "${name//-/_}" 1 ;;
		*) die 2 "unknown option '$1'; --help lists them" ;;
		esac
		shift
	done
}

# Sets work: a directory that goes with the script.
make_work() {
	work=$(mktemp -d "${TMPDIR:-/tmp}/rocemu-${script%.sh}-XXXXXX")
	trap 'rm -rf "$work"' EXIT
}

# quietly COMMAND...: its output only if it fails, which ends the script.
quietly() {
	local text="$*"
	"$@" >"$work/log" 2>&1 </dev/null || {
		tail -n 40 "$work/log" >&2
		die 1 "failed: ${text%%$'\n'*}"
	}
}

# keep_files FILE...: copied to the directory of option --keep.
keep_files() {
	[ -z "$keep" ] || mkdir -p "$keep"
	[ -z "$keep" ] || cp "$@" "$keep/"
}
