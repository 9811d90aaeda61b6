# SPDX-License-Identifier: BSD-2-Clause
"""What the tests of recipes share: the build installed into a directory, and an ordinary user to run as."""
import fnmatch
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'lib'))

import commands  # noqa: E402,F401 # pylint: disable=wrong-import-position,unused-import
import netns  # noqa: E402 # pylint: disable=wrong-import-position
import users  # noqa: E402 # pylint: disable=wrong-import-position
from netns import skip  # noqa: E402 # pylint: disable=wrong-import-position

USER_ID = 54791     # of no user


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
    return users.command(USER_ID, '--inh-caps=-all', '--no-new-privs')


def environment(home, prefix):
    """Of a job: nothing of the caller's."""
    return {'HOME': str(home), 'LANG': 'C.UTF-8', 'ROCEMU_REAL': 'off',
            'PATH': f'{prefix}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin'}


def blocks(page, language):
    """The fenced blocks of a page of docs."""
    return [part.split('```')[0] for part in page.read_text(encoding='utf-8').split(f'```{language}\n')[1:]]


def need(programs):
    """Skips the test without them, or where users cannot have namespaces. Root gets a network namespace to begin with."""
    for program in programs:
        if not shutil.which(program):
            skip(f'{program} is not installed')
    if os.geteuid() == 0:
        netns.namespace()
    p = subprocess.run([*as_user(), 'unshare', '-Urn', 'ip', 'link', 'add', 'x', 'type', 'bridge'],
                       capture_output=True, text=True, check=False)
    if p.returncode:
        skip('an ordinary user cannot make a network here: ' + p.stderr.strip())


def run_cases(names, programs):
    """The functions with "__" in their name, in an ordinary user's home with rocemu in PATH. @return an exit code.

    The test is called with MESON BUILD_DIR PREFIX [PATTERN]...
    """
    meson, build, prefix, *patterns = sys.argv[1:]
    need(programs)
    failed = 0
    with tempfile.TemporaryDirectory(prefix='rocemu-recipe-') as directory:
        work = pathlib.Path(directory)
        work.chmod(0o755)
        home = work / 'home'
        home.mkdir()
        if os.geteuid() == 0:
            os.chown(home, USER_ID, USER_ID)
        tree = install(meson, build, prefix, work)
        why_not = users.why_not(USER_ID, str(tree / 'bin/rocemu')) if os.geteuid() == 0 else None
        if why_not:
            skip(why_not)
        os.environ.clear()
        os.environ.update(environment(home, tree))
        os.chdir(home)
        for name, function in list(names.items()):
            if '__' not in name.strip('_') or not callable(function) or (
                    patterns and not any(fnmatch.fnmatch(name, p) for p in patterns)):
                continue
            try:
                function()
            except (AssertionError, subprocess.TimeoutExpired) as e:
                print(f'FAIL {name}: {e}', flush=True)
                failed += 1
            else:
                print(f'ok {name}', flush=True)
        os.chdir('/')
    return 1 if failed else 0
