# SPDX-License-Identifier: BSD-2-Clause
"""Mutations of connection management."""
from mutation import UD_SEND, after, mutation, those


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
