# SPDX-License-Identifier: BSD-2-Clause
"""A network namespace of a test's own: no agent, device, port or setting of the machine's is in its way."""
import ctypes
import fcntl
import os
import socket
import struct
import sys

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40
SKIP = 77


def skip(reason):
    print("skipped: " + reason)
    sys.exit(SKIP)


def namespace():
    """Go into a new one that has lo up, without the caller's settings; skips the test where that is not possible."""
    for name in [n for n in os.environ if n.startswith("ROCEMU_")]:
        del os.environ[name]
    os.environ["ROCEMU_REAL"] = "off"  # this machine's own devices are not used
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) and libc.unshare(CLONE_NEWUSER | CLONE_NEWNET):
        skip("no network namespace can be made here (neither root nor user namespaces)")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP | IFF_RUNNING))
