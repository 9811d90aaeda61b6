#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Fail when the sans-I/O archives use the system, or allocate on the packet path.

usage: symbols.py NM OBJDUMP ARCHIVE...

Undefined symbols of sockets, clocks, the loop, the environment, threads or printing have no place
in wire and transport. Only functions with the names of making, changing and destroying objects may
allocate and free. This is checked by the relocations, so it holds for the compiler's output.
"""
import re
import subprocess
import sys

OUTSIDE = re.compile(
    r"(send|recv)(to|from|msg|mmsg)?$|socket|bind$|connect$|poll$|epoll_|select$|clock_|gettimeofday$|time$|nanosleep$|"
    r"timerfd_|ev_|getenv$|secure_getenv$|setenv$|\w*printf|f?puts$|f?write$|fopen|open$|read$|pthread_|thrd_|"
    r"syslog|random$|rand$|getrandom$|ibv_"
)
HEAP = re.compile(r"(malloc|calloc|realloc|reallocarray|free|aligned_alloc|posix_memalign|strdup|mmap|munmap)$")
# peer_get/_put: a QP's way into and out of RTS. mr_null: makes a region.
MAY_ALLOCATE = re.compile(r"\w+_(new|free|create|destroy|reg|dereg|init|fini|resize|reserve|set_slot|(at|de)tach_mcast|mr_null)$|peer_(get|put)$")


def run(*args):
    return subprocess.run(args, check=True, capture_output=True, text=True).stdout.splitlines()


def plain(symbol):
    """Without offset, version and the suffixes of split functions: calloc-0x4, memcpy@GLIBC_2.14, f.part.0."""
    return re.split(r"[-+@.]", symbol, maxsplit=1)[0] if not symbol.startswith(".") else symbol


def undefined(nm, archive):
    member = "?"
    for line in run(nm, "-u", archive):
        if line.endswith(":"):
            member = line[:-1].rsplit("/", 1)[-1]
        elif line.split():
            yield member, plain(line.split()[-1])


def calls(objdump, archive):
    function = "?"
    for line in run(objdump, "-dr", archive):
        head = re.match(r"[0-9a-f]+ <([^>]+)>:", line)
        if head:
            function = plain(head[1])
            continue
        reloc = re.search(r"\bR_\w+\s+(\S+)", line)
        if reloc:
            yield function, plain(reloc[1])


def main():
    nm, objdump, archives = sys.argv[1], sys.argv[2], sys.argv[3:]
    errors, seen = [], 0
    for archive in archives:
        for member, symbol in undefined(nm, archive):
            if OUTSIDE.match(symbol):
                errors.append(f"{member}: {symbol}() is I/O, time or environment")
        for function, symbol in calls(objdump, archive):
            if HEAP.match(symbol):
                seen += 1
                if not MAY_ALLOCATE.match(function):
                    errors.append(f"{function}(): {symbol}() outside of making and destroying objects")
    for text in sorted(set(errors)):
        print(text, file=sys.stderr)
    print(f"{len(archives)} archives, {seen} heap calls, {len(set(errors))} errors")
    return 1 if errors or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
