#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Recomputes the ICRC of every RoCEv2 packet of pcap files, with nothing of rocemu: zlib's CRC-32 over 8 bytes of
ones and the packet, with what may change on its way (IP TOS, TTL and checksum; IPv6 traffic class, flow label and hop
limit; UDP checksum; BTH byte 4) replaced by ones (IBTA annex A17.3.3). Exit code 1 when one is wrong."""
import collections
import struct
import sys
import zlib

ROCE_PORT = 4791
UDP = 17
ETH_IPV4, ETH_IPV6 = 0x0800, 0x86dd
ETH_LEN, UDP_LEN, BTH_LEN, ICRC_LEN = 14, 8, 12, 4
LINK_ETHERNET, LINK_RAW = 1, 101
MAGICS = {0xa1b2c3d4: 1000, 0xa1b23c4d: 1}

Packet = collections.namedtuple('Packet', 'number time_ns ip_header udp bth_on src dst')
Verdict = collections.namedtuple('Verdict', 'packet good computed found')


class BadCapture(Exception):
    """The file is not what it should be."""


def records(data):
    """(time in ns, link type, bytes) of each packet of a classic pcap file."""
    if len(data) < 24:
        raise BadCapture(f'{len(data)} bytes are no pcap file')
    for order in '<>':
        magic, _, _, _, _, _, link = struct.unpack(order + 'IHHiIII', data[:24])
        if magic in MAGICS:
            break
    else:
        raise BadCapture('no pcap magic')
    unit, at = MAGICS[magic], 24
    while at < len(data):
        if at + 16 > len(data):
            raise BadCapture('record header cut off')
        sec, frac, caplen, length = struct.unpack(order + 'IIII', data[at:at + 16])
        at += 16
        if caplen != length:
            raise BadCapture(f'a packet of {length} bytes was captured only to {caplen}')
        if at + caplen > len(data):
            raise BadCapture('record cut off')
        yield sec * 10**9 + frac * unit, link & 0xffff, data[at:at + caplen]
        at += caplen


def packets(data):
    """Every packet of the file; one that is not RoCEv2 raises BadCapture."""
    for number, (time_ns, link, frame) in enumerate(records(data), 1):
        if link == LINK_ETHERNET:
            kind = struct.unpack('>H', frame[12:14])[0]
            ip = frame[ETH_LEN:]
        elif link == LINK_RAW:
            kind = ETH_IPV6 if frame[0] >> 4 == 6 else ETH_IPV4
            ip = frame
        else:
            raise BadCapture(f'link type {link}')
        if kind == ETH_IPV4:
            header, total = (ip[0] & 15) * 4, struct.unpack('>H', ip[2:4])[0]
            protocol, src, dst = ip[9], ip[12:16], ip[16:20]
        elif kind == ETH_IPV6:
            header, total = 40, 40 + struct.unpack('>H', ip[4:6])[0]
            protocol, src, dst = ip[6], ip[8:24], ip[24:40]
        else:
            raise BadCapture(f'packet {number}: ethertype 0x{kind:04x}')
        if protocol != UDP or total > len(ip):
            raise BadCapture(f'packet {number}: not UDP, or shorter than its header says')
        udp, rest = ip[header:header + UDP_LEN], ip[header + UDP_LEN:total]
        if struct.unpack('>H', udp[2:4])[0] != ROCE_PORT or len(rest) < BTH_LEN + ICRC_LEN:
            raise BadCapture(f'packet {number}: not to port {ROCE_PORT}, or too short')
        if struct.unpack('>H', udp[4:6])[0] != total - header:
            raise BadCapture(f'packet {number}: UDP length')
        yield Packet(number, time_ns, ip[:header], udp, rest, src, dst)


def icrc(packet):
    """What the ICRC of the packet should be."""
    ip, udp, bth = bytearray(packet.ip_header), bytearray(packet.udp), bytearray(packet.bth_on[:-ICRC_LEN])
    if ip[0] >> 4 == 4:
        ip[1] = ip[8] = ip[10] = ip[11] = 0xff
    else:
        ip[0] |= 0x0f
        ip[1] = ip[2] = ip[3] = ip[7] = 0xff
    udp[6] = udp[7] = 0xff
    bth[4] = 0xff
    return zlib.crc32(b'\xff' * 8 + ip + udp + bth)


def check(path):
    """A Verdict for each packet of the file."""
    with open(path, 'rb') as f:
        data = f.read()
    for p in packets(data):
        found = struct.unpack('<I', p.bth_on[-ICRC_LEN:])[0]
        computed = icrc(p)
        yield Verdict(p, found == computed, computed, found)


def main():
    bad = 0
    if len(sys.argv) < 2 or sys.argv[1].startswith('-'):
        print('usage: icrc_check.py FILE.pcap...', file=sys.stderr)
        return 2
    for path in sys.argv[1:]:
        total = wrong = 0
        try:
            for v in check(path):
                total += 1
                if not v.good:
                    wrong += 1
                    print(f'{path}: packet {v.packet.number}: ICRC 0x{v.found:08x}, computed 0x{v.computed:08x}')
        except (OSError, BadCapture, struct.error, IndexError) as e:
            print(f'{path}: {e}', file=sys.stderr)
            wrong += 1
        print(f'{path}: {total} packets, {wrong} wrong')
        bad += wrong
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
