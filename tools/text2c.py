#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""usage: text2c.py IN OUT NAME: a text file as a C string of that name."""
import sys

with open(sys.argv[1], encoding="ascii") as f, open(sys.argv[2], "w", encoding="ascii") as out:
    out.write("extern const char %s[];\nconst char %s[] =\n" % (sys.argv[3], sys.argv[3]))
    for line in f:
        out.write('\t"%s\\n"\n' % line.rstrip("\n").replace("\\", "\\\\").replace('"', '\\"'))
    out.write('\t"";\n')
