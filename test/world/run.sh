#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# The world's RDMA programs, unmodified, under `rocemu run` (cases_world.py). Options: --help. The build directory must be there.
export PATH=/usr/bin:/bin:/usr/sbin:/sbin:$PATH
exec /usr/bin/python3 -m pytest "$(dirname "$0")" "$@"
