#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A build without rsocket, verify and parity: it builds and installs, has no tests of what it leaves out, and reports what
it does not have.

usage: options.py [SOURCE_ROOT]

Takes a minute or two.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

LEFT_OUT = ('rsocket', 'verify', 'parity')
# Those that look at the libraries and programs as they were built, by the suite that they are in.
TESTS = ('tools', 'rdmacm-symbols', 'verbs-symbols', 'objects')
COMMANDS = {'verify': 'verify', 'explain': 'verify', 'parity': 'parity'}


def run(*argv):
    p = subprocess.run([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       text=True, check=False)
    if p.returncode != 0:
        sys.exit(f'{" ".join(str(a) for a in argv)}: exit code {p.returncode}\n{p.stdout[-4000:]}')
    return p.stdout


def introspect(build, what):
    return json.loads(run('meson', 'introspect', what, build))


def check_tests(build):
    tests = introspect(build, '--tests')
    for t in tests:
        words = t['name'].split('-') + [s.split(':')[-1] for s in t['suite']]
        if set(words) & set(LEFT_OUT):
            sys.exit(f'there is a test {t["name"]} of what was left out')
    if not set(TESTS) <= {t['name'] for t in tests}:
        sys.exit('tests that are to be run are not there')


def built(build):
    """What is installed, and what TESTS need, as ninja names it."""
    paths = [p for t in introspect(build, '--targets') if t['installed'] for p in t['filename']]
    for t in introspect(build, '--tests'):
        if t['name'] in TESTS:
            ids = t['depends']
            paths += [p for u in introspect(build, '--targets') if u['id'] in ids for p in u['filename']]
    return sorted({os.path.relpath(p, build) for p in paths})


def check_installed(root):
    files = {str(p.relative_to(root)) for p in root.rglob('*') if not p.is_dir()}
    for name in files:
        if any(part in name for part in ('parity', 'verify', 'explain')):
            sys.exit(f'{name} is installed')
    for command, option in COMMANDS.items():
        p = subprocess.run([root / 'usr/bin/rocemu', command, '--help'], capture_output=True, text=True, check=False)
        if p.returncode != 1 or f'-D{option}=disabled' not in p.stderr or p.stderr.count('\n') != 1 or p.stdout:
            sys.exit(f'rocemu {command}: exit code {p.returncode}, {p.stdout}{p.stderr}')
    run(root / 'usr/bin/rocemu', 'run', '--device', 'dev0=lo', '--', 'true')


def check_rsocket(library):
    """Programs that link to librdmacm.so.1 start; a call of rsocket fails as one that is not implemented."""
    os.environ['LD_LIBRARY_PATH'] = str(library.parent)
    code = ('import ctypes, errno, sys\n'
            f'lib = ctypes.CDLL({str(library)!r}, use_errno=True)\n'
            'sys.exit(0 if lib.rsocket(2, 1, 0) == -1 and ctypes.get_errno() == errno.EOPNOTSUPP else 1)')
    run(sys.executable, '-c', code)


def main():
    source = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]).resolve()
    with tempfile.TemporaryDirectory(prefix='rocemu-options-') as name:
        build, root = pathlib.Path(name) / 'build', pathlib.Path(name) / 'root'
        run('meson', 'setup', build, source, '--prefix=/usr', '-Dwerror=true', '-Dtests=true',
            *(f'-D{part}=disabled' for part in LEFT_OUT))
        check_tests(build)
        run('ninja', '-C', build, *built(build))
        os.environ['DESTDIR'] = str(root)
        run('meson', 'install', '-C', build, '--no-rebuild', '--quiet')
        del os.environ['DESTDIR']
        check_installed(root)
        check_rsocket(next(root.rglob('rocemu/librdmacm.so.1')))
        run('meson', 'test', '-C', build, '--no-rebuild', '--timeout-multiplier', '4', *TESTS)
    print(f'options.py: all is well without {", ".join(LEFT_OUT)}')


if __name__ == '__main__':
    main()
