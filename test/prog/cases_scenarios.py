# SPDX-License-Identifier: BSD-2-Clause
"""Scenarios (docs/scenarios.md) by verbs, in one process. Those of two queue pairs: over both wires and both IP versions, and
while packets are lost (cases_verbs.py has them in two processes). Those of one: their packets come from a UDP socket at another
address."""
import glob
import os
import re

import scenario_pair
from harness import NORMAL, QUICK, Case, Proc, Side, Skip, VethPair, expect, gid_index, may_make_netns, new_port, run, start

LEAST_CASES = 110       # of one queue pair, with which packets on UDP can do what they state
FILES = scenario_pair.FILES


def scenarios(where, options=(), text=(), files=('pair', 'verbs-ops', 'verbs-flow', 'verbs-errors')):
    def check(config, lab):
        topo = lab.get(where)
        topo.check()
        side = topo.server
        argv = [config.program('scenario', 'scenario-verbs'), '--device', side.name, '--gid', gid_index(config, side), '--set', 'timeout=18',
                *text, *map(scenario_pair.file, files)]
        return scenario_pair.passed(run(config, side, argv, options=options))

    return check


# The device's address is the only one of lo, so its GID is the first; the peer's is not the device's.
V4 = ('true', '127.0.0.2')
V6 = ('ip address flush dev lo && ip address add fd00::1/128 dev lo nodad && '
      'ip link add peer0 type veth peer name peer1 && ip link set peer0 up && ip link set peer1 up && '
      'ip address add fd00::2/128 dev peer0 nodad', 'fd00::2')


def packet_files():
    return sorted(glob.glob(os.path.join(FILES, 'resp*.scenario'))) + [os.path.join(FILES, 'cnp.scenario')]


def done(p, *procs):
    """How many cases the device did; not fewer than there were: what is possible must not become less in silence."""
    found = re.search(r'^(\d+) cases in (\d+) rounds, 0 failed, (\d+) not possible here$', p.stdout, re.M)
    expect(found and int(found[1]) - int(found[3]) >= LEAST_CASES, 'cases failed, or were left out', p, *procs)
    return f'{int(found[1]) - int(found[3])} cases, {found[2]} rounds'


def packets(network, wire='udp'):
    """What the responder does with packets. The requester is left out: it repeats what is not answered soon."""
    prepare, peer = network

    def check(config, lab):
        script = f'ip link set lo up && {prepare} && exec "$@"'
        p = Proc(['unshare', '-r', '-n', 'sh', '-c', script, 'sh', config.rocemu, 'run', '--wire', wire, '-d', 'lo', '--',
                  config.program('scenario', 'scenario-verbs'), '--device', 'rocemu_lo', '--from', peer, '--skip',
                  *packet_files()])
        p.wait()
        if 'unshare:' in p.stderr:
            raise Skip('no network namespace of an ordinary user')
        return done(p)

    return check


def packets_between(family):
    """The same from another network namespace, whose process has no device: as a tester of another host's would."""
    def check(config, lab):
        why_not = may_make_netns()
        if why_not:
            raise Skip(why_not)
        veth = VethPair(9000)
        try:
            device = Side('dev0=veth0', (veth.v4, veth.v6)[family][0], veth.names[0])
            port = new_port()
            program = config.program('scenario', 'scenario-verbs')
            end = start(config, device, [program, '--device', 'dev0', '--gid', gid_index(config, device), '--listen', port], 'device')
            end.wait_listening(port)
            p = Proc([program, '--from', (veth.v4, veth.v6)[family][1], '--peer', f'{veth.v4[0]}:{port}', '--skip',
                      '--only', '!(GRH of IPv*)', *packet_files()], netns=veth.names[1], name='tester')
            p.wait()
            expect(end.wait() == 0, 'the device', end, p)
            return done(p, end)
        finally:
            veth.close()

    return check


def cases():
    return [
        Case('scenarios/lo/udp', scenarios('lo'), QUICK),
        Case('scenarios/lo6/udp', scenarios('lo6'), NORMAL),
        Case('scenarios/lo/shm', scenarios('lo', ('--wire', 'shm')), NORMAL),
        Case('scenarios/lo/udp.loss', scenarios('lo', ('--impair', 'loss=1%,seed=1'), ('--with', 'TYPE=RC'), ('pair', 'verbs-ops', 'verbs-flow')), NORMAL),
        Case('scenarios/packets/v4', packets(V4), QUICK, needs=('unshare', 'ip')),
        Case('scenarios/packets/v6', packets(V6), NORMAL, needs=('unshare', 'ip')),
        Case('scenarios/packets/veth-v4', packets_between(0), NORMAL, needs=('ip',)),
        Case('scenarios/packets/veth-v6', packets_between(1), NORMAL, needs=('ip',)),
        Case('scenarios/packets/v4/shm', packets(V4, 'shm'), NORMAL, needs=('unshare', 'ip')),
    ]
