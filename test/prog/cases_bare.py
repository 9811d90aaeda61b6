# SPDX-License-Identifier: BSD-2-Clause
"""Hosts that lack what others have: /proc, /sys, places to write to, a home, descriptors. Each case has network and mount
namespaces of its own, so that the agent lacks it as well."""
import json
import os
import subprocess

from cases_cm import PORT_SPACE
from harness import NORMAL, Case, Proc, Side, Skip, expect, may_make_netns, new_port, rocemu_argv, sanitizer_env, wait_gone

SIDE = Side('dev0=lo', '127.0.0.1')
HIDDEN = ('/tmp', '/dev/shm', '/run')
READ_ONLY = '; '.join(f'mount -t tmpfs -o ro none {place}' for place in HIDDEN)
HOMELESS = 'unset HOME XDG_RUNTIME_DIR TMPDIR'

# How the namespaces are prepared, and what each process does first.
PLACES = {
    'no-proc': ('mount -t tmpfs none /proc', ':'),
    'no-sys': ('mount -t tmpfs none /sys', ':'),
    'read-only': (READ_ONLY, ':'),
    'no-home': (':', HOMELESS),
    'descriptors': (':', 'ulimit -n 64'),
    'all': (f'{READ_ONLY}; mount -t tmpfs none /sys; mount -t tmpfs none /proc', f'{HOMELESS}; ulimit -n 64'),
}


class Host:
    """Namespaces, as long as the process that holds them."""

    def __init__(self, config, prepare, first):
        reason = may_make_netns()
        if reason:
            raise Skip(reason)
        for place in HIDDEN:
            if READ_ONLY in prepare and os.path.realpath(config.build).startswith(place + '/'):
                raise Skip(f'the build is below {place}, which this case hides')
        self.config = config
        self.script = f'{first}; exec "$@"'
        self.procs = []
        # "cat" ends with its standard input, which the namespaces' holder has to itself.
        self.holder = subprocess.Popen(
            ['unshare', '-mn', '--propagation', 'private', 'sh', '-ec', f'ip link set lo up; {prepare}; echo ready; exec cat'],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.ready = self.holder.stdout.readline() == b'ready\n'

    def __enter__(self):
        expect(self.ready, 'the namespaces could not be made')
        return self

    def __exit__(self, *_):
        for p in self.procs:
            if p.running():
                p.kill()
        self.holder.stdin.close()
        self.holder.stdout.close()
        self.holder.wait()

    def inside(self, argv):
        return ['nsenter', '-t', self.holder.pid, '-m', '-n', *argv]

    def start(self, argv, name, options=()):
        command = ['bash', '-c', self.script, 'sh', *rocemu_argv(self.config, SIDE, argv, options)]
        p = Proc(self.inside(command), env=sanitizer_env(self.config), name=name)
        self.procs.append(p)
        return p

    def run(self, argv, name, options=()):
        p = self.start(argv, name, options)
        p.wait()
        return p

    def is_listened(self, port):
        status = subprocess.run([str(a) for a in self.inside([self.config.rocemu, 'agent', '--status', '--json'])],
                                capture_output=True, text=True, check=False)
        service = f'0x{PORT_SPACE["tcp"] << 16 | port:016x}'
        return status.returncode == 0 and any(
            entry['service_id'] == service for entry in json.loads(status.stdout)['cm']['listeners'])

    def pair(self, server_argv, client_argv, port, connection_manager):
        server = self.start(server_argv, 'server')
        if connection_manager:
            server.wait_until(lambda: self.is_listened(port), 'it listened')
        else:
            server.wait_listening(port)
        client = self.start(client_argv, 'client')
        for p in (client, server):
            wait_gone(p, 120)
            expect(not p.running() and p.popen.returncode == 0, f'{p.name} failed or hangs', client, server)


def works(place):
    def run(config, lab):
        config.need_part('rsocket')
        with Host(config, *PLACES[place]) as host:
            p = host.run(['ibv_devinfo'], 'ibv_devinfo')
            expect(p.popen.returncode == 0 and 'hca_id:\tdev0' in p.stdout, 'no device', p)
            port = new_port()
            pingpong = ['ibv_rc_pingpong', '-g', 0, '-n', 20, '-e', '-p', port]
            host.pair(pingpong, pingpong + ['127.0.0.1'], port, False)
            rping = ['rping', '-a', '127.0.0.1', '-p', port, '-C', 3]
            host.pair(rping + ['-s'], rping + ['-c'], port, True)
            rstream = ['rstream', '-p', port, '-S', 1000, '-C', 10]
            host.pair(rstream + ['-b', '127.0.0.1'], rstream + ['-s', '127.0.0.1'], port, True)
    return run


def few_descriptors(config, lab):
    """A program that gets too few of them prints the error and the remedy; those that get enough work."""
    said = worked = 0
    for limit in (7, 9, 11, 13, 16, 20, 26):
        with Host(config, ':', f'ulimit -n {limit}') as host:
            for argv in (['ibv_devinfo'], ['ibv_ud_pingpong', '-g', 0, '-n', 1, '-p', new_port(), '127.0.0.1']):
                p = host.run(argv, f'{argv[0]} with {limit} descriptors')
                # The pingpong has no peer, which it detects after making all its objects.
                if p.popen.returncode == 0 or "Couldn't connect" in p.stderr:
                    worked += 1
                    continue
                said += 1
                expect('ulimit -n' in p.stderr and f'{limit} file descriptors' in p.stderr, 'it does not say why', p)
    expect(said and worked, f'{said} said why, {worked} worked')


def cases():
    yield Case('bare/few-descriptors', few_descriptors, NORMAL)
    for place in PLACES:
        yield Case(f'bare/{place}', works(place), NORMAL)
