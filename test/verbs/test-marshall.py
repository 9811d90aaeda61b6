#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The copying functions of the kernel's structures do to any bytes what the system library's do.

usage: test-marshall.py OUR_LIBRARY SYSTEM_LIBRARY
"""

import ctypes
import random
import sys

FUNCTIONS = (
    "ibv_copy_ah_attr_from_kern",
    "ibv_copy_qp_attr_from_kern",
    "ibv_copy_path_rec_from_kern",
    "ibv_copy_path_rec_to_kern",
)
SIZE = 512  # more than any of the structures
ROUNDS = 200


def main():
    try:
        ours, system = (ctypes.CDLL(path) for path in sys.argv[1:])
    except OSError as e:  # a sanitizer's runtime must come first, for instance
        print("skipped: %s" % e)
        sys.exit(77)
    rng = random.Random(1)
    for name in FUNCTIONS:
        for i in range(ROUNDS):
            source, before = rng.randbytes(SIZE), rng.randbytes(SIZE)
            results = []
            for library in (ours, system):
                to = ctypes.create_string_buffer(before, SIZE)
                getattr(library, name)(to, ctypes.create_string_buffer(source, SIZE))
                results.append(to.raw)
            if results[0] != results[1] or results[0] == before:
                at = [k for k in range(SIZE) if results[0][k] != results[1][k]]
                sys.exit("FAIL %s, round %d: bytes %s differ" % (name, i, at))
        print("ok   " + name)


main()
