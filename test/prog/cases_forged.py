# SPDX-License-Identifier: BSD-2-Clause
"""Tests packets that another user of the machine sends to a foreign connection."""
import re
import socket
import struct
import time

from cases_robust import Traffic
from harness import NOBODY, NORMAL, Case, Failure, Proc, Side, Skip, Topology, expect, need_user, sanitizer_env

ROCE_PORT = 4791
RC, RC_SENDS = range(0x20), range(5)    # opcodes
ETH_P_IP = 0x0800
CAPTURE_GUARD_S = 60
PSNS = 1 << 24
# Those that are tried: all that will be due meanwhile. Not as fast as it goes: that would lose the peer's packets, too.
BEFORE, TRIED, PER_SECOND = 20_000, 400_000, 200_000
SERVER, CLIENT = '127.0.0.40', '127.0.0.41'


class Wire:
    """What goes over the loopback interface: whose QPN, and which PSN is due."""

    def __init__(self):
        try:
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IP))
        except PermissionError:
            raise Skip('no packet sockets here') from None
        self.socket.bind(('lo', ETH_P_IP))
        self.socket.settimeout(CAPTURE_GUARD_S)

    def packet(self, source, destination, opcodes=RC):
        """QPN and PSN of the next RC packet from one address to another."""
        end = time.monotonic() + CAPTURE_GUARD_S
        while time.monotonic() < end:
            try:
                ip = self.socket.recv(2048)
            except TimeoutError:
                break
            udp = ip[(ip[0] & 15) * 4:]
            if ip[9] != socket.IPPROTO_UDP or struct.unpack('!H', udp[2:4])[0] != ROCE_PORT:
                continue
            if (socket.inet_ntoa(ip[12:16]), socket.inet_ntoa(ip[16:20])) != (source, destination):
                continue
            bth = udp[8:20]
            if bth[0] in opcodes:
                return int.from_bytes(bth[5:8], 'big'), int.from_bytes(bth[9:12], 'big')
        raise Failure(f'no RC packet from {source} to {destination} on lo')


def sweep(config, kind, source, destination, qpn, first):
    """One PSN after another, as another user, from the peer's address."""
    p = Proc([config.program('prog', 'roce-forge'), kind, source, destination, qpn, (first - BEFORE) % PSNS, TRIED,
              PER_SECOND], env=sanitizer_env(config), name=f'{kind} sweep', user=NOBODY)
    expect(p.wait() == 0, 'the sweep failed', p)
    return float(re.search(r'in ([\d.]+) s', p.stdout).group(1))


def swept(config, _):
    """A connection under traffic lives through a sweep over PSNs towards each of its QPs."""
    need_user(NOBODY, config.rocemu)
    sides = [Side(f'forged0={address}', address, name='forged0') for address in (SERVER, CLIENT)]
    took = 0
    with Traffic(config, Topology('forged', *sides), '-e') as t:
        wire = Wire()
        for source, destination in ((SERVER, CLIENT), (CLIENT, SERVER)):
            qpn, psn = wire.packet(source, destination, RC_SENDS)
            took += sweep(config, 'write', source, destination, qpn, psn)
        wire.socket.close()
        wire = Wire()
        for source, destination in ((SERVER, CLIENT), (CLIENT, SERVER)):
            wire.packet(source, destination, RC_SENDS)      # still going on
        expect(t.server.running() and t.client.running(), 'a side has ended', t.server, t.client)
    return f'{2 * TRIED} packets in {took:.0f} s'


def cases():
    yield Case('forged/sweep', swept, NORMAL, alone=True)
