/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lists for each finding the usual cause, the remedy, and which counter moves at which host. The
 * names of counters are those of mlx5's hw_counters, which rocemu's devices have as well; other
 * adapters have them under names of their own.
 */
#ifndef VERIFY_ADVICE_H
#define VERIFY_ADVICE_H

/* clang-format off */
/* X(NAME, "likely causes", "what to do", "counter; empty: none") */
#define VERIFY_ADVICE(X) \
	X(ICRC_WRONG, "Damage on a link or in a switch's memory; a middlebox that rewrites addresses, ports or the IPv4 identification; " \
	  "a sender that computes the ICRC over other fields or in the other byte order; a capturing host that damages frames.", \
	  "If all packets of one sender are wrong, look at its ICRC. If single ones are, look at the links' error counters and capture at " \
	  "the next hop.", "receiver: rx_icrc_encapsulated") \
	X(CUT, "A snap length (tcpdump -s) or a mirror port that truncates.", "Capture whole frames: tcpdump -s 0; for the headers 128 bytes are enough.", "") \
	X(IP_FRAGMENT, "A sender without the don't-fragment bit, and a path MTU that does not fit the interface or the way; a packet generator.", \
	  "Lower path_mtu in both QPs, or raise the MTU of the interfaces and of the network: path_mtu and 64 bytes or more for the headers.", \
	  "receiver: none, RNICs drop fragments silently") \
	X(IP_OPTIONS, "A network with segment routing (SRv6) or telemetry that inserts headers; a sender's own options.", \
	  "Have the network encapsulate the packet and not insert into it, or remove the header before the receiver.", \
	  "receiver: none, RNICs pass such packets to the host") \
	X(UNSEGMENTED, "Segmentation offload at the point of capture, and a snap length; or a burst damaged as a whole.", \
	  "Capture whole frames, or on the wire.", "") \
	X(MALFORMED, "A packet generator or a sender that builds wrong lengths; other traffic at this UDP port.", \
	  "Look at the IP and UDP lengths and at the opcode. Give --port if RoCEv2 is at another port.", "receiver: port_rcv_errors") \
	X(OPCODE_UNKNOWN, "A manufacturer's extension; a newer service; other traffic at this UDP port.", \
	  "Nothing, if the extension is expected at both ends.", "receiver: port_rcv_errors, if it does not have the extension") \
	X(TVER, "Other traffic at this UDP port, or a sender's mistake.", "Look who sends to the port.", "receiver: port_rcv_errors") \
	X(PAD, "A sender that does not pad payloads, or pads twice.", "Correct PadCnt: (4 - length % 4) % 4.", "receiver: port_rcv_errors") \
	X(RESERVED, "A sender that does not clear its headers; a manufacturer's extension; a newer standard.", "Send zeros there.", "") \
	X(VENDOR_BITS, "The adapter's hardware.", "Nothing.", "") \
	X(PKEY, "The two QPs were made with different P_Key indices; a partition where both are limited members.", \
	  "Compare the P_Key tables and the QPs' pkey_index. On Ethernet use 0xffff.", "receiver: port_rcv_errors, or bad P_Key violations") \
	X(FLUSH_FORM, "A sender's mistake in the FETH.", "Use placement type 1, 2 or 3 and level 0 or 1.", "responder: resp_cqe_error") \
	X(ATOMIC_WRITE, "A sender that takes ATOMIC WRITE for a WRITE of any length.", "Write 8 bytes.", "responder: resp_cqe_error") \
	X(ATOMIC_ALIGN, "The program computes the remote address wrong.", "Align the address to 8 bytes.", \
	  "requester: req_remote_invalid_request or req_remote_access_errors") \
	X(QKEY, "Programs that do not agree on the Q_Key; a QP number that was used again.", \
	  "Compare qkey of the receiving QP with the senders' wr.ud.remote_qkey.", "receiver: qp1 or Q_Key violations") \
	X(GSI, "A user's UD QP that sends to QP 1.", "Only the connection manager sends to QP 1.", "receiver: Q_Key violations") \
	X(UD_QPN, "A sender's mistake in the DETH.", "Send the QP's own number.", "") \
	X(UD_PSN, "Loss; datagrams of the same QP to hosts outside the capture.", "Nothing: datagrams may be lost.", "receiver: out_of_buffer or " \
	  "excessive_buffer_overrun_errors, if it had no room") \
	X(MCAST_QPN, "An address handle of a group without the group's QPN, or the other way round.", "Send to QPN 0xffffff at the group's GID.", "") \
	X(MCAST_MAC, "A sender that resolves a group like a host.", "Derive the Ethernet address from the group's.", "") \
	X(OPCODE_ORDER, "A sender that mixes two messages of one QP; a wrong state after a retransmission.", \
	  "Look at the packets with the PSN and the one before in the connection's sequence.", "responder: resp_cqe_error; requester: req_remote_invalid_request") \
	X(MTU_LENGTH, "The two ends have different path MTUs; segmentation of messages is wrong.", \
	  "Set the same path_mtu in both QPs; check that the CM's MTU is used.", "responder: resp_cqe_error; requester: req_remote_invalid_request") \
	X(LAST_LENGTH, "As mtu-length; or a last packet of nothing.", "Set the same path_mtu in both QPs.", \
	  "responder: resp_local_length_error; requester: req_remote_invalid_request") \
	X(RETH_LENGTH, "A sender that counts headers or padding as data.", "Compare the RETH's length with the payloads' sum.", \
	  "responder: resp_cqe_error; requester: req_remote_invalid_request") \
	X(PSN_GAP, "Loss before the point of capture; a capturing host that is too slow; reordering.", \
	  "If the packets were acknowledged (capture-loss), give tcpdump a larger buffer (-B). If they were sent again, look for drops " \
	  "on the way and at the receiver's socket or adapter.", "receiver: out_of_sequence; requester: packet_seq_err") \
	X(PSN_JUMP, "A new connection on a QP number that was used before; a long hole in the capture.", "Nothing, if a new connection is expected.", "") \
	X(LATE, "Several paths or queues on the way, or at the point of capture.", "Nothing, if rare. Else look for load balancing by packet.", \
	  "receiver: out_of_sequence") \
	X(DUP_FRAME, "A mirror port that copies both directions of a port; a network that floods.", "Mirror one direction.", \
	  "receiver: duplicate_request") \
	X(PSN_RESERVED, "A requester that counts a READ as one packet.", "Add the number of responses to the PSN after a READ.", \
	  "requester: req_remote_invalid_request") \
	X(XRC_SRQ, "A sender's mistake in the XRCETH.", "Send the SRQ number of the first packet in all.", "") \
	X(RETRANSMIT, "Loss of the requests or of their answers; a receiver without receives (RNR); a timeout shorter than the path's delay.", \
	  "Check the cause in the text: after a NAK, loss on the way there; after a timeout, loss of the last packets or of the answer, or a timeout " \
	  "that is too short.", "requester: local_ack_timeout_err, packet_seq_err or rnr_nak_retry_err; responder: duplicate_request") \
	X(RETRANS_DIFFERS, "A program that changes a buffer's or a work request's memory before its completion; a requester that builds it anew.", \
	  "Compare both packets. Leave posted requests alone until they complete.", "") \
	X(ACK_UNSENT, "A responder with the state of an earlier connection; PSNs that the two ends did not agree on.", \
	  "Compare sq_psn and rq_psn of both QPs.", "requester: port_rcv_errors, on some adapters") \
	X(ACK_EARLY, "Two interfaces or queues at the point of capture.", "Nothing.", "") \
	X(ACK_UNSEEN, "Loss at the point of capture; a capture that ends.", "Capture with a larger buffer, if it matters.", "") \
	X(CAPTURE_LOSS, "A capturing host that is too slow.", "Give tcpdump a larger buffer (-B) or capture headers alone (-s 128).", "") \
	X(ACK_OLD, "Reordering on the way.", "Nothing, if rare.", "") \
	X(AETH, "A responder's mistake; damage before the ICRC was computed.", "Look at the syndrome in the packet.", "requester: req_cqe_error") \
	X(NAK_SEQUENCE, "Loss or reordering between requester and responder.", "Look for drops on the way: switch queues, pause frames, the receiver's buffers.", \
	  "requester: packet_seq_err; responder: out_of_sequence") \
	X(NAK_NO_GAP, "The capture misses a packet; else a responder that sends the NAK too early.", "Capture at the responder.", "requester: packet_seq_err") \
	X(NAK_REPEATED, "A network that duplicates; else a responder that sends a NAK for each packet behind a gap.", "Capture at the responder.", \
	  "requester: packet_seq_err") \
	X(NAK_ERROR, "A wrong rkey, address or length; a right that the region or the QP does not have; a message longer than the receive.", \
	  "Compare the request's RETH with the region at the responder, and the QP's access flags. rocemu's own log has the reason (--log).", \
	  "requester: req_remote_access_errors or req_remote_invalid_request; responder: resp_remote_access_errors") \
	X(RXE_NAK_TOO_LONG, "A receive buffer that is too small.", "Post larger receives.", "responder: resp_local_length_error") \
	X(MSN, "A responder that counts packets or duplicates, not messages.", "Compare with the requests that end before the PSN.", "") \
	X(RNR, "The receiving program posts too few receives, or too late.", "Post receives in advance, or use an SRQ; see rnr_retry and " \
	  "min_rnr_timer.", "requester: rnr_nak_retry_err; responder: out_of_buffer") \
	X(RNR_EARLY, "A requester that decodes the timer field wrong (0 is the longest).", "Compare with the table of RNR timers.", \
	  "responder: out_of_buffer") \
	X(RNR_EARLY_MAYBE, "As rnr-early; or a network that duplicates.", "Capture at the requester.", "") \
	X(ACK_OF_READ, "A responder that coalesces acknowledges over READs.", "Acknowledge the PSN before the READ.", "") \
	X(READ_STRAY, "A responder's mistake in the PSN; a connection that was found wrong.", "Look which request has that PSN.", \
	  "requester: implied_nak_seq_err") \
	X(READ_OPCODE, "A responder's mistake.", "Count the responses from the request.", "requester: req_cqe_error") \
	X(READ_UNSURE, "The capture misses a READ that was sent again.", "Capture at the responder.", "") \
	X(RESPONSE_AGAIN, "Loss of responses; a network that duplicates.", "As read-response-gap.", "responder: duplicate_request") \
	X(READ_LENGTH, "The two ends have different path MTUs.", "Set the same path_mtu in both QPs.", "requester: req_cqe_error") \
	X(READ_GAP, "Loss between responder and requester, or at the point of capture.", "Look for drops on the way back.", \
	  "requester: implied_nak_seq_err") \
	X(READ_RESTART, "A requester that counts the responses that it has wrong.", "Compare PSN, address and length with the original.", "") \
	X(READ_OVERTAKEN, "Loss of a response.", "As read-response-gap.", "requester: implied_nak_seq_err") \
	X(RXE_READ_REPLAY, "Linux's Soft-RoCE as the responder.", "Nothing: requesters take it.", "responder: duplicate_request") \
	X(ATOMIC_REPLAY, "A responder that executes duplicates; fewer kept results than outstanding atomics.", \
	  "Compare max_dest_rd_atomic with the requester's max_rd_atomic.", "responder: duplicate_request") \
	X(CREDIT, "A requester that ignores credits; the capture misses an acknowledge.", "Nothing, unless RNR NAKs follow.", "responder: out_of_buffer") \
	X(CREDIT_MIXED, "A responder's mistake.", "Give credits always, or never (31).", "") \
	X(CNP_FORM, "A receiver's or a switch's mistake.", "Compare with the standard's CNP.", "sender of data: rp_cnp_ignored") \
	X(CNP, "A queue on the way is long; several senders to one receiver.", "Nothing, if it works: the sender slows down. Else look at the switches' " \
	  "ECN thresholds.", "receiver of data: np_cnp_sent; sender of data: rp_cnp_handled") \
	X(CNP_NO_CE, "The capture was taken before the switch that marks.", "Nothing.", "receiver of data: np_ecn_marked_roce_packets") \
	X(CM_FORM, "A connection manager's mistake.", "Look at the length in the message.", "") \
	X(CM_SIDE, "A connection manager's mistake; two exchanges with one communication ID.", "Look at both communication IDs.", "") \
	X(CM_ORDER, "A connection manager's mistake; a process that ended within the exchange.", "Look at the exchange's messages in order.", "") \
	X(CM_TID, "A connection manager that makes a new ID for each message.", "Repeat the request's ID.", "") \
	X(CM_COMM_ID, "A connection manager's mistake.", "Repeat the IDs of REQ and REP.", "") \
	X(CM_QPN, "A QP number that was used again; a connection manager's mistake.", "Compare with REQ and REP.", "") \
	X(CM_ADDRESS, "Address translation, or a tunnel that ends in between; several addresses at one host.", "Nothing, if intended: RoCE itself does not " \
	  "pass address translation of ports.", "") \
	X(CM_AGAIN, "A lost message; a listener that is slow to accept.", "Nothing, if rare. Else look at the listener's backlog.", "") \
	X(CM_DIFFERS, "A communication ID that was used again at once.", "Nothing, if the old connection has ended.", "") \
	X(CM_MISSING, "A capture that began later.", "Begin the capture before the programs.", "") \
	X(CM_UNANSWERED, "No such host, a firewall, a process without a listener; a capture of one direction.", \
	  "Check that UDP port 4791 passes both ways, and that the listener is on that address.", "") \
	X(CM_START_PSN, "A capture that began later; a QP that was given another PSN than announced.", "Compare sq_psn with the REQ or REP.", \
	  "responder: out_of_sequence") \
	X(UNDECIDED, "As the rule that it begins with; or the network.", "Capture again, complete: with a larger buffer, and with the connection's beginning.", "") \
	X(UNPAIRED, "A capture of one direction; no answers at all: the peer is not there, or drops everything.", \
	  "Capture both directions. If the peer really does not answer, look at its QP's state and number.", "requester: local_ack_timeout_err") \
	X(TOO_MANY, "A very large capture.", "Split it by hosts.", "")
/* clang-format on */

#endif
