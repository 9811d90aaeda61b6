# SPDX-License-Identifier: BSD-2-Clause
"""A base image without a registry: the files of some of this machine's packages, and of what they depend on."""
import io
import os
import pathlib
import re
import subprocess
import tarfile

ALWAYS = ('apt', 'base-files', 'base-passwd', 'bash', 'coreutils', 'dash', 'dpkg', 'findutils', 'grep', 'gzip', 'hostname',
          'libc-bin', 'mawk', 'sed', 'tar', 'util-linux')
TOP = ('bin', 'lib', 'lib32', 'lib64', 'libx32', 'sbin')     # links that belong to no package
FILES = ('/etc/passwd', '/etc/group', '/etc/ld.so.cache')
NOT = ('/usr/share/doc/', '/usr/share/man/', '/usr/share/locale/', '/usr/share/info/')
PLACES = {'dev': 0o755, 'proc': 0o755, 'run': 0o755, 'sys': 0o755, 'tmp': 0o1777, 'root': 0o700, 'var': 0o755, 'var/lib': 0o755,
          'var/lib/apt': 0o755, 'var/lib/apt/lists': 0o755, 'var/lib/dpkg': 0o755, 'var/tmp': 0o1777}
STATUS = '/var/lib/dpkg/status'


def dpkg_query(*args):
    return subprocess.run(['dpkg-query', *args], capture_output=True, text=True, check=True).stdout


def installed():
    """Of each installed package: what it depends on, and who provides a name."""
    depends, provides = {}, {}
    fields = r'${db:Status-Status}\t${binary:Package}\t${Package}\t${Depends}, ${Pre-Depends}\t${Provides}\n'
    for line in dpkg_query('-W', '-f', fields).splitlines():
        status, full, name, needs, names = line.split('\t')
        if status != 'installed':
            continue
        depends[full] = [[re.match(r'[^ (:]*', a.strip())[0] for a in d.split('|')] for d in needs.split(',') if d.strip()]
        for other in [name, *names.split(',')]:
            provides.setdefault(re.match(r'[^ (:]*', other.strip())[0], full)
    return depends, provides


def closure(names):
    depends, provides = installed()
    found, todo = set(), [provides[n] for n in names if n in provides]
    while todo:
        package = todo.pop()
        if package not in found:
            found.add(package)
            for alternatives in depends[package]:
                todo += [provides[a] for a in alternatives if a in provides][:1]
    return found


def status_of(packages):
    """dpkg's database, with those only."""
    wanted = {p.split(':')[0] for p in packages}
    entries = pathlib.Path('/var/lib/dpkg/status').read_text(encoding='utf-8').split('\n\n')
    names = [re.match(r'\s*Package: (\S+)', e) for e in entries]
    return ''.join(e + '\n\n' for e, name in zip(entries, names) if name and name[1] in wanted)


def files_of(packages):
    """Paths, without a link among their directories."""
    listed = {f'/{name}' for name in TOP} | {*FILES}
    for line in dpkg_query('-L', *sorted(packages)).splitlines():
        if line.startswith('/') and not line.startswith(NOT):
            listed.add(line)
    for directory in ('/etc/alternatives', '/etc/apt', '/etc/apt/sources.list.d', '/etc/apt/trusted.gpg.d'):
        listed.update(entry.path for entry in os.scandir(directory))
    for entry in os.scandir('/usr/bin'):
        if entry.is_symlink() and os.readlink(entry.path).startswith('/etc/alternatives/'):
            listed.add(entry.path)
    there = [p for p in listed if os.path.lexists(p) and p != '/.']
    return {os.path.join(os.path.realpath(os.path.dirname(p)), os.path.basename(p)) for p in there}


def make(names, path):
    """A tar file of the packages of names that are installed."""
    packages = closure([*ALWAYS, *names])
    status = status_of(packages).encode()
    files = files_of(packages) | {'/' + place for place in PLACES}
    with tarfile.open(path, 'w') as tar:
        for file in sorted(files - {'/', STATUS}):
            if file.lstrip('/') in PLACES:
                entry = tarfile.TarInfo(file.lstrip('/'))
                entry.type, entry.mode = tarfile.DIRTYPE, PLACES[file.lstrip('/')]
                tar.addfile(entry)
            else:
                tar.add(file, recursive=False)
        entry = tarfile.TarInfo(STATUS.lstrip('/'))
        entry.size = len(status)
        tar.addfile(entry, io.BytesIO(status))


def not_installed(names):
    _, provides = installed()
    return [n for n in names if n not in provides]
