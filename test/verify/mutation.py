# SPDX-License-Identifier: BSD-2-Clause
"""What mutations of captures are made with: mutations_*.py."""

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


def offloaded(frame, captured):
    """The frame, cut, as the sender's own interface shows what it is yet to segment: others may be behind it."""
    frame.udp[6:8] = frame.pseudo_sum()
    frame.cut = captured
