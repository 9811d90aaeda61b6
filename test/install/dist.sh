#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The release tarball: made by `meson dist` from a clone of what is committed, complete, built where there is no repository,
# and its own tests run. --help says how.
set -eu
set -o pipefail
export PATH=/usr/sbin:/sbin:/usr/bin:/bin

usage() {
	cat <<END
usage: test/install/dist.sh [--keep DIR]

Makes the tarball of HEAD, compares its files with the repository's, builds it, and runs the quick tests from it.
Takes some minutes.

  --keep DIR      leave the tarball and its checksum in DIR
  -h, --help      this text

Exit code 0: all is well, 1: something is not, 2: wrong usage.
END
}

say() {
	printf 'dist.sh: %s\n' "$*" >&2
}

die() {
	say "$2"
	exit "$1"
}

# quietly COMMAND...: its output only if it fails.
quietly() {
	"$@" >"$work/log" 2>&1 </dev/null || {
		tail -n 40 "$work/log" >&2
		die 1 "failed: $*"
	}
}

keep=""
while [ $# -gt 0 ]; do
	case $1 in
	--keep)
		[ $# -ge 2 ] || die 2 "--keep needs a directory"
		keep=$2
		shift
		;;
	-h | --help)
		usage
		exit 0
		;;
	*) die 2 "unknown option '$1'; --help lists them" ;;
	esac
	shift
done

top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/rocemu-dist-XXXXXX")
trap 'rm -rf "$work"' EXIT

say "meson dist"
git clone --quiet "$top" "$work/clone"
# A branch or a detached HEAD: what is checked out here.
git -C "$work/clone" checkout --quiet --detach "$(git -C "$top" rev-parse HEAD)"
quietly meson setup "$work/clone/build" "$work/clone" -Dtests=false
quietly meson dist -C "$work/clone/build" --no-tests
tarball=$(echo "$work"/clone/build/meson-dist/rocemu-*.tar.xz)
name=$(basename "$tarball" .tar.xz)
(cd "$(dirname "$tarball")" && quietly sha256sum -c "$name.tar.xz.sha256sum")

say "files"
mkdir "$work/unpacked"
tar xf "$tarball" -C "$work/unpacked"
diff <(git -C "$work/clone" ls-files | sort) <(cd "$work/unpacked/$name" && find . -type f -o -type l | sed 's|^\./||' | sort) >&2 ||
	die 1 "$name has other files than the repository"

say "building, and the quick tests"
# Another repository around it, as packagers have.
git -C "$work/unpacked" init --quiet
git -C "$work/unpacked" -c user.name=x -c user.email=x@localhost commit --quiet --allow-empty -m x
quietly meson setup "$work/build" "$work/unpacked/$name" -Dtests=true -Dwerror=true --prefix=/usr
quietly meson test -C "$work/build" --timeout-multiplier 4 --suite base --suite wire --suite transport --suite example \
	--suite install
quietly ninja -C "$work/build" tools/rocemu
commit=$(git -C "$top" rev-parse HEAD)
says=$("$work/build/tools/rocemu" --version)
[ "$says" = "${name/-/ } (${commit:0:12})" ] || die 1 "rocemu --version says '$says', which is not commit $commit"

if [ -n "$keep" ]; then
	mkdir -p "$keep"
	cp "$tarball" "$tarball.sha256sum" "$keep/"
fi
say "all is well: $name.tar.xz, $(stat -c %s "$tarball") bytes"
