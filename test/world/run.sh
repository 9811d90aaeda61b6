#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# The world's RDMA programs, unmodified, under `rocemu run`. Options: --help. The build directory must be there.
export PATH=/usr/bin:/bin:/usr/sbin:/sbin:$PATH
exec /usr/bin/python3 -B "$(dirname "$0")/world.py" "$@"
