# SPDX-License-Identifier: BSD-2-Clause
"""Captures as lists of frames that can be changed: Ethernet, IPv4 or IPv6, UDP, RoCEv2. Nothing of rocemu is used: the
ICRC is computed here a second time, with zlib (IBTA annex A17.3.3)."""
import copy
import struct
import zlib

ETHERNET = 1
ETH_LEN, UDP_LEN, BTH_LEN, ICRC_LEN = 14, 8, 12, 4


class Frame:
    """A RoCEv2 packet in an Ethernet frame. The body reaches from the BTH to the pad; the ICRC is kept apart."""

    def __init__(self, time_ns, data):
        self.time_ns = time_ns
        self.eth = data[:ETH_LEN]
        self.v6 = self.eth[12:14] == b'\x86\xdd'
        ip_len = 40 if self.v6 else 20
        at = ETH_LEN + ip_len
        self.ip = bytearray(data[ETH_LEN:at])
        self.udp = bytearray(data[at:at + UDP_LEN])
        end = at + struct.unpack('>H', self.udp[4:6])[0]
        self.body = bytearray(data[at + UDP_LEN:end - ICRC_LEN])
        self.icrc = bytes(data[end - ICRC_LEN:end])
        self.sealed = False  # True: write this ICRC, whatever the rest is
        self.cut = None      # bytes of the frame that the capture has

    def copy(self, **changes):
        f = copy.deepcopy(self)
        for name, value in changes.items():
            setattr(f, name, value)
        return f

    opcode = property(lambda s: s.body[0], lambda s, v: s.body.__setitem__(0, v))
    psn = property(lambda s: int.from_bytes(s.body[9:12], 'big'),
                   lambda s, v: s.body.__setitem__(slice(9, 12), (v & 0xffffff).to_bytes(3, 'big')))
    dqpn = property(lambda s: int.from_bytes(s.body[5:8], 'big'),
                    lambda s, v: s.body.__setitem__(slice(5, 8), v.to_bytes(3, 'big')))
    syndrome = property(lambda s: s.body[12], lambda s, v: s.body.__setitem__(12, v))
    msn = property(lambda s: int.from_bytes(s.body[13:16], 'big'),
                   lambda s, v: s.body.__setitem__(slice(13, 16), (v & 0xffffff).to_bytes(3, 'big')))
    ip_id = property(lambda s: int.from_bytes(s.ip[4:6], 'big'),
                     lambda s, v: s.ip.__setitem__(slice(4, 6), (v & 0xffff).to_bytes(2, 'big')))

    def source(self):
        return bytes(self.ip[8:24] if self.v6 else self.ip[12:16])

    def compute_icrc(self):
        ip, udp, body = bytearray(self.ip), bytearray(self.udp), bytearray(self.body)
        if self.v6:
            ip[0:4] = b'\x6f\xff\xff\xff'
            ip[7] = 0xff
        else:
            ip[1] = ip[8] = 0xff
            ip[10:12] = b'\xff\xff'
        udp[6:8] = b'\xff\xff'
        if len(body) > 4:
            body[4] = 0xff
        return struct.pack('<I', zlib.crc32(b'\xff' * 8 + ip + udp + body))

    def pseudo_sum(self):
        """The checksum field of UDP before an interface computes the rest: a host's own captures show it."""
        data = (self.ip[8:40] if self.v6 else self.ip[12:20]) + b'\0\x11' + struct.pack('>H', UDP_LEN + len(self.body) + ICRC_LEN)
        total = sum(struct.unpack(f'>{len(data) // 2}H', data))
        total = (total & 0xffff) + (total >> 16)
        return struct.pack('>H', (total & 0xffff) + (total >> 16))

    def encode(self):
        udp_len = UDP_LEN + len(self.body) + ICRC_LEN
        self.udp[4:6] = struct.pack('>H', udp_len)
        if self.v6:
            self.ip[4:6] = struct.pack('>H', udp_len)
        else:
            self.ip[2:4] = struct.pack('>H', 20 + udp_len)
        icrc = self.icrc if self.sealed else self.compute_icrc()
        return self.eth + bytes(self.ip) + bytes(self.udp) + bytes(self.body) + icrc


class Raw:
    """A frame as it is."""

    def __init__(self, time_ns, data):
        self.time_ns, self.data, self.cut = time_ns, data, None

    def encode(self):
        return self.data


def behind_ip(frame, header, proto, v4_header_len=5):
    """The frame with a header between IP and UDP; proto: what IP then names."""
    data = frame.encode()
    at = ETH_LEN + len(frame.ip)
    ip = bytearray(data[ETH_LEN:at])
    if frame.v6:
        ip[4:6] = struct.pack('>H', int.from_bytes(ip[4:6], 'big') + len(header))
        ip[6] = proto
    else:
        ip[0] = 0x40 | v4_header_len
        ip[2:4] = struct.pack('>H', int.from_bytes(ip[2:4], 'big') + len(header))
        ip[9] = proto
    return Raw(frame.time_ns, data[:ETH_LEN] + bytes(ip) + header + data[at:])


def as_v1(frame):
    """The same in RoCEv1: a GRH in place of IP and UDP; its ICRC (annex A16)."""
    mapped = bytes(10) + b'\xff\xff'
    src, dst = (frame.ip[8:24], frame.ip[24:40]) if frame.v6 else (mapped + frame.ip[12:16], mapped + frame.ip[16:20])
    length = len(frame.body) + ICRC_LEN
    masked, body = b'\x6f\xff\xff\xff' + struct.pack('>HBB', length, 0x1b, 0xff) + src + dst, bytearray(frame.body)
    body[4] = 0xff
    icrc = struct.pack('<I', zlib.crc32(b'\xff' * 8 + masked + body))
    grh = struct.pack('>IHBB', 6 << 28, length, 0x1b, 64) + src + dst
    return Raw(frame.time_ns, frame.eth[:12] + b'\x89\x15' + grh + bytes(frame.body) + icrc)


def as_erf(frame):
    """A record of link type ERF with two extension headers."""
    data = frame.encode()
    header = bytes(8) + struct.pack('>BBHHH', 0x82, 0, len(data) + 34, 0, len(data)) + b'\x81' + bytes(7) + b'\x01' + bytes(7) + bytes(2)
    return header + data


def fragments(frame, size=64):
    """The frame as IP fragments, each but the last with size bytes of UDP's."""
    data = frame.encode()
    at = ETH_LEN + len(frame.ip)
    ip, udp = bytearray(data[ETH_LEN:at]), data[at:]
    if len(udp) <= size:
        return [Raw(frame.time_ns, data)]
    found = []
    for offset in range(0, len(udp), size):
        part, more = udp[offset:offset + size], offset + size < len(udp)
        if frame.v6:
            ip[4:6] = struct.pack('>H', 8 + len(part))
            ip[6] = 44
            part = struct.pack('>BBHI', 17, 0, offset | more, frame.psn) + part
        else:
            ip[2:4] = struct.pack('>H', len(ip) + len(part))
            ip[6:8] = struct.pack('>H', more << 13 | offset // 8)
        found.append(Raw(frame.time_ns + offset, data[:ETH_LEN] + bytes(ip) + part))
    return found


def read(path):
    """The frames of a classic pcap file in microseconds or nanoseconds, Ethernet."""
    with open(path, 'rb') as f:
        data = f.read()
    magic, link = struct.unpack('<I', data[:4])[0], struct.unpack('<I', data[20:24])[0]
    unit = {0xa1b2c3d4: 1000, 0xa1b23c4d: 1}[magic]
    if link != ETHERNET:
        raise ValueError(f'{path}: link type {link}')
    frames, at = [], 24
    while at < len(data):
        sec, frac, length, _ = struct.unpack('<IIII', data[at:at + 16])
        frames.append(Frame(sec * 10**9 + frac * unit, data[at + 16:at + 16 + length]))
        at += 16 + length
    return frames


def write(path, frames):
    with open(path, 'wb') as f:
        f.write(struct.pack('<IHHiIII', 0xa1b23c4d, 2, 4, 0, 0, 65535, ETHERNET))
        for frame in frames:
            data = frame.encode()
            kept = data if frame.cut is None else data[:frame.cut]
            f.write(struct.pack('<IIII', frame.time_ns // 10**9, frame.time_ns % 10**9, len(kept), len(data)))
            f.write(kept)
