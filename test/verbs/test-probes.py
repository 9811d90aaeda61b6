#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Did the build's probes look at the verbs.h that the library is compiled with?

usage: test-probes.py HEADER_DIR ARGUMENT...

The arguments are the compiler's; each -DHAVE_<NAME> has to agree with what HEADER_DIR/infiniband/verbs.h declares.
pkg-config may name another directory than /usr/include.
"""

import os
import re
import sys

# What each define stands for, where that is not its name in small letters.
DECLARES = {
    "WR_ATOMIC_WRITE": r"\*wr_atomic_write\)",
    "WR_FLUSH": r"\*wr_flush\)",
    "MR_INIT_ATTR_BUF": r"struct ibv_buf \*buf;",
}
NAMES = ("WR_ATOMIC_WRITE", "WR_FLUSH", "MR_INIT_ATTR_BUF", "IBV_QUERY_QP_DATA_IN_ORDER", "IBV_ALLOC_BUF",
         "IBV_EXPORT_BUF_DMABUF_FD", "IBV_REG_MR_EX", "IBV_QUERY_PORT_SPEED", "IBV_WR_OPCODE_STR")


def main():
    with open(os.path.join(sys.argv[1], "infiniband", "verbs.h"), encoding="utf-8") as f:
        header = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    have = {a[len("-DHAVE_"):] for a in sys.argv[2:] if a.startswith("-DHAVE_")}
    bad = ["HAVE_%s: this test does not know it" % n for n in sorted(have - set(NAMES))]
    for name in NAMES:
        there = re.search(DECLARES.get(name, r"\b%s\(" % name.lower()), header) is not None
        if there != (name in have):
            bad.append("HAVE_%s: the header %s it, the build %s" % (
                name, "has" if there else "does not have", "has it" if name in have else "does not"))
    if bad:
        sys.exit("\n".join(bad))


main()
