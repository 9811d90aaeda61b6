# SPDX-License-Identifier: BSD-2-Clause
"""Resource limits (setrlimit(2)), one at a time and from tight to loose: both programs of a pair, `rocemu run` and the agent
that they start have the limit. The pair works, or one of them prints a line with the limit. None ends by a signal."""
import re
import signal
import tempfile

from cases_bare import Host
from harness import NORMAL, Case, Failure, expect, new_port, wait_gone

MIB = 1 << 20
USER = 61234    # of these processes alone, which are counted
PAIR_S = 60
LOADER = 'error while loading shared libraries'    # of the dynamic linker, before the program

# prlimit's option: the values, and what the line has.
LIMITS = {
    'as': ([11 * MIB, 13 * MIB, 15 * MIB, 18 * MIB, 24 * MIB, 64 * MIB], r'KiB of address space.*\(ulimit -v\)'),
    'data': ([2 * MIB, 3 * MIB, 4 * MIB, 8 * MIB, 16 * MIB, 64 * MIB], r'KiB of data.*\(ulimit -d\)'),
    'stack': ([48 << 10, 64 << 10, 256 << 10, 100 << 30, 'unlimited'], r'stack .*\(ulimit -s\)'),
    'nproc': ([1, 2, 4, 8, 12, 16, 40], r'this user may have \d+ processes and threads.*\(ulimit -u\)'),
    'nofile': ([16, 32, 64, 256], r'file descriptors.*\(ulimit -n\)'),
    'memlock': ([0], None), 'core': ([0], None), 'rtprio': ([0], None), 'sigpending': ([0], None), 'msgqueue': ([0], None),
    'cpu': ([1], None), 'nice': ([0], None), 'locks': ([0], None),
}


# What the library writes itself: none of it is worth the program's end.
FILES = {
    'nothing': (), 'pcap': ('--pcap', '{}/capture-%p'), 'trace': ('--trace', '{}/trace'),
    'impair-log': ('--impair', 'dup=50%', '--impair-log', '{}/log'), 'wire-shm': ('--wire', 'shm'),
}
# Output goes to files here, which would be limited as well. The exit code is 128 and more for a signal.
LIMITED_FILES = '(prlimit --pid $BASHPID --fsize={}; exec "$@") 2>&1 | cat; exit ${{PIPESTATUS[0]}}'
FILE_LIMIT = r'File too large.*; this process may have \d+ bytes in a file: raise the limit \(ulimit -f\)'
READS_COUNTERS = 'cat /sys/class/infiniband/dev0/ports/1/*counters/* > /dev/null; exec "$@"'


def listens_or_ended(p, port):
    try:
        p.wait_listening(port)
    except Failure:
        expect(not p.running(), 'it hangs', p)


def pair(host, options=(), prefix=()):
    """A pingpong's server and client, ended; the client is not there where the server ended first."""
    port = new_port()
    argv = [*prefix, 'ibv_rc_pingpong', '-g', 0, '-n', 20, '-e', '-p', port]
    server = host.start(argv, 'server', options)
    listens_or_ended(server, port)
    if not server.running():
        return [server]
    client = host.start(argv + ['127.0.0.1'], 'client', options)
    for p in (client, server):
        wait_gone(p, PAIR_S)
        expect(not p.running(), f'{p.name} hangs', server, client)
        if p.popen.returncode:
            server.kill()    # it waits for the client
    return [client, server]


def killed(p):
    """Did it end by a signal that is not ours?"""
    return p.popen.returncode < 0 and p.popen.returncode != -signal.SIGKILL


def limited(name):
    values, said = LIMITS[name]
    become = f'exec setpriv --reuid={USER} --regid={USER} --clear-groups "$@"' if name == 'nproc' else ':'

    def check(config, _lab):
        worked = explained = 0
        for value in values:
            with Host(config, ':', f'prlimit --pid $$ --{name}={value}; {become}') as host:
                procs = pair(host)
                text = ''.join(p.stderr for p in procs)
                expect(not any(map(killed, procs)), f'--{name}={value}: it ended by a signal', *procs)
                if all(p.popen.returncode == 0 for p in procs):
                    worked += 1
                elif LOADER not in text:
                    explained += 1
                    expect(said and re.search(said, text), f'--{name}={value}: no line has the limit', *procs)
        expect(worked, f'no value of {values} works')
        return f'{worked} worked, {explained} said why'
    return check


def file_size(what):
    """The program works, and what it has requested to be written has a message."""
    def check(config, _lab):
        for value in (0, 4096, 100000):
            with tempfile.TemporaryDirectory() as scratch, Host(config, ':', ':') as host:
                host.script = LIMITED_FILES.format(value)
                options = [o.format(scratch) for o in FILES[what]]
                if value == 0 and what == 'trace':
                    # The first bytes are written by rocemu run, which refuses the option.
                    p = host.run(['true'], 'refused', options)
                    expect(p.popen.returncode == 2 and 'File too large' in p.stdout, 'not refused', p)
                    continue
                procs = pair(host, options, ('sh', '-c', READS_COUNTERS, 'sh'))
                expect(all(p.popen.returncode == 0 for p in procs), f'--fsize={value}: it failed', *procs)
                if what in ('pcap', 'impair-log') and value < 4096 or what == 'trace':
                    expect(any(re.search(FILE_LIMIT, p.stdout) for p in procs), f'--fsize={value}: no line has the limit', *procs)
    return check


def cases():
    for name in LIMITS:
        yield Case(f'limits/{name}', limited(name), NORMAL, needs=('ibv_rc_pingpong',))
    for what in FILES:
        yield Case(f'limits/fsize/{what}', file_size(what), NORMAL, needs=('ibv_rc_pingpong',))
