#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Are the packets in docs/connections.md what `rocemu decode` prints of the captures that it names?

usage: check-docs.py ROCEMU GOLDEN_DIR DOCUMENT

A block that begins with ```decode NAME shows packets of NAME.pcap, lines broken at will.
"""
import pathlib
import re
import subprocess
import sys


def decoded(rocemu, capture):
    out = subprocess.run([rocemu, "decode", capture], check=True, capture_output=True, text=True).stdout
    return {line.split()[0]: " ".join(line.split()) for line in out.splitlines()}


def shown(block):
    """The packets of a block, each as one line: those whose first line is not indented."""
    packets = []
    for line in block.splitlines():
        if line.startswith(" "):
            packets[-1] += " " + line
        else:
            packets.append(line)
    return [" ".join(p.split()) for p in packets]


def main():
    rocemu, golden, document = sys.argv[1:]
    text = pathlib.Path(document).read_text(encoding="utf-8")
    errors = count = 0
    for name, block in re.findall(r"^```decode (\w+)\n(.*?)^```", text, re.M | re.S):
        real = decoded(rocemu, f"{golden}/{name}.pcap")
        for packet in shown(block):
            count += 1
            if packet != real.get(packet.split()[0]):
                errors += 1
                print(f"{name}: the document has\n  {packet}\ndecode prints\n  {real.get(packet.split()[0])}", file=sys.stderr)
    print(f"{count} packets, {errors} of them otherwise")
    return 1 if errors or not count else 0


if __name__ == "__main__":
    sys.exit(main())
