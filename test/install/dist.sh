#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The release tarball: made by `meson dist` from a clone of what is committed, complete, built where
# there is no repository, and its own tests run. --help says how.
usage="[--keep DIR]

Makes the tarball of HEAD, compares its files with the repository's, builds it, and runs the quick
tests from it. Takes some minutes.

  --keep DIR      leave the tarball and its checksum in DIR"
# shellcheck source=test/install/common.sh
. "$(dirname "$0")/common.sh"
keep=""
options "keep=" "$@"
make_work

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

keep_files "$tarball" "$tarball.sha256sum"
say "all is well: $name.tar.xz, $(stat -c %s "$tarball") bytes"
