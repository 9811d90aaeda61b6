#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# localize.sh IN.a OUT.a OBJCOPY AR CC...: link an archive's objects into one and hide what is not public.
set -eu
in=$1 out=$2 objcopy=$3 ar=$4
shift 4
obj=$out.o
"$@" -r -nostdlib -Wl,--whole-archive "$in" -Wl,--no-whole-archive -o "$obj"
"$objcopy" --localize-hidden "$obj"
rm -f "$out"
"$ar" rcs "$out" "$obj"
rm -f "$obj"
