#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# rocemu against the kernel's Soft-RoCE in a QEMU guest, over a wire. Options: --help. The build directory must be there.
export PATH=/usr/bin:/bin:/usr/sbin:/sbin:$PATH
exec /usr/bin/python3 "$(dirname "$0")/interop.py" "$@"
