#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""systemd's files (packaging/): systemd finds nothing wrong with the units, the agent starts by the socket, the user
is made, and running programs' files in /tmp stay. Runs no systemd; skips what needs root.

usage: systemd.py ROCEMU DIRECTORY_OF_UNITS DIRECTORY_OF_CONFIGURATION
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIP = 77
EXPOSURE_MAX = 25    # tenths; 100 is a service without any restriction
UNITS = ('rocemu.service', 'rocemu.socket')


def run(*argv, **kwargs):
    return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=60, check=False, **kwargs)


def expect(ok, what, text=''):
    if not ok:
        sys.exit(f'{what}\n{text}')


def check_units(rocemu, directory, where):
    """The units, with a program that is there."""
    for name in UNITS:
        text = (directory / name).read_text(encoding='utf-8')
        (where / name).write_text(re.sub(r'^ExecStart=\S+', f'ExecStart={rocemu}', text, flags=re.M), encoding='utf-8')
    p = run('systemd-analyze', 'verify', '--man=no', *(str(where / name) for name in UNITS))
    # It prints the error of a line, and exits with 0.
    expect(p.returncode == 0 and not p.stdout, 'systemd-analyze verify:', p.stdout)
    if int(run('systemctl', '--version').stdout.split()[1]) < 250:
        print('skipped: systemd-analyze security, which takes systemd 250')
        return
    p = run('systemd-analyze', 'security', '--offline=true', '--no-pager', f'--threshold={EXPOSURE_MAX}',
            str(where / UNITS[0]))
    expect(p.returncode == 0, 'systemd-analyze security:', p.stdout)


def check_users(config, root):
    target = root / 'usr/lib/sysusers.d'
    target.mkdir(parents=True)
    (root / 'etc').mkdir()
    shutil.copy(config / 'rocemu.sysusers', target / 'rocemu.conf')
    p = run('systemd-sysusers', f'--root={root}')
    expect(p.returncode == 0, 'systemd-sysusers:', p.stdout)
    users = (root / 'etc/passwd').read_text(encoding='utf-8')
    expect(re.search(r'^rocemu:x:\d+:\d+:.*nologin$', users, re.M), 'there is no user rocemu', users)


def check_files(config, root):
    """With an age of 0 everything is old."""
    target = root / 'usr/lib/tmpfiles.d'
    target.mkdir(parents=True)
    shutil.copy(config / 'rocemu.tmpfiles', target / 'rocemu.conf')
    (target / 'tmp.conf').write_text('d /tmp 1777 - - 0\n', encoding='utf-8')
    names = ('rocemu-paths-abcdef', 'rocemu-stat-1000', 'rocemu-other', 'another')
    for name in names:
        (root / 'tmp' / name).mkdir(parents=True)
        (root / 'tmp' / name / 'file').touch()
    p = run('systemd-tmpfiles', '--clean', f'--root={root}')
    expect(p.returncode == 0, 'systemd-tmpfiles:', p.stdout)
    left = sorted(os.listdir(root / 'tmp'))
    expect(left == ['rocemu-paths-abcdef', 'rocemu-stat-1000'], f'systemd-tmpfiles left {left}')
    expect((root / 'tmp/rocemu-paths-abcdef/file').exists(), 'systemd-tmpfiles removed a file in use')


def check_activation(rocemu, directory):
    """By the name in the unit, in a network namespace of its own, so that no agent of the machine is met."""
    name = re.search(r'^ListenSequentialPacket=(.*)$', (directory / UNITS[1]).read_text(encoding='utf-8'), re.M)[1]
    script = '''
        ip link set lo up
        systemd-socket-activate --seqpacket -l "$2" -- "$1" agent --system --foreground --idle-timeout 0.05 &
        # Until it listens.
        until grep -qF "$2" /proc/net/unix; do kill -0 $!; sleep 0.01; done
        "$1" agent --status --system
        wait $!
    '''
    env = {k: v for k, v in os.environ.items() if not k.startswith('ROCEMU_AGENT')}
    p = run('unshare', '--net', '--pid', '--fork', '--kill-child', 'sh', '-euc', script, 'sh', rocemu, name, env=env)
    expect(p.returncode == 0 and '(system-wide)' in p.stdout, 'systemd-socket-activate:', p.stdout)


def main():
    rocemu, directory, config = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    if not shutil.which('systemd-analyze'):
        print('skipped: systemd is not installed')
        return SKIP
    with tempfile.TemporaryDirectory(prefix='rocemu-systemd-') as name:
        where = pathlib.Path(name)
        for part in ('units', 'users', 'files'):
            (where / part).mkdir()
        check_units(rocemu, directory, where / 'units')
        check_users(config, where / 'users')
        check_files(config, where / 'files')
    if os.geteuid() != 0:
        print('skipped: the start by the socket, which needs root')
    else:
        check_activation(rocemu, directory)
    return 0


if __name__ == '__main__':
    sys.exit(main())
