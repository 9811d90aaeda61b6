# SPDX-License-Identifier: BSD-2-Clause
"""Processes connected by rings in shared memory (wire-peers): beside a peer that is reached by UDP, while one of them is
killed or stopped, and while they wait."""
import os
import re
import signal
import struct
import subprocess
import time

from cases_network import on_veth, sides
from harness import FULL, NORMAL, POLL_S, Case, Skip, expect, gid_index, new_port, start

OPTIONS = ('--wire', 'shm')
RING = '/memfd:rocemu-ring'
# struct shm_ring_shared: where the positions are, and the bit of the head that is none.
HEAD, TAIL = 0, 128
RESTART = 1
RETRY_EXC_ERR = 12
# ROCEMU_QPN_INDEX_BITS: the bits above are the slot.
QPN_INDEX_BITS = 14
# Time-outs of eight tries: one that ends soon (0.5 s each), but not while a busy machine lets a process wait, and one that
# outlasts a process that is stopped.
SOON, PATIENT = 17, 20


# ---- what a process has ------------------------------------------------------------------------------------

def rings(proc):
    """The rings that a process has mapped: inode: (head, tail)."""
    found = {}
    try:
        with open(f'/proc/{proc.pid}/maps', encoding='ascii', errors='replace') as f:
            rows = [line.split() for line in f if RING in line]
        with open(f'/proc/{proc.pid}/mem', 'rb', buffering=0) as memory:
            for where, _, offset, _, inode, *_ in rows:
                if int(offset, 16) == 0:
                    memory.seek(int(where.split('-')[0], 16))
                    front = memory.read(TAIL + 4)
                    found[inode] = tuple(struct.unpack_from('=I', front, at)[0] & ~RESTART for at in (HEAD, TAIL))
    except OSError:      # it has just ended, or unmapped one
        return {}
    return found


def connections(proc):
    """How many Unix sockets and rings are among the descriptors of a process."""
    with open(f'/proc/{proc.pid}/net/unix', encoding='ascii', errors='replace') as f:
        unix = {f'socket:[{line.split()[6]}]' for line in f}
    n = 0
    for fd in os.listdir(f'/proc/{proc.pid}/fd'):
        try:
            to = os.readlink(f'/proc/{proc.pid}/fd/{fd}')
        except OSError:
            continue
        n += to in unix or RING in to
    return n


def in_use(a, b):
    """Two processes have the same two rings, one of each direction, and packets have gone by both."""
    of_a, of_b = rings(a), rings(b)
    common = of_a.keys() & of_b.keys()
    return len(common) == 2 and all(of_a[inode][0] for inode in common)


def waits_in_one(proc):
    """Of the rings of both directions one has packets, and not the other."""
    return sorted(head != tail for head, tail in rings(proc).values()) == [False, True]


def is_stopped(proc):
    """All threads are."""
    for tid in os.listdir(f'/proc/{proc.pid}/task'):
        with open(f'/proc/{proc.pid}/task/{tid}/stat', encoding='ascii') as f:
            if f.read().rsplit(')', 1)[1].split()[0] != 'T':
                return False
    return True


def packets(proc, interface):
    """Sent by an interface of the process's network namespace."""
    with open(f'/proc/{proc.pid}/net/dev', encoding='ascii') as f:
        return int(re.search(rf'^ *{interface}:(.*)$', f.read(), re.M).group(1).split()[9])


# ---- the processes -----------------------------------------------------------------------------------------

class Peers:
    """A wire-peers server and its clients."""

    def __init__(self, config, side, *options, run=(), env=None, server=()):
        self.config, self.side, self.options, self.run, self.port = config, side, options, (*OPTIONS, *run), new_port()
        self.env = {'ROCEMU_LOG': 'debug', **(env or {})}
        self.elsewhere = None    # a side of another host
        self.procs = []
        self.server = self.start(side, 'server', *server)

    def __enter__(self):
        self.server.wait_listening(self.port)
        return self

    def __exit__(self, *_):
        for p in self.procs:
            if p.running():
                p.kill()

    def start(self, side, name, *more):
        argv = [self.config.program('prog', 'wire-peers'), '--port', self.port, '--device', side.name,
                '--gid-index', gid_index(self.config, side), *self.options, *more]
        self.procs.append(start(self.config, side, argv, name, self.env, self.run))
        return self.procs[-1]

    def client(self, name, side=None, timeout=PATIENT, rounds=0):
        """One that exchanges data with the server."""
        p = self.start(side or self.side, name, '--name', name, '--timeout', timeout, '--rounds', rounds, self.side.tcp)
        if not rounds:
            self.advance(name)
        return p

    def ring_client(self, name='ring', timeout=PATIENT):
        """One that is connected by rings in use."""
        p = self.client(name, timeout=timeout)
        p.wait_until(lambda: in_use(self.server, p), 'packets went by rings')
        self.advance(name)
        return p

    def rounds(self, name):
        return int(re.findall(rf'^{name} (?:rounds (\d+)|connected .*)$', self.server.stdout, re.M)[-1] or 0)

    def slot(self, name):
        """Of the client, at its agent."""
        return int(re.search(rf'^{name} connected to QP 0x(.*)$', self.server.stdout, re.M).group(1), 16) >> QPN_INDEX_BITS

    def advance(self, *names):
        """Wait until the server has had some more rounds with each of these clients."""
        self.server.wait_until(lambda: all(f'{name} connected ' in self.server.stdout for name in names), 'they were connected')
        wanted = {name: self.rounds(name) + 48 for name in names}
        self.server.wait_until(lambda: all(self.rounds(name) >= n for name, n in wanted.items()), f'{names} exchanged data')

    def end(self, *clients, failed=False):
        """All data was right, and those clients end well; the server reports one that did not."""
        self.server.signal(signal.SIGTERM)
        expect(self.server.wait() == failed and not any(p.wait() for p in clients), 'failed', *self.procs)
        expect('wrong' not in self.server.stdout, 'wrong data', *self.procs)


def stop(proc):
    """Stop it, and wait until packets for it are in its ring. The peer takes those that it has sent, so in the end only its
    own ring has some; not at the first look, perhaps. How many depends on what it has taken and not acknowledged."""
    proc.signal(signal.SIGSTOP)
    proc.wait_until(lambda: is_stopped(proc), 'it was stopped')
    for _ in range(5):
        proc.wait_until(lambda: waits_in_one(proc), 'packets for it were in its ring')
        time.sleep(POLL_S)


def failed_alone(peers, survivor, name, before):
    """The survivor's requests have failed as they do by UDP, and it has no part of the ring any more."""
    survivor.wait_until(lambda: re.search(rf'^{name} status', survivor.stdout, re.M), 'its requests failed')
    expect(f'{name} status {RETRY_EXC_ERR} after' in survivor.stdout, 'another status', *peers.procs)
    survivor.wait_until(lambda: not rings(survivor), 'the rings were unmapped')
    survivor.wait_until(lambda: connections(survivor) <= before, f'{before} connections were left')


# ---- a peer by a ring and one by UDP -----------------------------------------------------------------------

def with_both(check, *options, run=()):
    """check(peers, ring, udp): a server, a client of its namespace and one of another."""
    def case(config, veth):
        here, there = (lambda t: (t.server, t.client))(sides(veth, veth.v4))
        with Peers(config, here, *options, run=run) as peers:
            peers.elsewhere = there
            udp = peers.client('udp', there)
            expect(not rings(peers.server) and not rings(udp), 'a ring to another network namespace', *peers.procs)
            check(peers, udp)
            expect('by rings' not in udp.stderr, 'by shared memory', udp)
    return on_veth(case)


def both(peers, udp):
    ring = peers.ring_client()
    before = [packets(peers.server, i) for i in ('lo', 'veth0')]
    peers.advance('ring', 'udp')
    after = [packets(peers.server, i) for i in ('lo', 'veth0')]
    expect(after[0] == before[0], f'{after[0] - before[0]} packets to the ring peer by UDP', *peers.procs)
    expect(after[1] > before[1], 'no packet to the UDP peer', *peers.procs)
    peers.end(ring, udp)
    for p in (peers.server, ring):
        expect(re.search(r'[1-9]\d* datagrams received by rings', p.stderr), 'none by rings', *peers.procs)


def both_killed(peers, udp):
    before = connections(peers.server)
    ring = peers.ring_client(timeout=SOON)
    peers.advance('ring', 'udp')
    ring.kill()
    failed_alone(peers, peers.server, 'ring', before)
    peers.advance('udp')
    # The next one of that place gets rings again.
    again = peers.ring_client('again')
    peers.advance('again', 'udp')
    peers.end(again, udp, failed=True)


def both_stopped(peers, udp):
    ring = peers.ring_client()
    stop(ring)
    peers.advance('udp')
    ring.signal(signal.SIGCONT)
    peers.advance('ring', 'udp')
    peers.end(ring, udp)


def same_slot(peers, udp):
    """A process of another host and one of this host have the same slot number there, as agents assign low ones first. The
    first has traffic before the second is connected, which gets rings nevertheless."""
    other = peers.client('other', peers.elsewhere)
    ring = peers.ring_client()
    expect(peers.slot('ring') == peers.slot('other') != peers.slot('udp'), 'other slots than expected', *peers.procs)
    peers.advance('ring', 'udp', 'other')
    peers.end(ring, udp, other)


# ---- a hostile peer ----------------------------------------------------------------------------------------

MEMORY_KB = 64 << 10    # by which a process under attack may grow
MAY_NOT_MAP = 77


def memory_kb(proc):
    with open(f'/proc/{proc.pid}/status', encoding='ascii', errors='replace') as f:
        return int(re.search(r'^VmRSS:\s*(\d+)', f.read(), re.M).group(1))


def scribbled(seeds, seconds):
    """Another process writes to the rings of one client and the server while they use them. That connection may fail, but
    both processes live, and those of other clients go on, by rings and by UDP, with right data."""
    def case(config, veth):
        here, there = (lambda t: (t.server, t.client))(sides(veth, veth.v4))
        with Peers(config, here, server=('--careless',)) as peers:
            others = {'udp': peers.client('udp', there), 'other': peers.ring_client('other')}
            before, rings_found, writes = memory_kb(peers.server), 0, 0
            for seed in seeds:
                victim = peers.client(f'ring{seed}', timeout=SOON)
                victim.wait_until(lambda victim=victim: in_use(peers.server, victim), 'packets went by rings')
                p = subprocess.run([config.program('prog', 'ring-scribble'), str(victim.pid), str(seconds), str(seed)],
                                   capture_output=True, text=True, check=False)
                if p.returncode == MAY_NOT_MAP:
                    raise Skip('this user may not map the memory of another process')
                expect(p.returncode == 0, f'{p.returncode} {p.stderr}', *peers.procs)
                found = [int(n) for n in p.stdout.split()[1::2]]
                rings_found, writes = rings_found + found[0], writes + found[1]
                expect(peers.server.running() and victim.running(), f'seed {seed}: a process ended', *peers.procs)
                peers.advance(*others)
                victim.signal(signal.SIGTERM)
                victim.kill()
            grown = memory_kb(peers.server) - before
            expect(config.sanitize or grown < MEMORY_KB, f'{grown} KB', *peers.procs)
            for p in peers.procs:
                expect('Sanitizer' not in p.stderr and 'runtime error' not in p.stderr, 'a report', p)
            peers.end(*others.values(), failed=True)
        return f'{rings_found} rings, {writes} writes, {grown} KB more'
    return on_veth(case)


# ---- two processes -----------------------------------------------------------------------------------------

def killed(victim, *options, stopped_first=False):
    """SIGKILL of either side, in the middle: the other one's requests fail, as by UDP."""
    def check(config, lab):
        with Peers(config, lab.get('lo').server, *options) as peers:
            client = peers.ring_client(timeout=SOON)
            dies, lives, name = (peers.server, client, 'server') if victim == 'server' else (client, peers.server, 'ring')
            before = connections(lives)
            # Those of the rings, one of each direction.
            expect(before >= 2, 'no connection of a ring', *peers.procs)
            if stopped_first:
                stop(dies)
            else:
                head = sorted(rings(dies).items())
                lives.wait_until(lambda: sorted(rings(dies).items()) != head, 'packets went by the rings')
            dies.kill()
            failed_alone(peers, lives, name, before - 2)
            lives.signal(signal.SIGTERM)
            expect(lives.wait() == 1, 'did not end', *peers.procs)
    return check


def stopped(victim, *options):
    """SIGSTOP of either side, with packets in its ring: when it goes on, so does the connection."""
    def check(config, lab):
        with Peers(config, lab.get('lo').server, *options) as peers:
            client = peers.ring_client()
            stops = peers.server if victim == 'server' else client
            for _ in range(3):
                stop(stops)
                stops.signal(signal.SIGCONT)
                peers.advance('ring')
            peers.end(client)
    return check


# ---- waiting -----------------------------------------------------------------------------------------------

WAIT_S = 3
# Of all threads of a process, in that time. A lane that polled or looked at its ring now and then would have far more.
SWITCHES, CPU_S = 30, 0.3


def used(proc):
    """CPU time of a process, and how often its threads began to wait."""
    switches = 0
    for tid in os.listdir(f'/proc/{proc.pid}/task'):
        with open(f'/proc/{proc.pid}/task/{tid}/status', encoding='ascii', errors='replace') as f:
            switches += int(re.search(r'^voluntary_ctxt_switches:\s*(\d+)', f.read(), re.M).group(1))
    # The clock of a process, as clock_getcpuclockid() numbers it.
    return time.clock_gettime(~proc.pid << 3 | 2), switches


def idle(config, lab):
    """Two processes that wait in ibv_get_cq_event() use no CPU time, and a packet wakes them."""
    with Peers(config, lab.get('lo').server) as peers:
        client = peers.client('ring', rounds=1000)
        client.wait_until(lambda: in_use(peers.server, client), 'packets went by rings')
        for p in (peers.server, client):
            p.wait_until(lambda p=p: ' pauses\n' in p.stdout, 'it waited')
        before = [used(p) for p in (peers.server, client)]
        time.sleep(WAIT_S)
        after = [used(p) for p in (peers.server, client)]
        figures = [(cpu - cpu_before, n - n_before) for (cpu_before, n_before), (cpu, n) in zip(before, after)]
        expect(in_use(peers.server, client), 'the rings are gone', *peers.procs)
        expect(all(cpu < CPU_S and n < SWITCHES for cpu, n in figures), f'CPU seconds and switches: {figures}', *peers.procs)
        peers.end(client)
    return ', '.join(f'{cpu * 1e3:.2f} ms, {n} switches' for cpu, n in figures)


def cases():
    found = [Case(f'shm/both/{name}', with_both(check, *options, run=run), NORMAL) for name, check, options, run in (
        ('events', both, (), ()), ('poll', both, ('--poll',), ()), ('one_lane', both, (), ('--lanes', 1)),
        ('killed', both_killed, (), ()), ('killed.one_lane', both_killed, (), ('--lanes', 1)),
        ('stopped', both_stopped, (), ()), ('stopped.one_lane', both_stopped, ('--poll',), ('--lanes', 1)),
        ('same_slot', same_slot, (), ('--lanes', 1)))]
    for victim in ('server', 'client'):
        found += [Case(f'shm/killed/{victim}', killed(victim)),
                  Case(f'shm/killed/{victim}.poll', killed(victim, '--poll')),
                  Case(f'shm/killed/{victim}.stopped', killed(victim, stopped_first=True)),
                  Case(f'shm/stopped/{victim}', stopped(victim)), Case(f'shm/stopped/{victim}.poll', stopped(victim, '--poll'))]
    found += [Case('shm/scribbled', scribbled(range(1, 4), 1)), Case('shm/long/scribbled', scribbled(range(10, 60), 3), FULL)]
    return found + [Case('shm/idle', idle, NORMAL)]
