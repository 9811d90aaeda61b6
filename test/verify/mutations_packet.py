# SPDX-License-Identifier: BSD-2-Clause
"""Mutations of packets by themselves, whatever came before them."""
import struct

import capfile
from mutation import (
    ACK, ATOMIC_ACK, BTH, FETCH_ADD, READ, RESP_ONLY, SEND_ONLY, UD_SEND, WRITE_FIRST, after, mutation, offloaded, those)


# ---- a packet by itself ----

@mutation('icrc-wrong', 'rc_send', 'ipv6_rc_send', 'ud_send', 'rc_atomic')
def bit_flipped(frames):
    f = frames[-1]
    f.sealed = True
    f.body[-1] ^= 4


@mutation('icrc-wrong', 'rc_read', 'rc_send')
def version_damaged_on_the_way(frames):
    frames[2].sealed = True
    frames[2].body[1] ^= 4


@mutation('icrc-wrong', 'rc_read')
def icrc_in_the_other_byte_order(frames):
    frames[2].sealed = True
    frames[2].icrc = frames[2].icrc[::-1]


@mutation('cut', 'rc_write', 'ipv6_rc_read')
def captured_to_96_bytes(frames):
    for f in frames:
        f.cut = 96


@mutation('unsegmented', 'rc_write')
def burst_as_one_frame(frames):
    those(frames, WRITE_FIRST)[0].body.extend(bytes(8192))


@mutation('malformed', 'rc_read')
def reth_cut_off(frames):
    f = those(frames, READ)[0]
    del f.body[BTH + 4:]


@mutation('opcode-unknown', 'rc_send')
def reserved_opcode(frames):
    frames[0].opcode = 0x1f


@mutation('opcode-unknown', 'rc_send')
def manufacturers_opcode(frames):
    frames[0].opcode = 0xc1


@mutation('tver', 'rc_send', 'ud_send')
def version_1(frames):
    frames[0].body[1] |= 1


@mutation('pad', 'rc_send')
def pad_on_an_acknowledge(frames):
    those(frames, ACK)[0].body[1] |= 0x10


@mutation('pad', 'rc_many_sends')
def length_no_multiple_of_four(frames):
    del those(frames, SEND_ONLY)[3].body[-1:]


@mutation('reserved-bits', 'rc_send')
def reserved_bit_beside_ackreq(frames):
    frames[0].body[8] |= 1


@mutation('vendor-bits', 'rc_many_sends', 'ipv6_rc_write')
def requests_of_a_huawei_hns(frames):
    for f in frames:
        if f.opcode != ACK:
            f.body[4] |= 0x10


@mutation('reserved-bits', 'rc_send')
def reserved_bits_of_no_known_adapter(frames):
    frames[0].body[4] |= 0x20


@mutation('pkey', 'rc_many_sends')
def pkey_changes(frames):
    frames[20].body[2:4] = b'\x80\x05'


@mutation('pkey', 'uc_send')
def pkey_zero(frames):
    frames[1].body[2:4] = b'\x80\x00'


@mutation('pkey', 'rc_send')
def limited_member_on_both_sides(frames):
    for f in frames:
        f.body[2:4] = b'\x7f\xff'


# ---- IP ----

@mutation('ip-fragment', 'rc_write', 'ipv6_rc_write', 'ud_send', 'cm_rping')
def all_in_fragments(frames):
    return [part for f in frames for part in capfile.fragments(f)]


@mutation('ip-fragment', 'rc_send', 'ipv6_rc_read')
def fragments_out_of_order(frames):
    return [part for f in frames for part in reversed(capfile.fragments(f))]


@mutation('ip-options', 'rc_send')
def router_alert(frames):
    return [capfile.behind_ip(f, b'\x94\4\0\0', 17, 6) for f in frames]


@mutation('ip-options', 'ipv6_rc_write')
def segment_routing_header(frames):
    return [capfile.behind_ip(f, bytes((17, 2, 4, 0, 0, 0, 0, 0)) + f.ip[24:40], 43) for f in frames]


@mutation('ip-options', 'ipv6_rc_read', 'ipv6_ud_send')
def hop_by_hop_options_before_segment_routing(frames):
    return [capfile.behind_ip(f, bytes((43, 0, 1, 4, 0, 0, 0, 0, 17, 2, 4, 0, 0, 0, 0, 0)) + f.ip[24:40], 0) for f in frames]


# ---- FLUSH, ATOMIC WRITE ----

WRITE_ONLY, FLUSH, ATOMIC_WRITE = 10, 0x1c, 0x1d


def asks_for(frames, opcode, header=b'', payload=b'', length=0):
    """The first WRITE ONLY becomes another request, answered by a READ response of nothing."""
    f = those(frames, WRITE_ONLY)[0]
    answer = [a for a in those(frames, ACK) if a.psn == f.psn][0]
    f.opcode, answer.opcode = opcode, RESP_ONLY
    f.body[1] &= 0xcf
    reth = f.body[BTH:BTH + 8] + f.body[BTH + 8:BTH + 12] + struct.pack('>I', length)
    f.body[BTH:] = header + reth + payload
    return f


@mutation('', 'rc_write', 'ipv6_rc_write')
def flush_of_a_range(frames):
    asks_for(frames, FLUSH, b'\x00\x00\x00\x03', length=4096)


@mutation('', 'rc_write', 'ipv6_rc_write')
def atomic_write(frames):
    asks_for(frames, ATOMIC_WRITE, payload=bytes(8), length=8).body[BTH + 7] &= 0xf8


@mutation('flush-form', 'rc_write', 'ipv6_rc_write')
def flush_of_nothing(frames):
    asks_for(frames, FLUSH, b'\x00\x00\x00\x10')


@mutation('flush-form', 'rc_write')
def flush_of_a_reserved_level(frames):
    asks_for(frames, FLUSH, b'\x00\x00\x00\x21')


@mutation('atomic-write-form', 'rc_write')
def atomic_write_of_4_bytes(frames):
    asks_for(frames, ATOMIC_WRITE, payload=bytes(4), length=4)


@mutation('atomic-unaligned', 'rc_atomic', 'ipv6_rc_atomic')
def atomic_at_an_odd_address(frames):
    those(frames, FETCH_ADD)[0].body[BTH + 7] |= 1


@mutation('atomic-unaligned', 'rc_write')
def atomic_write_at_an_odd_address(frames):
    asks_for(frames, ATOMIC_WRITE, payload=bytes(8), length=8).body[BTH + 7] |= 4


@mutation('read-response-length', 'rc_write')
def flush_answered_with_data(frames):
    asks_for(frames, FLUSH, b'\x00\x00\x00\x01')
    those(frames, RESP_ONLY)[0].body.extend(bytes(8))


@mutation('ack-names-read', 'rc_read', 'rc_atomic')
def answered_by_an_acknowledge(frames):
    f = those(frames, RESP_ONLY, ATOMIC_ACK)[1]
    f.opcode = ACK
    f.body[1] &= 0xcf
    del f.body[BTH + 4:]


# ---- UD ----

def datagrams(frames):
    return [f for f in those(frames, UD_SEND, UD_SEND + 1) if f.dqpn != 1]


@mutation('qkey', 'ud_send', 'ipv6_ud_send', 'cm_udaddy')
def another_qkey(frames):
    datagrams(frames)[1].body[BTH + 3] ^= 1


@mutation('gsi-qkey', 'cm_rping', 'cm_udaddy')
def mad_without_the_qkey(frames):
    frames[0].body[BTH] = 0


@mutation('ud-qpn', 'ud_send')
def from_qp_0(frames):
    datagrams(frames)[1].body[BTH + 5:BTH + 8] = bytes(3)


@mutation('ud-qpn', 'mckey')
def from_the_multicast_qp(frames):
    datagrams(frames)[1].body[BTH + 5:BTH + 8] = b'\xff\xff\xff'


@mutation('ud-psn', 'ud_send', 'mckey')
def datagram_missing(frames):
    frames.remove(datagrams(frames)[1])


@mutation('ud-psn', 'ud_send')
def datagram_missing_before_a_cut_burst(frames):
    frames.remove(datagrams(frames)[1])
    offloaded(datagrams(frames)[1], 96)


@mutation('ud-psn', 'ud_send')
def datagram_twice(frames):
    after(frames, frames[0], frames[0].copy())


@mutation('multicast-qpn', 'mckey')
def multicast_to_a_qp(frames):
    datagrams(frames)[1].dqpn = 0x11


@mutation('multicast-qpn', 'ud_send', 'ipv6_ud_send')
def multicast_qp_at_a_host(frames):
    datagrams(frames)[1].dqpn = 0xffffff


@mutation('multicast-qpn', 'mckey')
def reliable_multicast(frames):
    datagrams(frames)[1].opcode = SEND_ONLY


@mutation('multicast-mac', 'mckey')
def group_of_another_mac(frames):
    f = datagrams(frames)[0]
    f.eth = b'\x01\x00\x5e\x01\x02\x04' + f.eth[6:]


@mutation('multicast-mac', 'ipv6_ud_send')
def ipv6_group_of_another_mac(frames):
    f = datagrams(frames)[1]
    f.dqpn = 0xffffff
    f.ip[24:40] = bytes.fromhex('ff0e0000000000000000000000000001')
    f.eth = bytes.fromhex('333300000002') + f.eth[6:]


@mutation('reserved-bits', 'ud_send')
def reserved_byte_of_the_deth(frames):
    frames[0].body[BTH + 4] = 1
