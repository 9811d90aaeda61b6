# SPDX-License-Identifier: BSD-2-Clause
"""Messages of connection management made by hand and sent from a plain UDP socket, as any user of a host can. Nothing of
rocemu is used; IPv4."""
import collections
import os
import socket
import struct
import zlib

import icrc_check

ROCE_PORT = 4791
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'golden', 'cm_rping.pcap')
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2   # then the kernel sends identification 0
HEADERS = 20                              # BTH and DETH
MAD_LEN = 256
GSI_QKEY = 0x80010000

# Attribute IDs (IBTA 12.6).
REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP, LAP, APR = range(0x10, 0x1b)
TO_REQ, TO_REP, TO_OTHER = range(3)

# Offsets in a MAD.
TID, ATTR, BODY = 8, 16, 24
LOCAL_ID, REMOTE_ID = BODY, BODY + 4
REQ_SERVICE, REQ_GUID, REQ_QPN, REQ_PATH, REQ_CMA = BODY + 8, BODY + 16, BODY + 32, BODY + 56, BODY + 144
REQ_TIMEOUT, REQ_RETRIES, REQ_ACK_TIMEOUT = BODY + 47, BODY + 51, BODY + 95    # in the upper 5, 4, 5 bits
REP_QPN, REP_GUID = BODY + 12, BODY + 28
DREQ_QPN, LAP_QPN = BODY + 8, BODY + 12


def golden_req():
    """rping's REQ, as the kernel sent it."""
    with open(GOLDEN, 'rb') as f:
        return bytearray(next(icrc_check.packets(f.read())).bth_on[HEADERS:HEADERS + MAD_LEN])


def put_qpn(mad, at, qpn):
    mad[at:at + 3] = qpn.to_bytes(3, 'big')


def get_qpn(mad, at):
    return int.from_bytes(mad[at:at + 3], 'big')


def message(attr, tid, local_id=0, remote_id=0):
    """A message with nothing in it but who it is from and for."""
    mad = bytearray(MAD_LEN)
    mad[0:4] = 1, 7, 2, 3                 # base version, class, its version, Send
    struct.pack_into('>Q', mad, TID, tid)
    struct.pack_into('>H', mad, ATTR, attr)
    struct.pack_into('>II', mad, LOCAL_ID, local_id, remote_id)
    return mad


class Sender:
    """A UDP socket of an address, to the QP 1 of another."""

    def __init__(self, src, dst):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((src, 0))
        self.socket.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
        self.src, self.dst = src, dst
        udp = 8 + HEADERS + MAD_LEN + 4
        self.before = zlib.crc32(b'\xff' * 8 + struct.pack(
            '>BBHHHBBH4s4sHHHH', 0x45, 0xff, 20 + udp, 0, 0x4000, 0xff, socket.IPPROTO_UDP, 0xffff, socket.inet_aton(src),
            socket.inet_aton(dst), self.socket.getsockname()[1], ROCE_PORT, udp, 0xffff))
        self.headers = struct.pack('>BBHIIII', 0x64, 0, 0xffff, 1, 0x80000000, GSI_QKEY, 1)
        self.masked = self.headers[:4] + b'\xff' + self.headers[5:]

    def packet(self, mad):
        mad = bytes(mad)
        return self.headers + mad + struct.pack('<I', zlib.crc32(mad, zlib.crc32(self.masked, self.before)))

    def send_packet(self, packet):
        try:
            self.socket.sendto(packet, (self.dst, ROCE_PORT))
        except OSError:
            pass    # what came back of an earlier one, or no room

    def send(self, mad):
        self.send_packet(self.packet(mad))


class Requests:
    """REQs to a port, rping's with other IDs and another QP each time. Each source begins with numbers of its own."""

    def __init__(self, src, dst, port):
        self.sender = Sender(src, dst)
        self.mad = golden_req()
        # The path's addresses and those of annex A11's header are the packet's.
        for at in (REQ_PATH, REQ_CMA):
            self.mad[at + 12:at + 16] = socket.inet_aton(src)
            self.mad[at + 28:at + 32] = socket.inet_aton(dst)
        self.service(port)
        self.serial = int.from_bytes(socket.inet_aton(src)[2:], 'big') << 16

    def service(self, port):
        struct.pack_into('>Q', self.mad, REQ_SERVICE, 0x01060000 | port)

    def demand_most(self):
        """The answer is to be repeated as often and as soon as a REQ can demand."""
        self.mad[REQ_TIMEOUT] &= 7
        self.mad[REQ_ACK_TIMEOUT] &= 7
        self.mad[REQ_RETRIES] |= 0xf0

    def next(self):
        self.serial += 1
        struct.pack_into('>Q', self.mad, TID, self.serial)
        struct.pack_into('>I', self.mad, LOCAL_ID, self.serial & 0xffffffff)
        put_qpn(self.mad, REQ_QPN, self.serial & 0xffffff)
        return self.mad

    def send(self):
        self.sender.send(self.next())


Seen = collections.namedtuple('Seen', 'attr tid local_id remote_id mad')


def captured(path):
    """The messages of a capture, oldest first."""
    with open(path, 'rb') as f:
        data = f.read()
    found = []
    for packet in icrc_check.packets(data):
        if packet.bth_on[0] != 0x64 or len(packet.bth_on) < HEADERS + MAD_LEN:
            continue
        mad = packet.bth_on[HEADERS:HEADERS + MAD_LEN]
        found.append(Seen(struct.unpack_from('>H', mad, ATTR)[0], struct.unpack_from('>Q', mad, TID)[0],
                          *struct.unpack_from('>II', mad, LOCAL_ID), mad))
    return found
