# SPDX-License-Identifier: BSD-2-Clause
"""Programs of others that connect by rdma_cm, unmodified: fio's RDMA engine, qperf, libfabric over verbs, and QEMU,
which moves a machine from one process to another. Each is tried where it is installed."""
import json
import os
import socket
import tempfile

from cases_cm import Session, is_listened
from harness import NORMAL, Case, Failure, Proc, expect, pair, sanitizer_env, wait_gone

# ---- fio ---------------------------------------------------------------------------------------------------

FIO_SIZE = '2m'


def fio(verb, place):
    """A server process and a client that writes to it, reads from it or sends to it."""
    def run(config, lab):
        with tempfile.TemporaryDirectory(prefix='rocemu-fio-') as d, Session(config, lab.get(place)) as s:
            common = ['fio', '--name=job', '--ioengine=rdma', '--port={port}', '--bs=64k', f'--size={FIO_SIZE}',
                      '--thread', f'--directory={d}']
            # Threads: processes of fio's own would outlive it when it is ended here. As many buffers as messages, because
            # fio allows no "receiver not ready".
            srv = s.server(common + ['--rw=read', '--iodepth=32'])
            cli = s.client(common + ['--rw=write', f'--verb={verb}', '--iodepth=8', '--hostname={server}'])
            s.finish(cli, srv)
            expect('error' not in cli.stderr + srv.stderr, 'an error', srv, cli)
    return run


# ---- qperf -------------------------------------------------------------------------------------------------

QPERF = ('rc_bw', 'rc_rdma_read_bw', 'rc_rdma_write_poll_lat')


def qperf(config, lab):
    """One test after another, each with a connection of its own. The server sends its port before it listens."""
    pair(config, lab.get('lo'), ['qperf', '-lp', '{port}'],
         # A second each: by messages its latency tests never end, not even over TCP. "quit" ends
         # the server.
         ['qperf', '-lp', '{port}', '-t', 1, '-cm1', '{server}', *QPERF, 'quit'])
    return f'{len(QPERF)} tests'


# ---- libfabric ---------------------------------------------------------------------------------------------

def fabric(options):
    def run(config, lab):
        argv = ['fi_pingpong', '-p', 'verbs', '-I', 20, '-c', *options]
        pair(config, lab.get('veth1500-v4'), argv + ['-B', '{port}'], argv + ['-P', '{port}', '{server}'])
    return run


def fabric_list(config, lab):
    """All devices of a host that has loopback and another interface: the provider offers connections on that one."""
    topo = lab.get('veth1500-v4')
    topo.check()
    p = Proc([config.rocemu, 'run', '--', 'fi_info', '-p', 'verbs', '-t', 'FI_EP_MSG'], name='fi_info',
             env=sanitizer_env(config), netns=topo.client.netns)
    p.wait()
    expect('domain: rocemu_veth0' in p.stdout, 'no endpoints of connections', p)


# ---- QEMU --------------------------------------------------------------------------------------------------

class Machine:
    """A QEMU process without a disk, and its control socket."""

    def __init__(self, session, side, path, *options):
        self.proc = session.start(side, ['qemu-system-x86_64', '-M', 'pc', '-accel', 'tcg', '-m', 32, '-display', 'none',
                                         '-nodefaults', '-S', '-qmp', f'unix:{path},server=on,wait=off', *options], path)
        self.proc.wait_until(lambda: os.path.exists(path), 'it had a control socket')
        self.socket = socket.socket(socket.AF_UNIX)
        self.proc.wait_until(lambda: self.socket.connect_ex(path) == 0, 'it took a connection')
        self.file = self.socket.makefile('rw')
        self.file.readline()
        self.do('qmp_capabilities')

    def do(self, command, **arguments):
        self.file.write(json.dumps({'execute': command, 'arguments': arguments}) + '\n')
        self.file.flush()
        while True:
            answer = json.loads(self.file.readline() or '{"error": "it ended"}')
            if 'error' in answer:
                raise Failure(f'{command}: {answer["error"]}\n{self.proc.report()}')
            if 'return' in answer:
                return answer['return']


def migration(pin):
    """A machine's memory goes to another process: chunk by chunk as it is registered, or all of it pinned before."""
    def run(config, lab):
        with tempfile.TemporaryDirectory(prefix='rocemu-qemu-') as d, Session(config, lab.get('lo-two')) as s:
            to = Machine(s, s.topo.server, os.path.join(d, 'to'), '-incoming', 'defer')
            of = Machine(s, s.topo.client, os.path.join(d, 'of'))
            for machine in (to, of):
                machine.do('migrate-set-capabilities', capabilities=[{'capability': 'rdma-pin-all', 'state': pin}])
            uri = f'rdma:{s.topo.server.address}:{s.port}'
            to.do('migrate-incoming', uri=uri)
            to.proc.wait_until(lambda: is_listened(config, s.topo.server, 'tcp', s.port), 'it listened')
            of.do('migrate', uri=uri)
            of.proc.wait_until(lambda: of.do('query-migrate').get('status') in ('completed', 'failed'), 'it had moved')
            status = of.do('query-migrate')
            expect(status['status'] == 'completed', f'{status}', to.proc, of.proc)
            to.proc.wait_until(lambda: to.do('query-status')['status'] != 'inmigrate', 'the machine was there')
            for machine in (of, to):
                machine.do('quit')
                wait_gone(machine.proc, Session.GUARD_S)
                expect(machine.proc.popen.returncode == 0, 'did not end well', machine.proc)
            return f'{status["ram"]["transferred"]} bytes'
    return run


def cases():
    found = [Case(f'users/fio.{verb}/{place}', fio(verb, place), NORMAL, needs=('fio',))
             for verb, place in (('write', 'lo'), ('write', 'veth1500-v4'), ('read', 'lo'), ('send', 'lo'))]
    found.append(Case('users/qperf/lo', qperf, NORMAL, needs=('qperf',)))
    found += [Case(f'users/libfabric.{name}', fabric(options), NORMAL, needs=('fi_pingpong',))
              for name, options in (('rdm', ('-e', 'rdm', '-m', 'tagged', '-S', 4096)), ('dgram', ('-e', 'dgram', '-S', 1024)))]
    found.append(Case('users/libfabric.list', fabric_list, NORMAL, needs=('fi_info',)))
    found += [Case(f'users/qemu.migration.{name}/lo-two', migration(pin), NORMAL, needs=('qemu-system-x86_64',))
              for name, pin in (('chunks', False), ('pinned', True))]
    return found
