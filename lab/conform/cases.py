#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Make a C source of files. usage: cases.py OUTPUT ARRAY FILE..."""
import os
import sys

with open(sys.argv[1], 'w', encoding='ascii') as out:
    out.write('#include "conform/cases.h"\n')
    names = []
    for path in sys.argv[3:]:
        names.append(os.path.basename(path))
        with open(path, 'rb') as f:
            data = f.read() + b'\0'
        out.write(f'static const unsigned char file_{len(names)}[] = {{\n')
        for at in range(0, len(data), 24):
            out.write('\t' + ', '.join(str(b) for b in data[at:at + 24]) + ',\n')
        out.write('};\n')
    out.write(f'const struct conform_file {sys.argv[2]}[] = {{\n')
    for i, name in enumerate(names, 1):
        out.write(f'\t{{"{name}", file_{i}}},\n')
    out.write('\t{0},\n};\n')
