#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Install into a directory of our own and build the example against what is there, with pkg-config alone: shared, then
# static. librocemu.sh MESON BUILD_DIR PREFIX LIBDIR EXAMPLE.c WORK_DIR CC...
set -eu
meson=$1 build=$2 prefix=$3 libdir=$4 example=$5 work=$6
shift 6

fail()
{
	echo "librocemu.sh: $*" >&2
	exit 1
}

rm -rf "$work"
mkdir -p "$work"
DESTDIR=$work/dest "$meson" install -C "$build" --no-rebuild --quiet >"$work/install.log" 2>&1 ||
	fail "meson install failed, see $work/install.log"
root=$work/dest$prefix
export PKG_CONFIG_PATH="$root/$libdir/pkgconfig"

# The files were moved from where they say they are: tell pkg-config.
config()
{
	pkg-config --define-variable=prefix="$root" "$@" rocemu
}

for file in include/rocemu/wire.h include/rocemu/opcodes.h include/rocemu/objects.h include/rocemu/endpoint.h include/rocemu/report.h include/rocemu/mad.h \
	include/rocemu/cm.h "$libdir/librocemu.so" "$libdir/librocemu.a"; do
	[ -e "$root/$file" ] || fail "$file is not installed"
done
[ "$(config --modversion)" ] || fail "pkg-config does not know rocemu"

# shellcheck disable=SC2046 # flags are words
"$@" -std=gnu11 "$example" -o "$work/shared" $(config --cflags --libs)
LD_LIBRARY_PATH=$root/$libdir "$work/shared" >"$work/shared.out"
objdump -p "$work/shared" | grep -q 'NEEDED.*librocemu\.so\.0' || fail "the example is not linked with librocemu.so.0"
objdump -p "$work/shared" | grep -q 'NEEDED.*libibverbs' && fail "librocemu pulls in libibverbs"

# shellcheck disable=SC2046
"$@" -std=gnu11 "$example" -o "$work/static" $(config --cflags) "$root/$libdir/librocemu.a" $(pkg-config --libs libisal)
objdump -p "$work/static" | grep -q 'NEEDED.*librocemu' && fail "the static example needs librocemu.so"
"$work/static" >"$work/static.out"
cmp "$work/shared.out" "$work/static.out"
cat "$work/static.out"
