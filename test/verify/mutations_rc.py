# SPDX-License-Identifier: BSD-2-Clause
"""Mutations of packets of reliable and unreliable connections: messages, PSNs, answers, credits."""
import struct

from mutation import (
    ACK, ATOMIC_ACK, BTH, CNP, FETCH_ADD, READ, RESP_FIRST, RESP_LAST, RESP_MIDDLE, RESP_ONLY, RETH,
    SEND_FIRST, SEND_LAST, SEND_MIDDLE, SEND_ONLY, WRITE_FIRST, WRITE_LAST, WRITE_MIDDLE, after, mutation,
    offloaded, those)


# ---- messages ----

@mutation('opcode-order', 'rc_write', 'mtu256_rc_write', 'ipv6_rc_write')
def send_middle_inside_a_write(frames):
    those(frames, WRITE_MIDDLE)[1].opcode = SEND_MIDDLE


@mutation('opcode-order', 'rc_send', 'pingpong_rc')
def first_instead_of_middle(frames):
    those(frames, SEND_MIDDLE)[0].opcode = SEND_FIRST


@mutation('opcode-order', 'rc_send')
def middle_without_first(frames):
    those(frames, SEND_FIRST)[0].opcode = SEND_MIDDLE


@mutation('opcode-order', 'uc_write')
def uc_last_becomes_write_middle(frames):
    f = those(frames, 0x28)[0]
    f.opcode = 0x21


@mutation('mtu-length', 'rc_write', 'rc_send', 'uc_write')
def middle_shorter(frames):
    del those(frames, WRITE_MIDDLE, SEND_MIDDLE, 0x27)[0].body[-4:]


@mutation('last-length', 'rc_write', 'uc_write')
def last_longer_than_the_mtu(frames):
    f = those(frames, WRITE_LAST, 0x28)[0]
    f.body.extend(bytes(1028 - (len(f.body) - BTH)))


@mutation('last-length', 'rc_send')
def last_empty(frames):
    f = those(frames, SEND_LAST)[0]
    f.body[1] &= 0xcf
    del f.body[BTH:]


@mutation('reth-length', 'rc_write', 'mtu256_rc_write', 'ipv6_uc_write')
def reth_says_less(frames):
    f = those(frames, WRITE_FIRST, 0x26)[0]
    length = struct.unpack('>I', f.body[BTH + 12:BTH + 16])[0]
    f.body[BTH + 12:BTH + 16] = struct.pack('>I', length - 4)


# ---- PSNs ----

@mutation('psn-gap', 'uc_send', 'rc_many_sends', 'mtu256_rc_write_long')
def request_missing(frames):
    sends = [f for f in frames if f.opcode not in (ACK,)]
    frames.remove(sends[len(sends) // 2])


@mutation('psn-jump', 'rc_many_sends')
def psns_moved_from_the_middle_on(frames):
    for f in frames[len(frames) // 2:]:
        f.psn += 0x300000


@mutation('psn-jump', 'rc_read', 'rc_read_pipelined')
def second_connection_of_the_same_numbers_that_begins_with_a_read(frames):
    later = frames[-1].time_ns - frames[0].time_ns + 10_000_000_000
    again = [f.copy(ip_id=f.ip_id + 999, time_ns=f.time_ns + later) for f in frames]
    for read in those(again, READ):
        read.body[BTH + 2] ^= 1  # other memory
    frames.extend(again)


@mutation('psn-reserved', 'rc_mixed_pipelined')
def atomic_within_the_psns_of_a_read(frames):
    those(frames, FETCH_ADD)[0].psn -= 1


def as_xrc(frames):
    """The same over XRC: requests have an XRCETH behind the BTH."""
    for f in frames:
        if f.opcode not in (ACK, ATOMIC_ACK, RESP_FIRST, RESP_MIDDLE, RESP_LAST, RESP_ONLY):
            f.body[BTH:BTH] = struct.pack('>I', 77)
        f.opcode |= 0xa0


@mutation('', 'rc_write', 'rc_send', 'rc_read', 'rc_read_pipelined', 'rc_atomic', 'rc_rnr', 'ipv6_rc_read', 'mtu256_rc_write')
def over_xrc(frames):
    as_xrc(frames)


@mutation('xrc-srq', 'rc_write', 'rc_send')
def srq_changes_within_a_message(frames):
    last = those(frames, SEND_LAST, WRITE_LAST)[0]
    as_xrc(frames)
    last.body[BTH + 3] ^= 1


@mutation('late', 'rc_write', 'uc_write')
def two_packets_exchanged(frames):
    a, b = (frames.index(f) for f in those(frames, WRITE_MIDDLE, 0x27)[:2])
    frames[a], frames[b] = frames[b], frames[a]


@mutation('dup-frame', 'rc_many_sends', 'rc_atomic')
def frame_twice(frames):
    after(frames, frames[0], frames[0].copy())


@mutation('retransmission', 'rc_many_sends', 'rc_write')
def sent_again(frames):
    after(frames, frames[0], frames[0].copy(ip_id=frames[0].ip_id + 999))


@mutation('retransmission-differs', 'rc_many_sends')
def sent_again_with_another_opcode(frames):
    after(frames, frames[0], frames[0].copy(ip_id=frames[0].ip_id + 999, opcode=SEND_FIRST))


@mutation('retransmission-differs', 'rc_atomic')
def atomic_sent_again_with_another_operand(frames):
    again = frames[0].copy(ip_id=frames[0].ip_id + 999)
    again.body[BTH + 19] ^= 1
    after(frames, frames[0], again)


# ---- acknowledges ----

@mutation('ack-unsent', 'rc_many_sends')
def ack_ahead(frames):
    those(frames, ACK)[1].psn += 200


@mutation('ack-early', 'rc_many_sends', 'pingpong_rc', 'rc_atomic')
def request_and_answer_exchanged(frames):
    at = [i for i, f in enumerate(frames) if f.opcode in (ACK, ATOMIC_ACK) and f.psn == frames[i - 1].psn][2]
    frames[at - 1], frames[at] = frames[at], frames[at - 1]


@mutation('ack-unseen', 'rc_many_sends')
def last_ack_ahead(frames):
    those(frames, ACK)[-1].psn += 5


@mutation('capture-loss', 'rc_many_sends', 'pingpong_rc')
def acknowledged_but_not_captured(frames):
    f = those(frames, SEND_ONLY, SEND_LAST)[2]
    frames.remove(f)


@mutation('ack-old', 'rc_many_sends')
def acks_exchanged(frames):
    a, b = (frames.index(f) for f in those(frames, ACK)[-3:-1])
    frames[a], frames[b] = frames[b], frames[a]


@mutation('aeth-reserved', 'rc_send')
def syndrome_of_the_reserved_class(frames):
    those(frames, ACK)[1].syndrome = 0x40


@mutation('aeth-reserved', 'rc_send')
def nak_of_the_rd_service(frames):
    those(frames, ACK)[1].syndrome = 0x64


@mutation('aeth-reserved', 'rc_read')
def nak_in_a_read_response(frames):
    those(frames, RESP_ONLY)[0].syndrome = 0x61


@mutation('nak-sequence', 'rc_write')
def sequence_nak(frames):
    those(frames, ACK)[-1].syndrome = 0x60
    those(frames, ACK)[-1].psn -= 2


@mutation('nak-no-gap', 'rc_send', 'rc_srq')
def sequence_nak_for_the_newest(frames):
    those(frames, ACK)[0].syndrome = 0x60


@mutation('nak-repeated', 'rc_write')
def sequence_nak_twice(frames):
    f = those(frames, ACK)[-1]
    f.syndrome = 0x60
    f.psn -= 2
    after(frames, f, f.copy(ip_id=f.ip_id + 999))


@mutation('nak-error', 'rc_acc_err_rkey', 'rc_inv_req_atomic_noperm')
def refused_as_recorded(_frames):
    pass


@mutation('rxe-nak-too-long', 'rc_inv_req_toolong', 'rc_inv_req_toolong_single')
def too_long_as_recorded(_frames):
    pass


@mutation('msn', 'rc_many_sends', 'ipv6_rc_send', 'cm_rping')
def msn_one_less(frames):
    those(frames, ACK)[-1].msn -= 1


@mutation('', 'rc_many_sends')
def answers_to_duplicates_name_a_psn_before_a_read(frames):
    """As who may not acknowledge a READ does: its MSN counts the READ, its PSN is the one before."""
    f = those(frames, ACK)[0]
    f.msn += 1
    after(frames, f, *(f.copy(ip_id=f.ip_id + 900 + n) for n in range(4)))


@mutation('msn', 'rc_many_sends')
def msn_counts_twice(frames):
    for i, f in enumerate(those(frames, ACK)):
        f.msn += 2 * max(0, i - 5)


@mutation('msn', 'cm_rping')
def msn_of_a_read_stands(frames):
    those(frames, RESP_ONLY)[-1].msn -= 1


# ---- RNR ----

@mutation('rnr-nak', 'rc_rnr', 'rc_rnr_exhausted')
def rnr_as_recorded(_frames):
    pass


def early(frames):
    first, again = those(frames, SEND_ONLY)[:2]
    nak = frames[frames.index(again) - 1]
    nak.time_ns = first.time_ns + 100_000
    again.time_ns = nak.time_ns + 100_000


@mutation('rnr-early', 'rc_rnr', 'rc_rnr_exhausted')
def again_after_a_tenth_of_a_millisecond(frames):
    early(frames)


@mutation('rnr-early-unsure', 'rc_rnr')
def again_early_without_identification(frames):
    for f in frames:
        f.ip_id = 0
    early(frames)


@mutation('undecided', 'rc_rnr')
def again_early_in_a_network_that_doubles(frames):
    early(frames)
    after(frames, frames[-1], those(frames, SEND_ONLY)[-1].copy())


# ---- READ and atomic ----

@mutation('read-response-stray', 'rc_mixed_pipelined')
def response_to_a_write(frames):
    those(frames, ATOMIC_ACK)[0].psn = frames[0].psn


@mutation('read-response-stray', 'rc_mixed_pipelined')
def read_response_to_a_write(frames):
    those(frames, RESP_MIDDLE)[0].psn = frames[0].psn


@mutation('read-response-opcode', 'rc_read', 'ipv6_rc_read', 'rc_read_pipelined')
def middle_instead_of_last(frames):
    those(frames, RESP_LAST)[0].opcode = RESP_MIDDLE


@mutation('read-response-opcode', 'rc_read', 'rc_read_pipelined')
def middle_instead_of_first(frames):
    f = those(frames, RESP_FIRST)[-1]
    f.opcode = RESP_MIDDLE
    del f.body[BTH:BTH + 4]  # no AETH


@mutation('read-response-unsure', 'rc_read', 'ipv6_rc_read', 'rc_read_pipelined')
def only_instead_of_last(frames):
    those(frames, RESP_LAST)[0].opcode = RESP_ONLY


@mutation('response-again', 'rc_read', 'ipv6_rc_read')
def response_twice(frames):
    f = those(frames, RESP_MIDDLE)[1]
    after(frames, f, f.copy())


@mutation('read-response-length', 'rc_read', 'mtu4096_rc_read')
def last_response_shorter(frames):
    del those(frames, RESP_LAST)[0].body[-4:]


@mutation('read-response-length', 'rc_read')
def only_response_longer(frames):
    those(frames, RESP_ONLY)[1].body.extend(bytes(4))


@mutation('read-response-gap', 'rc_read', 'rc_read_pipelined')
def response_missing(frames):
    frames.remove(those(frames, RESP_MIDDLE)[0])


@mutation('read-response-gap', 'rc_read', 'ipv6_rc_read')
def response_missing_before_a_cut_burst(frames):
    frames.remove(those(frames, RESP_MIDDLE)[-1])
    offloaded(those(frames, RESP_LAST)[-1], 96)


def read_repeated(frames, skip):
    """The longest READ again after its responses, from packet `skip` on."""
    first = those(frames, RESP_FIRST)[0]
    read = [f for f in those(frames, READ) if f.psn == first.psn][0]
    va, key, length = struct.unpack('>QII', read.body[BTH:BTH + RETH])
    again = read.copy(ip_id=read.ip_id + 999, psn=read.psn + skip)
    again.body[BTH:BTH + RETH] = struct.pack('>QII', va + 1024 * skip, key, length - 1024 * skip)
    return those(frames, RESP_LAST)[0], again


@mutation('read-restart', 'rc_read')
def read_again_from_another_address(frames):
    last, again = read_repeated(frames, 2)
    again.body[BTH + 7] ^= 8
    after(frames, last, again)


@mutation('read-restart', 'rc_read')
def read_again_beyond_its_end(frames):
    last, again = read_repeated(frames, 2)
    again.body[BTH + 12:BTH + 16] = struct.pack('>I', 5000)
    after(frames, last, again)


@mutation('read-overtaken', 'rc_mixed_pipelined')
def atomic_response_missing(frames):
    frames.remove(those(frames, ATOMIC_ACK)[0])


@mutation('rxe-read-replay', 'rc_read')
def repeated_read_answered_by_a_middle(frames):
    last, again = read_repeated(frames, 2)
    old = [f for f in those(frames, RESP_MIDDLE) if f.psn == again.psn][0]
    after(frames, last, again, old.copy(ip_id=old.ip_id + 999))


@mutation('atomic-replay', 'rc_atomic', 'ipv6_rc_atomic')
def second_result(frames):
    f = those(frames, ATOMIC_ACK)[0]
    again = f.copy()
    again.body[-1] ^= 1
    after(frames, f, again)


# ---- credits, congestion ----

@mutation('credit', 'rc_many_sends')
def sends_without_credit(frames):
    acks = those(frames, ACK)
    acks[0].syndrome = 2
    rest = [f for f in frames if f not in acks[1:]]
    for f in acks[1:]:
        f.syndrome = 2
        f.time_ns = rest[-1].time_ns + 1000
    return rest + acks[1:]


@mutation('credit-mixed', 'rc_many_sends')
def credits_all_at_once(frames):
    those(frames, ACK)[5].syndrome = 3


def cnp(frames):
    f = those(frames, ACK)[0].copy(opcode=CNP, psn=0)
    f.body[4] |= 0x40
    f.body[BTH:] = bytes(16)
    after(frames, frames[-1], f)
    return f


@mutation('cnp', 'rc_send')
def congestion_marked(frames):
    frames[0].ip[1] |= 3
    cnp(frames)


@mutation('cnp-without-ce', 'rc_send')
def congestion_not_marked(frames):
    cnp(frames)


@mutation('cnp-form', 'rc_send')
def cnp_without_becn(frames):
    cnp(frames).body[4] &= 0xbf


@mutation('cnp-form', 'rc_send')
def cnp_too_short(frames):
    del cnp(frames).body[-4:]
