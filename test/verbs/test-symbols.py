#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compare the drop-in's export table with the system library's, symbol@version by symbol@version, and print
which of them are stubs.

usage: test-symbols.py READELF SYSTEM_LIBRARY OUR_LIBRARY STUBS.c
"""

import ctypes
import errno
import os
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


def providers_have_all_numbers(tool, library, want, have):
    """Calls of providers have no version, and each number of their node is defined; [] or what is wrong."""
    names = {s.partition("@")[0]: what for s, what in want.items() if "@@" + PRIVATE in s}
    if not names:
        return []
    out = subprocess.run([tool, "-W", "-V", library], check=True, capture_output=True, text=True).stdout
    defined = set(re.findall(PRIVATE + r"(\d+)", out.partition("Version needs")[0]))
    bad = ["%s%d is not defined" % (PRIVATE, n) for n in range(14, 100) if str(n) not in defined]
    bad += ["missing, or with a version: " + n for n in sorted(names.keys() - have.keys())]
    bad += ["of another kind or size: " + n for n in sorted(names.keys() & have.keys()) if names[n] != have[n]]
    others = sorted(s for s in have.keys() - names.keys() if "@" not in s and not OF_OTHER_NUMBERS.match(s))
    return bad + ["without a version, and no provider calls it: " + n for n in others]


def dynamic(tool, library):
    return subprocess.run([tool, "-W", "-d", library], check=True, capture_output=True, text=True).stdout


# The node of providers' calls, with the number of their rdma-core's private ABI.
PRIVATE = "IBVERBS_PRIVATE_"
OF_OTHER_NUMBERS = re.compile(r"(verbs_register_driver|ibv_cmd|ibv_dmabuf_heap)_\w+$|ibv_(get_fw_ver|wr_opcode_str|read_ibdev_sysfs_file)$"
                              r"|__verbs_log$")
# What a stub of each kind returns, and as what.
RESULTS = {"ERRNO": (ctypes.c_int, errno.EOPNOTSUPP), "NULL": (ctypes.c_void_p, None), "MINUS_ONE": (ctypes.c_long, -1)}


def stubs_fail_as_they_should(library, stubs):
    """Call every stub that can be called by its name; [] or what was wrong."""
    try:
        lib = ctypes.CDLL(library, use_errno=True)
    except OSError as e:  # a sanitizer's runtime must come first, for instance
        print("skipped calling stubs: %s" % e)
        return []
    bad = []
    for kind, name, versioned in stubs:
        if versioned or kind not in RESULTS:
            continue
        stub = getattr(lib, name)
        stub.restype, result = RESULTS[kind]
        ctypes.set_errno(0)
        if stub() != result or ctypes.get_errno() != errno.EOPNOTSUPP:
            bad.append("%s() does not return %s with EOPNOTSUPP" % (name, result))
    return bad


def main():
    tool, system, ours, stubs = sys.argv[1:]
    want, have = table(tool, system), table(tool, ours)
    # Symbols that rocemu's two libraries need of each other.
    have = {s: what for s, what in have.items() if not s.endswith("@@ROCEMU_PRIVATE")}
    bad = providers_have_all_numbers(tool, ours, want, have)
    if any("@@" + PRIVATE in s for s in want):
        want = {s: what for s, what in want.items() if "@@" + PRIVATE not in s}
        have = {s: what for s, what in have.items() if "@" in s}
    bad += ["missing: " + s for s in sorted(want.keys() - have.keys())]
    bad += ["not in the system's library: " + s for s in sorted(have.keys() - want.keys())]
    bad += ["of another kind or size: " + s for s in sorted(want.keys() & have.keys()) if want[s] != have[s]]
    dyn = dynamic(tool, ours)
    soname = os.path.basename(system) + ".1"
    if "[%s]" % soname not in dyn:
        bad.append("SONAME is not " + soname)
    if "NODELETE" not in dyn:
        bad.append("not linked with -z nodelete")
    with open(stubs) as f:
        lines = re.findall(r"^STUB_(\w+)\((\w+)(?:, \"([^\"]+)\")?", f.read(), re.M)
    bad += stubs_fail_as_they_should(ours, lines)
    print("%d symbols, %d of them not implemented:" % (len(want), len(lines)))
    for kind, name, versioned in lines:
        print("  %s" % (versioned or name))
    for line in bad:
        print("FAIL " + line)
    sys.exit(1 if bad or not want else 0)


main()
