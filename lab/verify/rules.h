/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of all findings: IDs, severities, sources of the rules, and meanings. IDs are stable:
 * scripts filter by them.
 *
 * ERROR: the wire shows something that no correct implementation sends. WARN: possibly right, or
 * caused by the network; worth a check. NOTE: an event (a retransmission), or a case that the
 * capture cannot decide.
 */
#ifndef VERIFY_RULES_H
#define VERIFY_RULES_H

#include <stdbool.h>

enum severity { SEV_NOTE, SEV_WARN, SEV_ERROR, SEV_COUNT };

/* clang-format off */
/* X(NAME, "id", severity, "clause", "one line", "explanation") */
#define VERIFY_RULES(X) \
	X(ICRC_WRONG, "icrc-wrong", ERROR, "IBTA A17.3.3", "the ICRC does not fit the packet", \
	  "A receiver drops such a packet silently. Either it was damaged on the way, or its sender computes the ICRC over " \
	  "other fields than the standard does. The rest of the rules pass the packet over, as a receiver would.") \
	X(CUT, "cut", NOTE, "", "the capture does not have all of the packet: its ICRC cannot be checked", \
	  "Taken with a snap length shorter than the packet. What is there is judged. The BTH alone shows opcode, PSN and, with the length on the " \
	  "wire, the payload's length; the text names headers that are missing, whose rules are not applied: 128 bytes of a frame have them all. " \
	  "Without the BTH a packet is only counted.") \
	X(IP_FRAGMENT, "ip-fragment", ERROR, "IBTA A17.3.1", "IP fragment of a RoCEv2 packet", \
	  "Senders set the don't-fragment bit, and RNICs drop fragments. The first fragment is judged like a packet that the capture cut; " \
	  "the others are only counted. Software (Linux's Soft-RoCE, rocemu) takes what the kernel puts together.") \
	X(IP_OPTIONS, "ip-options", WARN, "IBTA A17.3.1", "IPv4 options or IPv6 extension headers before UDP", \
	  "RoCEv2's headers are Ethernet, IP without options, UDP. Routers insert such headers (segment routing, in-band telemetry); RNICs do not " \
	  "look for RoCEv2 behind them. The ICRC is checked as the sender computed it: without them, for the last destination of a routing header.") \
	X(UNSEGMENTED, "unsegmented", NOTE, "", "a frame that may have several packets, and could not be taken apart", \
	  "tcpdump on a sender's or receiver's own interface sees bursts (UDP_SEGMENT, GRO) as one frame. They are taken apart by their " \
	  "packets' ICRCs; this one was cut by the snap length, or no part of it has a right ICRC. Its first packet is judged, but not its " \
	  "length; PSNs that the others may have are not missing. Capture whole frames (tcpdump -s 0), on the wire, or with \"rocemu run --pcap\".") \
	X(MALFORMED, "malformed", ERROR, "IBTA 9.2, 9.3", "shorter than its headers, or payload on an opcode without", \
	  "The lengths in IP and UDP do not leave room for what the opcode promises, or there is more than it allows.") \
	X(OPCODE_UNKNOWN, "opcode-unknown", WARN, "IBTA 9.2", "opcode that is not known here", \
	  "Reserved, of the RD service, or a manufacturer's own (0xc0-0xff). The packet is not judged further.") \
	X(TVER, "tver", ERROR, "IBTA 9.2", "transport header version is not 0", \
	  "There is only version 0; a receiver drops the packet.") \
	X(PAD, "pad", ERROR, "IBTA 9.2", "pad count wrong: payload and pad are no multiple of four, or pad without payload", \
	  "PadCnt is the number of bytes (0-3) that follow the payload to make it a multiple of four.") \
	X(RESERVED, "reserved-bits", WARN, "IBTA 9.2", "reserved bits of the BTH, DETH or XRCETH are set", \
	  "Senders set reserved bits to zero; receivers ignore them. Manufacturers use some: NVIDIA's adapters mark packets for adaptive " \
	  "routing by a reserved bit of the BTH (US patent 12328251), and so may others.") \
	X(VENDOR_BITS, "vendor-bits", NOTE, "IBTA 9.2", "reserved bits of the BTH are set as a known adapter sets them", \
	  "Once for each sender, for the bits are in all of its packets. Receivers ignore them. 0x10 in resv8a (byte 4 of the BTH) is set in " \
	  "requests of Huawei's HNS.") \
	X(PKEY, "pkey", ERROR, "IBTA 9.2, 10.9", "P_Key without partition, or not its connection's", \
	  "The low 15 bits are the partition and never 0; all packets of a connection carry the same partition, and at least " \
	  "one side is a full member (bit 15).") \
	X(FLUSH_FORM, "flush-form", ERROR, "IBTA A19.4.1", "FLUSH of no known placement type, or of a reserved level", \
	  "The FETH requests global visibility (1), persistence (2) or both, of a range (level 0) or the whole region (level 1).") \
	X(ATOMIC_WRITE, "atomic-write-form", ERROR, "IBTA A19.4.2", "ATOMIC WRITE that is not of 8 bytes", \
	  "It writes exactly 8 bytes, in the payload and by its RETH.") \
	X(ATOMIC_ALIGN, "atomic-unaligned", WARN, "IBTA 9.4.5, A19.4.2", "atomic at an address that is no multiple of 8", \
	  "The responder refuses it (NAK invalid request or remote access error).") \
	X(QKEY, "qkey", WARN, "IBTA 9.6.1.5, 10.2.5", "datagrams to one QP carry different Q_Keys", \
	  "A receiver drops datagrams without its Q_Key: one of the senders' is wrong, or the receiver's was changed. A QP's Q_Key from a SIDR_REP counts, too.") \
	X(GSI, "gsi-qkey", ERROR, "IBTA 10.2.5", "packet to QP 1 without its well-known Q_Key", \
	  "QP 1, of general services and so of communication management, takes only Q_Key 0x80010000.") \
	X(UD_QPN, "ud-qpn", ERROR, "IBTA 9.6.1, 10.2.4", "datagram from or to a QP that cannot be", \
	  "The DETH's source is a QP of one host: not 0 or 0xffffff (multicast). QP 0 does not exist on RoCE.") \
	X(UD_PSN, "ud-psn", NOTE, "IBTA 9.8.3", "a source QP's datagrams are not numbered in a row", \
	  "Lost, late, doubled, or sent to where the capture does not look: a QP numbers what it sends to all. No receiver looks " \
	  "at it.") \
	X(MCAST_QPN, "multicast-qpn", ERROR, "IBTA 10.5.2, A17.4.8", "QPN 0xffffff and a multicast address do not go together", \
	  "Multicast goes to QPN 0xffffff and a multicast address, always both, and only with UD.") \
	X(MCAST_MAC, "multicast-mac", ERROR, "RFC 1112, RFC 2464", "the frame's destination is not the multicast group's", \
	  "01:00:5e and the low 23 bits of an IPv4 group, 33:33 and the low 32 bits of an IPv6 group.") \
	X(OPCODE_ORDER, "opcode-order", ERROR, "IBTA 9.7.4.1", "opcode cannot follow the packet before it", \
	  "A message is ONLY, or FIRST, MIDDLE..., LAST of one kind; a new one begins only when the one before has ended. The " \
	  "responder answers NAK invalid request.") \
	X(MTU_LENGTH, "mtu-length", ERROR, "IBTA 9.7.4.1", "FIRST or MIDDLE does not carry exactly the path MTU", \
	  "All packets of a message but its last carry exactly the path MTU, which is 256, 512, 1024, 2048 or 4096 bytes. The " \
	  "path MTU is taken from the CM messages, or else from the connection's first such packet.") \
	X(LAST_LENGTH, "last-length", ERROR, "IBTA 9.7.4.1", "LAST is empty, or LAST or ONLY is longer than the path MTU", \
	  "The last packet of several carries 1 byte to the path MTU; an ONLY carries 0 bytes to the path MTU.") \
	X(RETH_LENGTH, "reth-length", ERROR, "IBTA 9.7.4.1", "the RETH's length is not what the message carries", \
	  "The RETH of a WRITE's first packet announces the bytes of the whole message.") \
	X(PSN_GAP, "psn-gap", WARN, "IBTA 9.7.2", "PSNs are missing: packets not captured, lost before the capture, or skipped", \
	  "Requests are numbered without gaps. Later packets show what happened to the missing ones: see capture-loss, " \
	  "retransmission and late.") \
	X(PSN_JUMP, "psn-jump", WARN, "IBTA 9.7.2", "PSN far from the expected: a new connection on the same QP, or a skip", \
	  "Nothing before this point is used to judge what follows.") \
	X(LATE, "late", NOTE, "", "a missing PSN came late: reordered by the network, or sent again", \
	  "It closes the gap that psn-gap or read-response-gap has reported, and is checked as if it had come in order.") \
	X(DUP_FRAME, "dup-frame", NOTE, "", "the very same packet twice: duplicated by the network or by the capture", \
	  "Same PSN and same IPv4 identification, so not a retransmission. Senders that number each burst of packets from 0 (Linux, " \
	  "for sockets that are not connected) do not show the difference: theirs count as retransmissions.") \
	X(PSN_RESERVED, "psn-reserved", ERROR, "IBTA 9.7.4.1", "a request's PSN is one that a READ before it has reserved", \
	  "A READ takes as many PSNs as it has responses: one for each path MTU of its length. The next request begins behind them.") \
	X(XRC_SRQ, "xrc-srq", ERROR, "IBTA A14.5", "packets of one message name different SRQs", \
	  "The XRCETH of all packets of a message names the same SRQ.") \
	X(RETRANSMIT, "retransmission", NOTE, "IBTA 9.7.5.1, 9.7.6.1.3", "requests were sent again", \
	  "The text has the cause (NAK, RNR NAK, else a timeout or an implied NAK) and the kind: go-back-N resends everything from " \
	  "there on, selective only a part. A READ that is sent again may start at a response that is missing.") \
	X(RETRANS_DIFFERS, "retransmission-differs", ERROR, "IBTA 9.7.3", "sent again, but not the same packet", \
	  "A retransmitted request has the opcode, length, remote address, key and operands of the original.") \
	X(ACK_UNSENT, "ack-unsent", ERROR, "IBTA 9.7.6.1.3", "answers a PSN that was not sent", \
	  "A requester drops such a response as a ghost. Reported when the requester, many requests later and without a gap, still " \
	  "has not sent that PSN.") \
	X(ACK_EARLY, "ack-early", NOTE, "", "answered before its request was seen: the capture has packets out of order", \
	  "The request followed within a few packets. Packets of the two directions may take different ways to where they are captured.") \
	X(ACK_UNSEEN, "ack-unseen", NOTE, "", "answers a PSN that the capture never shows", \
	  "Either the capture missed the request, or the responder answered what was not sent; it ends before that is decided.") \
	X(CAPTURE_LOSS, "capture-loss", NOTE, "", "acknowledged, but not in the capture: the capture misses packets", \
	  "Missing PSNs were acknowledged without having been seen again. Rules that need them are not applied.") \
	X(ACK_OLD, "ack-old", NOTE, "IBTA 9.7.6.1.3", "acknowledges less than was acknowledged before", \
	  "Reordered on the way. A correct responder's ACKs do not go back: a duplicate is answered with the newest PSN.") \
	X(AETH, "aeth-reserved", ERROR, "IBTA 9.7.5.2", "reserved syndrome in the AETH", \
	  "Bits 6:5 are 00 ACK, 01 RNR NAK, 11 NAK with codes 0-4; 4 is of the RD service only. Responses with data carry ACK.") \
	X(NAK_SEQUENCE, "nak-sequence", WARN, "IBTA 9.7.5.2", "NAK: PSN sequence error", \
	  "The responder misses packets from this PSN on.") \
	X(NAK_NO_GAP, "nak-no-gap", WARN, "IBTA 9.7.4.1, 9.7.5.2", "sequence NAK although nothing behind its PSN was sent", \
	  "The responder may send this NAK only when a later PSN has reached it: it did not, or the capture misses that one.") \
	X(NAK_REPEATED, "nak-repeated", WARN, "IBTA 9.7.5.1", "a second sequence NAK for a PSN that was not sent again", \
	  "One NAK per gap; the next only after the requester has been back at that PSN. A network that duplicates looks the same.") \
	X(NAK_ERROR, "nak-error", WARN, "IBTA 9.7.5.2", "NAK: the responder refuses the request", \
	  "Invalid request, remote access error or remote operational error: the requester's QP goes to the error state.") \
	X(RXE_NAK_TOO_LONG, "rxe-nak-too-long", NOTE, "IBTA 9.7.4.1", "remote operational error for a SEND: Linux rxe, message longer than the receive", \
	  "IBTA requires \"invalid request\" there; Linux's Soft-RoCE answers with remote operational error. Other responders report a real operational error by it.") \
	X(MSN, "msn", ERROR, "IBTA 9.7.7", "the MSN does not fit the requests completed", \
	  "The MSN counts completed requests. Judged relative to other acknowledges, between PSNs that are missing: not less than " \
	  "the requests that end at or before the PSN that is answered, not far more than all that were sent.") \
	X(RNR, "rnr-nak", NOTE, "IBTA 9.7.5.2.8", "receiver not ready", \
	  "No receive was posted. The requester waits for the time that the NAK gives and sends again.") \
	X(RNR_EARLY, "rnr-early", ERROR, "IBTA 9.7.5.2.8", "sent again before the RNR NAK's time was over", \
	  "The requester waits at least the time of the timer code (code 0 is 655.36 ms).") \
	X(RNR_EARLY_MAYBE, "rnr-early-unsure", NOTE, "IBTA 9.7.5.2.8", "same packet before the RNR NAK's time was over: early, or duplicated by the network", \
	  "Where the packets carry no distinct IPv4 identification the two cannot be distinguished; nor where there were more copies " \
	  "than NAKs, or where the time had passed since the copy before.") \
	X(ACK_OF_READ, "ack-names-read", WARN, "IBTA 9.7.5.1", "acknowledge with the PSN of a READ or an atomic", \
	  "Those are acknowledged by their response; an acknowledge may name the PSN before or one behind. Linux's Soft-RoCE takes " \
	  "it for the response.") \
	X(READ_STRAY, "read-response-stray", ERROR, "IBTA 9.7.5.1", "READ response or atomic acknowledge to no such request", \
	  "Responses repeat the PSNs that their request reserved: request PSN, +1 for each path MTU of its length.") \
	X(READ_OPCODE, "read-response-opcode", ERROR, "IBTA 9.7.5.1", "READ response's FIRST, MIDDLE, LAST, ONLY does not fit its place", \
	  "The first response is FIRST, the last LAST, a single one ONLY, counted from the request or from a repeated request.") \
	X(READ_UNSURE, "read-response-unsure", WARN, "IBTA 9.7.5.1", "READ response's opcode fits only a repeated READ that was not captured", \
	  "A READ that is sent again may begin at any response that is missing, and is answered from FIRST or ONLY on. Where the capture does not have that READ, it looks like a wrong opcode.") \
	X(RESPONSE_AGAIN, "response-again", NOTE, "", "the same READ response again: requested again, or duplicated by the network", \
	  "A requester that misses a response sends the READ again from there on, and gets all later ones again.") \
	X(READ_LENGTH, "read-response-length", ERROR, "IBTA 9.7.5.1", "READ response's length does not fit its request", \
	  "All but the last carry the path MTU, and together they carry the request's length.") \
	X(READ_GAP, "read-response-gap", WARN, "IBTA 9.7.6.1.3", "READ responses are missing", \
	  "Lost, or not captured. The requester sends the READ again from the missing one on.") \
	X(READ_RESTART, "read-restart", ERROR, "IBTA 9.7.3", "a READ sent again has another range", \
	  "A repeated READ may begin at any response that is missing: its PSN, address and length then advance together, and " \
	  "it stays within the original.") \
	X(READ_OVERTAKEN, "read-overtaken", NOTE, "IBTA 9.7.5.1", "acknowledged past a READ or atomic whose response is missing", \
	  "An implied NAK for the requester: its response was lost, or not captured.") \
	X(RXE_READ_REPLAY, "rxe-read-replay", NOTE, "IBTA 9.7.5.1", "repeated READ answered with the original's opcodes: Linux rxe, or a first answer that comes late", \
	  "A repeated READ that begins in the middle should be answered as one of its own (FIRST or ONLY); rxe answers with the " \
	  "opcode of the original place.") \
	X(ATOMIC_REPLAY, "atomic-replay", ERROR, "IBTA 9.7.5.1 (C9-105)", "a repeated atomic was answered with another result", \
	  "Atomics execute once: a duplicate is answered with the result that was kept. Two results mean it was executed twice, or " \
	  "the kept one was damaged.") \
	X(CREDIT, "credit", WARN, "IBTA 9.7.7", "a SEND beyond the credits that the responder gave", \
	  "With end-to-end credits, at most one message more than MSN + credits may be sent. The acknowledge that gave more may be " \
	  "missing in the capture.") \
	X(CREDIT_MIXED, "credit-mixed", WARN, "IBTA 9.7.7", "credits given and not given in the same direction", \
	  "A credit field of 31 says that credits are not used; a responder does not change that.") \
	X(CNP_FORM, "cnp-form", ERROR, "IBTA A17.9", "CNP without BECN, or its payload is not 16 zero bytes", \
	  "A congestion notification packet has opcode 0x81, BECN set and 16 reserved bytes of zero.") \
	X(CNP, "cnp", NOTE, "IBTA A17.9", "congestion notification", \
	  "The receiver of the other direction's packets saw them marked (ECN).") \
	X(CNP_NO_CE, "cnp-without-ce", NOTE, "IBTA A17.9", "congestion notification, but no packet marked CE was captured", \
	  "Right where the capture was taken before the switch that marks.") \
	X(CM_FORM, "cm-form", ERROR, "IBTA 13.4.2, 12.6", "connection message of a wrong length, or a length in it is too large", \
	  "A MAD has 256 bytes; the information in REJ, APR and SIDR_REP at most 72.") \
	X(CM_SIDE, "cm-side", ERROR, "IBTA 12.6", "connection message that this side does not send", \
	  "REP comes from the passive side (who was sent the REQ), RTU from the active one. MRA and REJ contain what they answer: a REQ is answered by the passive side, a REP by the active one. Checked for exchanges whose REQ is in the capture.") \
	X(CM_ORDER, "cm-order", ERROR, "IBTA 12.9", "connection message that its exchange does not allow any more", \
	  "No REP after the own REJ, no RTU after the own REJ or DREQ, no REJ after the own RTU, no DREQ after the own DREP. An error when a " \
	  "second and more lies between, for messages overtake each other; else undecided.") \
	X(CM_TID, "cm-tid", WARN, "IBTA 12.6, 13.4.6.4", "connection message with another transaction ID than what it answers", \
	  "REP, MRA, REJ and RTU repeat the REQ's transaction ID, DREP the DREQ's, SIDR_REP the SIDR_REQ's.") \
	X(CM_COMM_ID, "cm-comm-id", ERROR, "IBTA 12.7.1", "connection message with another communication ID than the REP's", \
	  "Each side chooses its communication ID once, in REQ and REP; all that follows names both.") \
	X(CM_QPN, "cm-qpn", ERROR, "IBTA 12.6.10, 12.8.1", "DREQ or LAP for another QP than REQ and REP named", \
	  "Both name the receiver's QP, so that a message for an earlier connection ends none.") \
	X(CM_ADDRESS, "cm-address", WARN, "IBTA 12.7.11, A11", "addresses in the connection message are not the packet's", \
	  "The GIDs of the primary path and the IP addresses in the private data (annex A11) are those between which the connection " \
	  "is to be. They differ behind address translation, or when the program requests another path.") \
	X(CM_AGAIN, "cm-again", NOTE, "IBTA 12.9.8", "connection message sent again", \
	  "After a timeout, or because the other side repeated its own: an answer was lost or late.") \
	X(CM_DIFFERS, "cm-differs", WARN, "IBTA 12.9.8", "connection message sent again with the same ID, but another content", \
	  "Retransmissions are the same message. It may be a new exchange with an ID that is used again.") \
	X(CM_MISSING, "cm-missing", WARN, "IBTA 12.9", "connection message whose predecessor is not in the capture", \
	  "RTU, DREQ and LAP need a REP before them, DREP a DREQ, APR a LAP. It was not captured, or never sent.") \
	X(CM_UNANSWERED, "cm-unanswered", NOTE, "IBTA 12.9", "connection request that the capture has no answer to", \
	  "REQ, DREQ or SIDR_REQ: the CM's QP had no listener, the answer was lost, or the capture ends before it.") \
	X(CM_START_PSN, "cm-start-psn", WARN, "IBTA 12.6", "the first request has not the starting PSN that the CM announced", \
	  "REQ and REP announce the PSN that their receiver is to begin with. Its first packets may be missing in the capture.") \
	X(UNDECIDED, "undecided", NOTE, "", "would be an error, were the capture complete and in order", \
	  "The text begins with the ID of the rule. Near this packet the connection has packets that are missing, double or out of " \
	  "order, and such a network or capture can make what is seen of correct implementations. Or the hosts have several " \
	  "connections with the same PSNs, and without the CM's messages it is not known which direction answers which. Where packets were cut, " \
	  "lengths are undecided (a burst of several then looks like one), and so is what follows from bytes that are not there.") \
	X(UNPAIRED, "unpaired", NOTE, "", "no other direction found: answers cannot be judged against requests", \
	  "The capture has one direction only, or several connections between the same hosts fit equally well.") \
	X(TOO_MANY, "too-many-connections", WARN, "", "more connections than are followed; the rest is checked for form only", \
	  "65536 directions are followed, so that memory has an end. Split the capture by hosts (tcpdump -r FILE -w PART host ADDRESS).")
/* clang-format on */

enum rule_id {
#define X(name, id, sev, clause, line, text) RULE_##name,
	VERIFY_RULES(X)
#undef X
		RULE_COUNT
};

struct rule {
	const char *id;
	enum severity severity;
	const char *clause; /* empty: none */
	const char *line;
	const char *text; /* may be empty */
};

/** Advice on a finding (advice.h). */
struct advice {
	const char *causes, *remedy;
	const char *counter; /* that moves, and where; empty: none */
};

extern const struct rule rules[RULE_COUNT];
extern const struct advice advices[RULE_COUNT]; /* as rules */
/** "note", "warning", "error". */
extern const char *const severity_names[SEV_COUNT];

/** The rule with this ID; NULL: none. */
const struct rule *rule_find(const char *id);
/**
 * The value of --ignore: set those that it names. IDs with commas between; "rxe" stands for all
 * that begin with "rxe-". @return false: a word names none, and a line about it is on standard
 * error.
 */
bool rules_ignore(bool set[RULE_COUNT], const char *list, const char *self);

#endif
