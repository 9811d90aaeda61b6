# SPDX-License-Identifier: BSD-2-Clause
"""The short runs of test/soak: data compared byte by byte over a bad network, and processes killed and stopped."""
import os
import sys

from harness import NORMAL, Case

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'soak'))
import signals  # pylint: disable=wrong-import-position
import soak     # pylint: disable=wrong-import-position

SECONDS = 30
ROUNDS = 8
PATIENCE = 18                         # the QPs' timeout: a busy machine lets a process wait


def lossy(config, lab):
    result = soak.soak(config, lab.get('lo').server, SECONDS, timeout=PATIENCE)
    return f'{sum(r["bytes"] for r in result) / 1e9:.2f} GB compared'


def killed_and_stopped(config, lab):
    result = signals.signals(config, lab.get('lo').server, ROUNDS)
    return f'{ROUNDS} rounds, {result["memory_kib"][1]} KiB'


def cases():
    return [Case('soak/lossy', lossy, NORMAL),
            Case('soak/signals', killed_and_stopped, NORMAL)]
