# SPDX-License-Identifier: BSD-2-Clause
"""What the product's processes have that other users of the machine can see: names, ports and files. All of it is in the
table of docs/security.md, with the owner and the mode that are written there, and nothing in the table is missing."""
import ipaddress
import json
import os
import re
import stat
import subprocess
import sys
import time

from doctable import read, rows
from harness import HANG_GUARD_S, NOBODY, NORMAL, POLL_S, Case, Config, Failure, Skip, Topology, may_make_netns, need_user, users

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(TOP, 'docs', 'security.md')
OUT = '/tmp/out'
# With namespaces of its own, this file is the program that starts all and prints what there is.
NAMESPACES = ['unshare', '--mount', '--net', '--pid', '--fork', '--kill-child', '--mount-proc', '--propagation', 'private']
FRESH = ('/tmp', '/dev/shm', '/run')
USERSOCK, ACCEPTCON = 2, 0x10000
SERVER = 'tcp any:7001'    # the test program's own


# ---- the processes -----------------------------------------------------------------------------------------

class Scene:
    """One of each kind, of a user with umask 0; with the user's own agent or a system-wide one."""

    def __init__(self, config, system):
        self.config, self.procs = config, []
        for path in FRESH:
            subprocess.run(['mount', '-t', 'tmpfs', '-o', 'mode=1777', 'none', path], check=True)
        subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)
        os.mkdir(OUT)
        os.chown(OUT, NOBODY, NOBODY)
        os.umask(0)
        if system:
            self.start([os.path.join(config.build, 'src', 'agent', 'rocemu-agent'), '--foreground', '--system'], user=0)
            self.wait(lambda: any(name.startswith('@rocemu-agent') and listens for _, name, listens in unix_sockets()), 'agent')
        peers = [config.program('prog', 'wire-peers'), '--port', '7001', '--device', 'dev0', '--gid-index', '0']
        self.run('--wire', 'shm', '--pcap', f'{OUT}/%p.pcap', '--trace', f'{OUT}/trace', '--impair', 'drop opcode=RC_ACK nth=3',
                 '--impair-log', f'{OUT}/impaired', '--', *peers)
        self.wait(lambda: SERVER in listening(), 'server')
        self.run('--wire', 'shm', '--', *peers, '--name', 'x', '127.0.0.1')
        self.run('--mount-paths', '--', 'sleep', '1000')
        self.run('--', 'rping', '-s', '-p', '7002')
        self.wait(lambda: re.search(r'^listeners: 1', self.status(), re.M), 'listener')
        self.run('--', 'rping', '-c', '-a', '127.0.0.1', '-p', '7002', '-C', '1000000000')
        self.start([config.rocemu, 'stat', '--prometheus', '7003'])
        self.start([config.rocemu, 'hosts', '--', 'sh', '-c', 'echo >> /tmp/out/hosts; exec sleep 1000'])
        self.wait(lambda: 'tcp 127.0.0.1:7003' in listening() and os.path.exists(f'{OUT}/hosts'), 'stat and hosts')
        self.wait(lambda: any('rocemu-ring' in name for name, *_ in found()), 'rings')
        self.wait(lambda: any(':554' in name for name, *_ in found()), 'connection management')
        os.unlink(f'{OUT}/hosts')

    def start(self, argv, user=NOBODY):
        self.procs.append(subprocess.Popen([*users.command(user), *argv], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                           stderr=sys.stderr))

    def run(self, *options):
        self.start([self.config.rocemu, 'run', '--device', 'dev0=lo', *options])

    def status(self):
        return subprocess.run([*users.command(NOBODY), self.config.rocemu, 'agent', '--status'], capture_output=True, text=True,
                              check=False).stdout

    def wait(self, condition, what):
        end = time.monotonic() + HANG_GUARD_S / 2
        while not condition():
            if time.monotonic() > end or any(p.poll() is not None for p in self.procs):
                sys.exit(f'no {what}: {[(p.args, p.poll()) for p in self.procs]}')
            time.sleep(POLL_S)


# ---- what they have ----------------------------------------------------------------------------------------

def address(text):
    """As in /proc/net: in words of the host's byte order."""
    words, port = text.split(':')
    raw = b''.join(int(words[i:i + 8], 16).to_bytes(4, sys.byteorder) for i in range(0, len(words), 8))
    return f'{ipaddress.ip_address(raw) if any(raw) else "any"}:{int(port, 16)}'


def table(name):
    with open(f'/proc/net/{name}', encoding='ascii', errors='replace') as f:
        return [line.split() for line in f.readlines()[1:]]


def listening():
    return [f'tcp {address(row[1])}' for row in table('tcp') if row[3] == '0A']


def unix_sockets():
    """inode, name, whether it listens"""
    return [(row[6], row[7] if len(row) > 7 else '', int(row[3], 16) & ACCEPTCON) for row in table('unix')]


def sockets():
    """inode: its name; those that have none are left out."""
    named = {inode: f'unix {name}' for inode, name, _ in unix_sockets() if name.startswith('@')}
    for kind in ('udp', 'tcp'):
        for row in table(kind) + table(kind + '6'):
            name = f'{kind} {address(row[1])}'
            if name != SERVER and (kind == 'udp' or row[3] == '0A'):
                named[row[9]] = name
    named.update({row[9]: f'netlink {row[1]}' for row in table('netlink') if int(row[1]) == USERSOCK})
    named.update({row[8]: 'packet' for row in table('packet')})
    return named


def of_process(pid, named):
    """Named sockets and files in memory that a process has."""
    owner = os.stat(f'/proc/{pid}').st_uid
    for fd in os.listdir(f'/proc/{pid}/fd'):
        to = os.readlink(f'/proc/{pid}/fd/{fd}')
        name = named.get(to[8:-1]) if to.startswith('socket:[') else to.removesuffix(' (deleted)') if to.startswith('/memfd:') else None
        if name:
            yield name, owner, None
    with open(f'/proc/{pid}/maps', encoding='utf-8') as f:
        yield from ((name, owner, None) for name in re.findall(r'(/memfd:\S+)', f.read()))


def found():
    """(name, owner, mode) of all; no mode: a socket or a file without a name."""
    named, all_of_them = sockets(), set()
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            if int(pid) != os.getpid():
                all_of_them.update(of_process(pid, named))
        except (FileNotFoundError, ProcessLookupError):    # it has ended
            pass
    for place in FRESH:
        for directory, names, files in os.walk(place):
            for path in (os.path.join(directory, name) for name in names + files):
                try:
                    st = os.lstat(path)
                except FileNotFoundError:
                    continue
                if path != OUT and not stat.S_ISLNK(st.st_mode):
                    all_of_them.add((path, st.st_uid, st.st_mode & 0o7777))
    return all_of_them


# ---- the table ---------------------------------------------------------------------------------------------

def pattern(name):
    """A name of the table as a regular expression: words in capitals stand for a part of a name, * for several."""
    text = re.escape(name.replace('OUT', OUT)).replace('\\*', '.*')
    for word, meaning in (('NUMBER|UID|PID', '[0-9]+'), ('ADDRESS', '[0-9a-f.:]+'), ('NAME|DEVICE', '[^/]+'),
                          (r'\d+\\-\d+', '(?P<port>[0-9]+)')):
        text = re.sub(word, lambda _, meaning=meaning: meaning, text)
    return text


class Row:
    def __init__(self, names, owner, mode):
        self.names, self.owner, self.mode, self.seen = re.findall(r'`([^`]+)`', names), owner, mode, set()

    def matches(self, name):
        """The name of the row that it has."""
        for own in self.names:
            m = re.fullmatch(pattern(own), name)
            ports = re.search(r'(\d+)-(\d+)', own)
            if m and (not ports or int(ports[1]) <= int(m['port']) <= int(ports[2])):
                return own
        return None

    def check(self, name, owner, mode, system):
        agent = 0 if system else NOBODY
        owners = {'user': {NOBODY}, 'agent': {agent}, 'user, agent': {NOBODY, agent}}[self.owner]
        if owner not in owners:
            raise Failure(f'{name} belongs to user {owner}, not to {self.owner}')
        if mode is not None and f'{mode:04o}' not in self.mode.split(', '):
            raise Failure(f'{name} has mode {mode:04o}, not {self.mode}')


def row_of(name, table_rows):
    """The row with that name, or else the row with many names of which it is one."""
    its = [(row, own) for row in table_rows for own in [row.matches(name)] if own]
    its = [(row, own) for row, own in its if not re.search(r'\*|\d-\d', own)] or its
    if len(its) != 1:
        raise Failure(f'{name} is in {len(its)} rows of the table in {PAGE}')
    row, own = its[0]
    row.seen.add(own)
    return row


def walk(config, _lab):
    """A user's processes, with each kind of agent."""
    why_not = may_make_netns()
    if why_not:
        raise Skip(why_not)
    need_user(NOBODY, config.rocemu)
    table_rows = [Row(cells[0], *cells[2:4]) for cells in rows(read(PAGE, 'names'))]
    n = 0
    for system in (False, True):
        p = subprocess.run([*NAMESPACES, sys.executable, __file__, config.build, *(['system'] if system else [])], capture_output=True,
                           text=True, timeout=HANG_GUARD_S, check=False)
        if p.returncode:
            raise Failure(p.stdout + p.stderr)
        for name, owner, mode in json.loads(p.stdout):
            row_of(name, table_rows).check(name, owner, mode, system)
            n += 1
    unseen = [name for row in table_rows for name in row.names if name not in row.seen]
    if unseen:
        raise Failure(f'{PAGE}: nothing has these names: {unseen}')
    return f'{n} names'


def cases():
    yield Case('names/walk', walk, NORMAL, needs=('rping', 'unshare'))


if __name__ == '__main__':
    Scene(Config(sys.argv[1]), sys.argv[2:] == ['system'])
    print(json.dumps(sorted(found(), key=str)))
