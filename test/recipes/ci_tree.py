# SPDX-License-Identifier: BSD-2-Clause
"""What the tests of recipes share: the build installed into a directory, and an ordinary user to run as."""
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'lib'))

from netns import SKIP, skip  # noqa: E402,F401 # pylint: disable=wrong-import-position,unused-import

USER_ID = 54791     # nobody's


def install(meson, build, prefix, work):
    """The build as an installed tree, which others may read. @return its prefix."""
    subprocess.run([meson, 'install', '-C', build, '--no-rebuild', '--quiet', '--destdir', work / 'staging'],
                   check=True, stdout=subprocess.DEVNULL)
    shutil.move(work / 'staging' / prefix.lstrip('/'), work / 'rocemu')
    return work / 'rocemu'


def as_user():
    """A command's first words that make it an ordinary user's."""
    if os.geteuid() != 0:
        return []
    return ['setpriv', f'--reuid={USER_ID}', f'--regid={USER_ID}', '--clear-groups', '--inh-caps=-all', '--no-new-privs']


def environment(home, prefix):
    """Of a job: nothing of the caller's."""
    return {'HOME': str(home), 'LANG': 'C.UTF-8', 'ROCEMU_REAL': 'off',
            'PATH': f'{prefix}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin'}


def blocks(page, language):
    """The fenced blocks of a page of docs."""
    return [part.split('```')[0] for part in page.read_text(encoding='utf-8').split(f'```{language}\n')[1:]]
