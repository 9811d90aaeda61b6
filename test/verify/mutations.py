# SPDX-License-Identifier: BSD-2-Clause
"""For each finding of `rocemu verify`, recorded captures changed in just that respect. A mutation takes the frames of a
capture (a copy) and changes them or returns others."""
import struct

SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_ONLY = 0, 1, 2, 4
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST = 6, 7, 8
READ, RESP_FIRST, RESP_MIDDLE, RESP_LAST, RESP_ONLY = 12, 13, 14, 15, 16
ACK, ATOMIC_ACK, FETCH_ADD = 17, 18, 20
UD_SEND, CNP = 0x64, 0x81
BTH, RETH = 12, 16

MUTATIONS = []  # (finding; empty: no error may be found, capture, function)


def mutation(finding, *captures):
    def add(function):
        MUTATIONS.extend((finding, capture, function) for capture in captures)
        return function
    return add


def those(frames, *opcodes):
    return [f for f in frames if f.opcode in opcodes]


def after(frames, frame, *new):
    """New frames behind a frame, a microsecond apart."""
    at = frames.index(frame) + 1
    for i, n in enumerate(new):
        n.time_ns = frame.time_ns + 1000 * (i + 1)
    frames[at:at] = new


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


# ---- CM ----

def mads(frames):
    return [f for f in those(frames, UD_SEND) if f.dqpn == 1]


def attribute(frames, wanted):
    """The first MAD with an attribute."""
    return [f for f in mads(frames) if f.body[MAD + 17] == wanted][0]


REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP, LAP, APR = range(0x10, 0x1b)
MAD = 20  # where it begins: behind BTH and DETH


def flip(frame, offset):
    """Change a byte of the MAD."""
    frame.body[MAD + offset] ^= 1


@mutation('cm-form', 'cm_reject_no_listener')
def reject_information_too_long(frames):
    attribute(frames, REJ).body[MAD + 33] = 0xff


@mutation('cm-form', 'cm_rping', 'cm_udaddy')
def mad_shorter(frames):
    del mads(frames)[0].body[-4:]


@mutation('cm-side', 'cm_rping', 'cm_rping_ipv6')
def rep_from_the_active_side(frames):
    attribute(frames, RTU).body[MAD + 17] = REP


@mutation('cm-side', 'cm_reject_no_listener')
def reject_of_a_rep_by_who_sends_reps(frames):
    attribute(frames, REJ).body[MAD + 32] = 0x40


def seconds_later(frames, frame, attr):
    """The last frame again as another message, two seconds later."""
    again = frame.copy(ip_id=frame.ip_id + 999, time_ns=frames[-1].time_ns + 2_000_000_000)
    again.body[MAD + 17] = attr
    frames.append(again)
    return again


@mutation('cm-order', 'cm_rping', 'cm_rping_ipv6')
def rep_after_rej(frames):
    rep = attribute(frames, REP)
    seconds_later(frames, rep, REP)
    rep.body[MAD + 17], rep.body[MAD + 32], rep.body[MAD + 33] = REJ, 0, 0


@mutation('cm-order', 'cm_rping')
def rej_after_rtu(frames):
    seconds_later(frames, attribute(frames, RTU), REJ).body[MAD + 32] = 0x40


@mutation('cm-order', 'cm_rping', 'cm_ucmatose')
def dreq_after_drep(frames):
    seconds_later(frames, attribute(frames, DREP), DREQ)


@mutation('undecided', 'cm_rping')
def dreq_right_after_drep(frames):
    seconds_later(frames, attribute(frames, DREP), DREQ).time_ns = frames[-2].time_ns + 1000


@mutation('cm-tid', 'cm_rping', 'cm_rping_ipv6')
def rep_of_another_transaction(frames):
    flip(attribute(frames, REP), 15)


@mutation('cm-tid', 'cm_ucmatose')
def drep_of_another_transaction(frames):
    flip(attribute(frames, DREP), 15)


@mutation('cm-tid', 'cm_udaddy')
def sidr_rep_of_another_transaction(frames):
    flip(attribute(frames, SIDR_REP), 12)


@mutation('cm-comm-id', 'cm_rping', 'cm_ucmatose')
def rtu_to_another_id(frames):
    flip(attribute(frames, RTU), 31)


@mutation('cm-comm-id', 'cm_rping')
def drep_from_another_id(frames):
    flip(attribute(frames, DREP), 27)


@mutation('cm-qpn', 'cm_rping', 'cm_ucmatose')
def dreq_for_another_qp(frames):
    flip(attribute(frames, DREQ), 34)


@mutation('cm-qpn', 'cm_rping')
def lap_for_another_qp(frames):
    dreq = attribute(frames, DREQ)
    dreq.body[MAD + 17] = LAP
    flip(dreq, 36)


@mutation('cm-address', 'cm_rping', 'cm_rping_ipv6')
def path_from_another_gid(frames):
    flip(attribute(frames, REQ), 80 + 15)


@mutation('cm-address', 'cm_rping', 'cm_rping_ipv6')
def private_data_from_another_address(frames):
    flip(attribute(frames, REQ), 164 + 4 + 15)


@mutation('cm-address', 'cm_udaddy')
def private_data_of_another_version(frames):
    attribute(frames, SIDR_REQ).body[MAD + 24 + 16] = 0x77


@mutation('cm-again', 'cm_rping', 'cm_udaddy')
def request_sent_again(frames):
    req = mads(frames)[0]
    after(frames, req, req.copy(ip_id=req.ip_id + 999))


@mutation('cm-differs', 'cm_rping', 'cm_reject_no_listener')
def request_sent_again_with_another_psn(frames):
    req = attribute(frames, REQ)
    again = req.copy(ip_id=req.ip_id + 999)
    flip(again, 70)
    after(frames, req, again)


@mutation('cm-differs', 'cm_rping', 'cm_reject_no_listener')
def request_sent_again_with_other_vendor_options(frames):
    req = attribute(frames, REQ)
    again = req.copy(ip_id=req.ip_id + 999)
    again.body[MAD + 23] ^= 1
    after(frames, req, again)


@mutation('cm-unanswered', 'cm_reject_no_listener', 'cm_rping', 'cm_udaddy')
def last_answer_missing(frames):
    frames.remove([f for f in mads(frames) if f.body[MAD + 17] in (REJ, DREP, SIDR_REP)][-1])


@mutation('cm-missing', 'cm_rping', 'cm_ucmatose')
def drep_without_dreq(frames):
    for f in [f for f in mads(frames) if f.body[20 + 17] == 0x15]:
        frames.remove(f)


@mutation('cm-start-psn', 'cm_rping', 'cm_rping_ipv6', 'cm_ucmatose')
def rep_announces_another_psn(frames):
    attribute(frames, 0x13).body[20 + 46] ^= 1


# ---- connections ----

@mutation('unpaired', 'rc_send', 'rc_read')
def one_direction_only(frames):
    return [f for f in frames if f.source() == frames[0].source()]


@mutation('too-many-connections', 'ud_send')
def seventy_thousand_queue_pairs(frames):
    return [frames[0].copy(dqpn=qpn) for qpn in range(2, 70002)]
