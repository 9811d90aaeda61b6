#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""test-train.py TRAIN: train.py refuses a directory that there is not. What it builds, test/install/debian.sh tries."""
import subprocess
import sys

MISSING = 'no-such-directory'

p = subprocess.run([sys.executable, sys.argv[1], '--build', MISSING], capture_output=True, text=True, check=False)
assert p.returncode == 2, p
assert 'Traceback' not in p.stderr and MISSING in p.stderr and 'meson' in p.stderr, p.stderr
