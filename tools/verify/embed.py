#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Make a C source with a file's bytes and a zero behind them. usage: embed.py NAME INPUT OUTPUT"""
import sys

name, source, target = sys.argv[1:]
with open(source, 'rb') as f:
    data = f.read()
with open(target, 'w', encoding='ascii') as f:
    f.write(f'extern const unsigned char {name}[];\nconst unsigned char {name}[] = {{\n')
    for at in range(0, len(data), 24):
        f.write('\t' + ', '.join(str(b) for b in data[at:at + 24]) + ',\n')
    f.write('\t0};\n')
