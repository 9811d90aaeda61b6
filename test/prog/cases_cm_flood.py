# SPDX-License-Identifier: BSD-2-Clause
"""A hostile host that sends requests for connections without end, each well-formed and another one:
others still connect, and no process's memory grows without bound."""
import multiprocessing

import qp1
from cases_cm import agent_status
from cases_cm_end import Actor
from cases_forged import in_netns, stranger
from harness import NORMAL, Case, expect, new_port

HOSTILE = '127.0.0.77'
GROWTH_MAX_KB = 64 * 1024


def flood(source, netns, to, port, stop, count):
    requests = in_netns(netns, lambda: qp1.Requests(source, to, port))
    while not stop.is_set():
        for _ in range(100):
            requests.send()
        count.value += 100


def resident_kb(pid):
    with open(f'/proc/{pid}/status', encoding='ascii') as f:
        return int(next(line for line in f if line.startswith('VmHWM')).split()[1])


def from_this_host(config, lab):
    return flooded(config, lab.get('lo'), HOSTILE)


def from_another_host(config, lab):
    """Another address than the client's, of the client's host."""
    topo = lab.get('veth1500-v4')
    topo.check()
    return flooded(config, topo, stranger(topo, topo.client))


def flooded(config, topo, hostile):
    topo.check()
    at, ports = topo.server.address, (new_port(), new_port())
    with Actor(config, topo.server, 'victim') as victim, Actor(config, topo.server, 'other') as other, \
            Actor(config, topo.client, 'client') as client:
        for actor, port in ((victim, ports[0]), (other, ports[1])):
            actor.do(f'listen {at} {port} 16', r'ok \d+')
        agent = agent_status(config, topo.server)['pid']
        watched = {victim.proc.pid: 'victim', agent: 'agent'}
        before = {pid: resident_kb(pid) for pid in watched}
        stop, count = multiprocessing.Event(), multiprocessing.Value('q', 0)
        sender = multiprocessing.Process(target=flood, args=(hostile, topo.client.netns, at, ports[0], stop, count))
        sender.start()
        try:
            # The victim has as many as it takes, and reads none.
            while agent_counter(config, topo, 'rx') < 20000:
                expect(sender.is_alive(), 'the sender ended')
            client.do(f'resolve {at} {ports[1]}', r'ok \d+')
            client.do('qp 0')
            client.do('connect 0')
            # A message that is lost in the flood comes again, 6 s later.
            other.event('CONNECT_REQUEST 0 1', 60000)
            other.do('qp 1')
            other.do('accept 1')
            client.event('ESTABLISHED 0', 60000)
            other.event('ESTABLISHED 0', 60000)
        finally:
            stop.set()
            sender.join()
        for pid, name in watched.items():
            grown = resident_kb(pid) - before[pid]
            expect(grown < GROWTH_MAX_KB, f'{name} grew by {grown} KB')
        victim.event('CONNECT_REQUEST 0 1')
        return f'{count.value} requests'


def agent_counter(config, topo, name):
    return agent_status(config, topo.server)['cm']['counters'][name]


def cases():
    return [Case('cm/flood/lo', from_this_host, NORMAL, alone=True),
            Case('cm/flood/veth', from_another_host, NORMAL, alone=True)]
