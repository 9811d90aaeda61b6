# SPDX-License-Identifier: BSD-2-Clause
"""The two ends of the wire, and what is done between them: a server at one, a client at the other, a capture."""
import itertools
import os
import re
import struct
import sys
import time

import guest as vm

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'prog'))
import harness  # noqa: E402 # pylint: disable=wrong-import-position
import icrc_check  # noqa: E402 # pylint: disable=wrong-import-position
import scenario_pair  # noqa: E402 # pylint: disable=wrong-import-position

DEVICE = 'dev0'
GUARD_S = 180
MTUS = {1500: 1024, 4200: 4096}     # the interface's and the path's
FAMILIES = ('v4', 'v6')
ROLES = ('client', 'server')        # what rocemu is


class Row:
    """An outcome of the table: pass, fail, or known (a difference of rxe with a number)."""

    def __init__(self, group, label, outcome, text='', known=0):
        self.group, self.label, self.outcome, self.text, self.known = group, label, outcome, text, known


class Rocemu:
    """This end: programs under `rocemu run`, on the tap."""

    tcp = vm.HOST_V4
    device = DEVICE

    def __init__(self, config):
        self.config = config
        self.side = harness.Side(f'{DEVICE}={vm.TAP}', vm.HOST_V4, name=DEVICE)
        self.gids = {}

    def address(self, family):
        return vm.HOST_V4 if family == 'v4' else vm.HOST_V6

    def program(self, name, part='prog'):
        return self.config.program(part, name)

    def scenario(self, name):
        return scenario_pair.file(name)

    def start(self, argv, name, env=None, impair=None):
        options = ('--impair', impair) if impair else ()
        return harness.start(self.config, self.side, argv, name, env, options)

    def devinfo(self):
        return harness.run(self.config, self.side, ['ibv_devinfo', '-v', '-d', DEVICE]).stdout


class Rxe:
    """The other end: the same programs on rxe0 in the guest, on the system's libibverbs."""

    tcp = vm.GUEST_V4
    device = 'rxe0'

    def __init__(self, guest):
        self.guest = guest
        self.gids = {}

    def address(self, family):
        return vm.GUEST_V4 if family == 'v4' else vm.GUEST_V6

    def program(self, name, part='prog'):
        return f'/build/test/{part}/{name}'

    def scenario(self, name):
        return f'/build/test/scenario/{name}.scenario'

    def start(self, argv, name, env=None, impair=None):
        return self.guest.start(argv, name, env)

    def devinfo(self):
        return self.guest.run('ibv_devinfo', '-v', '-d', self.device)


def gid_index(end, family):
    """Index of the end's address in its GID table."""
    if family not in end.gids:
        wanted = f'::ffff:{end.address(family)}' if family == 'v4' else end.address(family)
        text = end.devinfo()
        for m in re.finditer(r'GID\[\s*(\d+)\]:\s*([0-9a-fA-F:.]+)', text):
            if harness.same_address(m.group(2), wanted):
                end.gids[family] = int(m.group(1))
                break
        else:
            raise harness.Failure(f'no GID for {wanted} on {end.device}\n{text}')
    return end.gids[family]


class Capture:
    """The RoCEv2 packets of the wire during a case, cut out of what QEMU writes: nothing is lost, and a file stays."""

    HEADER, RECORD = 24, 16
    UDP, PORT = 17, b'\x12\xb7'

    def __init__(self, guest, path):
        self.source, self.path = guest.path('wire.pcap'), path
        self.begin = os.path.getsize(self.source)

    def is_roce(self, frame):
        if frame[12:14] == b'\x08\x00':
            return frame[23] == self.UDP and frame[36:38] == self.PORT
        return frame[12:14] == b'\x86\xdd' and frame[20] == self.UDP and frame[56:58] == self.PORT

    def stop(self):
        """Write the file."""
        with open(self.source, 'rb') as f, open(self.path, 'wb') as out:
            out.write(f.read(self.HEADER))
            f.seek(max(self.begin, self.HEADER))
            data = f.read()
            at = 0
            while at + self.RECORD <= len(data):
                length = struct.unpack_from('=I', data, at + 8)[0]
                end = at + self.RECORD + length
                if end > len(data):
                    break
                if self.is_roce(data[at + self.RECORD:end]):
                    out.write(data[at:end])
                at = end

    def check(self):
        """(packets, text of what is wrong with them)"""
        count, bad = 0, []
        for v in icrc_check.check(self.path):
            count += 1
            if not v.good:
                bad.append(v.packet.number)
        return count, f'{len(bad)} packets with a wrong ICRC, the first is {bad[0]}' if bad else ''


class Wire:
    """Both ends, and the settings of the wire between them."""

    def __init__(self, config, guest):
        self.guest = guest
        self.rocemu, self.rxe = Rocemu(config), Rxe(guest)
        self.ports = itertools.count(20000)
        self.mtu = None
        self.parity_ready = False
        self.parity_report = None      # for docs/parity.md, of a run of all scenarios
        self.errors = {}               # pair of devices: what the errors table's rows came to
        self.introduce()

    def introduce(self):
        """Each end has the other's MAC address from the start. The first neighbour request on a new
        link can get lost, it is repeated after a second, and that is as long as the kernel's RTR of
        a QP waits for the answer."""
        mac = re.search(r'link/ether (\S+)', vm.ip('link', 'show', vm.TAP)).group(1)
        for ours, theirs in ((vm.HOST_V4, vm.GUEST_V4), (vm.HOST_V6, vm.GUEST_V6)):
            vm.ip('neigh', 'replace', theirs, 'lladdr', vm.GUEST_MAC, 'dev', vm.TAP, 'nud', 'permanent')
            self.guest.run('ip', 'neigh', 'replace', ours, 'lladdr', mac, 'dev', 'eth0', 'nud', 'permanent')

    def set_mtu(self, mtu):
        if mtu == self.mtu:
            return
        self.guest.run('ip', 'link', 'set', 'eth0', 'mtu', str(mtu))
        vm.ip('link', 'set', vm.TAP, 'mtu', mtu)
        text = self.rxe.devinfo()
        if not re.search(rf'active_mtu:\s+{MTUS[mtu]}\b', text):
            raise harness.Failure(f'rxe0 does not take MTU {mtu}\n{text}')
        self.mtu = mtu

    def impair_guest(self, spec):
        """netem on what the guest sends to port 4791; its TCP connections stay as they are."""
        tc = ('tc', 'qdisc', 'replace', 'dev', 'eth0')
        self.guest.run(*tc, 'root', 'handle', '1:', 'prio', 'bands', '3', 'priomap', *'1' * 16)
        self.guest.run(*tc, 'parent', '1:1', 'handle', '10:', 'netem', *spec.split())
        for protocol, header in (('ip', 'ip'), ('ipv6', 'ip6')):
            self.guest.run('tc', 'filter', 'add', 'dev', 'eth0', 'parent', '1:', 'protocol', protocol, 'prio',
                           '1' if protocol == 'ip' else '2', 'u32', 'match', header, 'dport', '4791', '0xffff', 'flowid',
                           '1:1')

    def clear_guest(self):
        self.guest.run('tc', 'qdisc', 'del', 'dev', 'eth0', 'root')

    def pair(self, role, server_argv, client_argv, impair=None, env=None, guard=GUARD_S, ready=None):
        """Runs the two; `role` selects rocemu's. Each *_argv: a function of (this end, port, the
        server's TCP address). ready(end, server, port) waits until the server can be called. Returns (server, client), ended."""
        ends = {'client': (self.rxe, self.rocemu), 'server': (self.rocemu, self.rxe)}[role]
        port = next(self.ports)
        server = ends[0].start(server_argv(ends[0], port, None), 'server', env if role == 'server' else None, impair)
        client = None
        try:
            if ready:
                ready(ends[0], server, port)
            else:
                server.wait_listening(port)
            client = ends[1].start(client_argv(ends[1], port, ends[0].tcp), 'client',
                                   env if role == 'client' else None, impair)
            end = time.monotonic() + guard
            for p, other in ((client, server), (server, client)):
                gone = None
                while p.running():
                    if code(other) not in (None, 0):
                        gone = gone or time.monotonic()
                    if time.monotonic() > end or (gone and time.monotonic() > gone + 5):
                        raise harness.Failure(f'{p.name} hangs or has lost its peer\n{server.report()}\n'
                                              f'{client.report()}')
                    time.sleep(0.02)
            return server, client
        finally:
            for p in (server, client):
                if p is not None and p.running():
                    p.kill()


def code(p):
    """The exit code of a program at either end, None while it runs."""
    return p.popen.poll() if isinstance(p, harness.Proc) else p.returncode
