# SPDX-License-Identifier: BSD-2-Clause
"""Tests with a second user. All that become one do it here, so that each is skipped, with the reason, where there is
none: without root or its capabilities, or below a directory that only its owner may enter."""
import functools
import os
import shutil
import subprocess

NOBODY = 65534


def command(user, *options):
    """A command's first words that make it that user's."""
    return ['setpriv', f'--reuid={user}', f'--regid={user}', '--clear-groups', *options]


@functools.lru_cache(maxsize=None)
def why_not(user, program='/bin/true'):
    """Why a process of this one cannot become that user and run the program; None: it can."""
    if os.geteuid() != 0 or not shutil.which('setpriv'):
        return 'a second user needs root, and setpriv (package util-linux)'
    if subprocess.run(command(user, 'true'), capture_output=True, check=False).returncode:
        return f'root cannot become user {user} here'
    path = shutil.which(program) or program
    if subprocess.run(command(user, 'test', '-x', path), capture_output=True, check=False).returncode:
        return f'user {user} cannot run {path}; build in a directory that other users can enter'
    return None


def become(user):
    """This process becomes that user."""
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
