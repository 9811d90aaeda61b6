#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Make a C source with a file's bytes and a zero behind them. Lines "@include NAME@" stand for the file of that name beside
it. usage: embed.py NAME INPUT OUTPUT"""
import os
import re
import sys

name, source, target = sys.argv[1:]


def read(path):
    with open(path, encoding='utf-8') as f:
        return f.read()


text = re.sub(r'^@include (\S+)@\n', lambda m: read(os.path.join(os.path.dirname(source), m[1])), read(source), flags=re.M)
data = text.encode()
with open(target, 'w', encoding='ascii') as f:
    f.write(f'extern const unsigned char {name}[];\nconst unsigned char {name}[] = {{\n')
    for at in range(0, len(data), 24):
        f.write('\t' + ', '.join(str(b) for b in data[at:at + 24]) + ',\n')
    f.write('\t0};\n')
