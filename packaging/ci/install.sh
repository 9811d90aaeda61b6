#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Installs rocemu for a job of a CI system: packages by root or sudo, the rest as the caller. --help says how.
set -eu

usage() {
	cat <<'END'
usage: packaging/ci/install.sh --prefix DIR [PACKAGE]...

Installs the packages that building rocemu takes and each PACKAGE (Debian, Ubuntu; as root or with
sudo; only what is missing), builds rocemu and installs it into DIR, which needs no privileges.
DIR/bin/rocemu is the command. What is in DIR already is kept as it is, so that a job may cache DIR.
END
}

die() {
	printf 'install.sh: %s\n' "$*" >&2
	exit 2
}

prefix=""
while [ $# -gt 0 ]; do
	case $1 in
	--prefix)
		[ $# -ge 2 ] || die "--prefix needs a directory"
		prefix=$2
		shift 2
		;;
	-h | --help)
		usage
		exit 0
		;;
	-*) die "unknown option '$1'; --help lists them" ;;
	*) break ;;
	esac
done
[ -n "$prefix" ] || die "--prefix is missing; see --help"
case $prefix in
/*) ;;
*) prefix=$PWD/$prefix ;;
esac

top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tools/packages.sh
. "$top/tools/packages.sh"
PACKAGES_QUICKSTART="iproute2 $*"
packages_need build quickstart || exit 1

if [ -x "$prefix/bin/rocemu" ]; then
	"$prefix/bin/rocemu" --version
	exit 0
fi
build=$(mktemp -d "${TMPDIR:-/tmp}/rocemu-build-XXXXXX")
trap 'rm -rf "$build"' EXIT
# The distribution's meson and python3, whatever else is first in PATH.
PATH=/usr/bin:$PATH
if ! { meson setup "$build" "$top" --prefix "$prefix" -Dtests=false && ninja -C "$build" &&
	meson install -C "$build" --no-rebuild; } >"$build.log" 2>&1; then
	tail -n 40 "$build.log" >&2
	printf 'install.sh: the build failed; all of its output: %s\n' "$build.log" >&2
	exit 1
fi
rm -f "$build.log"
"$prefix/bin/rocemu" --version
