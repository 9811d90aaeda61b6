#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compare the drop-in's export table with the system library's, symbol@version by symbol@version, and print
which of them are stubs.

usage: test-symbols.py READELF SYSTEM_LIBRARY OUR_LIBRARY STUBS.c
"""

import ctypes
import errno
import re
import subprocess
import sys


def table(tool, library):
    """{"name@version": (type, size of data or 0)}; the default version is name@@version."""
    out = subprocess.run([tool, "-W", "--dyn-syms", library], check=True, capture_output=True, text=True).stdout
    symbols = {}
    for line in out.splitlines():
        f = line.split()
        if len(f) < 8 or f[4] not in ("GLOBAL", "WEAK") or f[6] in ("UND", "ABS"):
            continue
        symbols[f[7]] = (f[3], int(f[2], 0) if f[3] == "OBJECT" else 0)
    return symbols


def dynamic(tool, library):
    return subprocess.run([tool, "-W", "-d", library], check=True, capture_output=True, text=True).stdout


def stubs_fail_as_they_should(library):
    """Call one stub of each convention; [] or what was wrong."""
    try:
        lib = ctypes.CDLL(library, use_errno=True)
    except OSError as e:  # a sanitizer's runtime must come first, for instance
        print("skipped calling stubs: %s" % e)
        return []
    bad = []
    if lib.ibv_cmd_attach_mcast(None, None, 0) != errno.EOPNOTSUPP:
        bad.append("ibv_cmd_attach_mcast() does not return EOPNOTSUPP")
    lib.ibv_import_device.restype = ctypes.c_void_p
    ctypes.set_errno(0)
    if lib.ibv_import_device(0) is not None or ctypes.get_errno() != errno.EOPNOTSUPP:
        bad.append("ibv_import_device() does not return NULL with EOPNOTSUPP")
    return bad


def main():
    tool, system, ours, stubs = sys.argv[1:]
    want, have = table(tool, system), table(tool, ours)
    bad = []
    bad += ["missing: " + s for s in sorted(want.keys() - have.keys())]
    bad += ["not in the system's library: " + s for s in sorted(have.keys() - want.keys())]
    bad += ["of another kind or size: " + s for s in sorted(want.keys() & have.keys()) if want[s] != have[s]]
    dyn = dynamic(tool, ours)
    if "[libibverbs.so.1]" not in dyn:
        bad.append("SONAME is not libibverbs.so.1")
    if "NODELETE" not in dyn:
        bad.append("not linked with -z nodelete")
    bad += stubs_fail_as_they_should(ours)
    with open(stubs) as f:
        lines = re.findall(r"^STUB_(\w+)\((\w+)(?:, \"([^\"]+)\")?", f.read(), re.M)
    print("%d symbols, %d of them not implemented:" % (len(want), len(lines)))
    for kind, name, versioned in lines:
        print("  %s" % (versioned or name))
    for line in bad:
        print("FAIL " + line)
    sys.exit(1 if bad or not want else 0)


main()
