/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why a request failed, a packet was refused or a call was turned down: reasons as data. An
 * endpoint gives each to rocemu_ep_config::why. A completion has the reason's number in vendor_err,
 * unless a NAK's syndrome is there (0x20-0x3f, 0x60-0x7f); the numbers do not change between
 * versions.
 */
#ifndef ROCEMU_WHY_H
#define ROCEMU_WHY_H

#include <stdint.h>

#include <rocemu/wire.h>

/* clang-format off */
/*
 * X(number, NAME, text, rule, remedy). Words in braces stand for members of struct rocemu_why: {peer} both peer and peer_qpn, {what},
 * {id}, {addr}, {end} (addr + len), {len}, {key}, {lo}, {hi}, {n}, {limit}, {psn}; {from} and {to} are lo and hi as QP states, {mask}
 * and {needs} n and limit as IBV_QP_* bits, {ms} limit, nanoseconds, in ms,
 * {least} addr as a number, {mtu} lo and {hops} hi as numbers.
 */
#define ROCEMU_WHYS(X) \
	/* requests of this side that complete in error */ \
	X(0x101, NO_ANSWER, \
	  "retry count exceeded: {what} of {len} bytes (wr_id {id}), PSN {psn}, was sent {n} times, {ms} ms apart, and {peer} has never answered", \
	  "the peer's QP must be in RTR or RTS and have this side's address and QPN", \
	  "check the state, QPN and GID of both QPs, and the path: no firewall drops UDP port 4791, no NAT is on it, packets of path MTU {mtu} pass, hop_limit {hops} reaches the peer") \
	X(0x102, SILENT, \
	  "retry count exceeded: {what} of {len} bytes (wr_id {id}), PSN {psn}, was sent {n} times, {ms} ms apart, without an answer from {peer}, which answered before", \
	  "a peer answers while its QP is in RTR or RTS", \
	  "check whether its process ended or its QP went to ERR, and whether packets of path MTU {mtu} pass; on a slow path raise timeout or retry_cnt") \
	X(0x103, LOSSES, \
	  "retry count exceeded: {what} of {len} bytes (wr_id {id}), PSN {psn}: the answers of {peer} show {n} losses of it in a row", \
	  "each loss in a row uses one of retry_cnt retries, here {limit}", \
	  "raise retry_cnt (7 at most), or find where the path drops packets") \
	X(0x104, NO_RECEIVE, \
	  "RNR retries exceeded: {peer} had no receive for {what} of {len} bytes (wr_id {id}) in {n} tries", \
	  "a SEND or a WRITE with immediate takes a receive of the peer", \
	  "let the peer post receives earlier, or raise rnr_retry, here {limit} (7: without end)") \
	X(0x105, KEY_UNKNOWN, \
	  "{what} of {len} bytes (wr_id {id}): no memory region has lkey {key}", \
	  "an SGE's lkey is that of a region which is registered", \
	  "take ibv_mr::lkey, and deregister the region only after the completion") \
	X(0x106, KEY_PD, \
	  "{what} of {len} bytes (wr_id {id}): the region of lkey {key} is in another protection domain", \
	  "regions and QP (or SRQ) are in one protection domain", \
	  "register the memory in the QP's ibv_pd") \
	X(0x107, KEY_BOUNDS, \
	  "{what} of {len} bytes (wr_id {id}): its SGE is [{addr}, {end}), lkey {key} covers [{lo}, {hi})", \
	  "an SGE lies within its region", \
	  "check its address and length, or register more") \
	X(0x108, KEY_RIGHT, \
	  "{what} of {len} bytes (wr_id {id}): the region of lkey {key} may not be written to", \
	  "what is received, read or fetched needs IBV_ACCESS_LOCAL_WRITE", \
	  "register it with IBV_ACCESS_LOCAL_WRITE") \
	X(0x109, KEY_GONE, \
	  "{what} of {len} bytes (wr_id {id}): the memory at [{addr}, {end}) of lkey {key} is not there", \
	  "registered memory stays mapped, and writable for what is received", \
	  "deregister the region before the memory is freed, unmapped or protected") \
	X(0x10a, MESSAGE_LENGTH, \
	  "{what} (wr_id {id}) is longer than {limit} bytes", \
	  "a UD message has one packet of the port's MTU, others 2 GiB", \
	  "send it in parts") \
	X(0x10b, SERVICE, \
	  "{what} (wr_id {id}) is an operation that the QP's type does not have", \
	  "UD: SEND; UC: SEND, WRITE; RC and XRC: all", \
	  "use an RC QP") \
	X(0x10c, NO_RD_ATOMIC, \
	  "{what} of {len} bytes (wr_id {id}): the QP's max_rd_atomic is 0", \
	  "READs, atomics, FLUSH and ATOMIC WRITE count against it", \
	  "set IBV_QP_MAX_QP_RD_ATOMIC on the way to RTS") \
	X(0x10d, BIND, \
	  "{what} (wr_id {id}): window {key} cannot be bound to [{addr}, {end})", \
	  "region, window and QP are in one PD, the region has IBV_ACCESS_MW_BIND, and LOCAL_WRITE for remote writes; a type 2 window is unbound", \
	  "check the region's access flags and bounds, and invalidate the window first") \
	X(0x10e, INVALIDATE, \
	  "{what} (wr_id {id}): {key} is no type 2 memory window that this QP has bound", \
	  "only such keys can be invalidated", \
	  "deregister regions with ibv_dereg_mr(), unbind type 1 windows by a bind of length 0") \
	X(0x10f, RESPONSE_KIND, \
	  "{peer} answers {what} of {len} bytes (wr_id {id}) by another kind of response", \
	  "a READ is answered by READ responses, an atomic by an atomic's", \
	  "look at the packets (rocemu verify): the peer is at fault") \
	X(0x110, RESPONSE_LENGTH, \
	  "{peer} answers {what} of {len} bytes (wr_id {id}) by a packet of {n} bytes where this QP's path MTU, {limit}, requires another length", \
	  "all packets but the last have the path MTU, which both ends agree on", \
	  "give both QPs the same IBV_QP_PATH_MTU") \
	X(0x111, ON_PURPOSE, \
	  "{what} of {len} bytes (wr_id {id}) fails on purpose", \
	  "a rule of --impair selected it", \
	  "change the rule") \
	X(0x112, RECEIVE_LENGTH, \
	  "the data for {what} of {len} bytes (wr_id {id}) is longer than its SGEs", \
	  "the SGEs of a READ or atomic hold what comes back", \
	  "give it more room") \
	/* NAKs received; vendor_err has the syndrome */ \
	X(0x121, NAK_INVALID, \
	  "NAK invalid request received from {peer} for {what} of {len} bytes (wr_id {id}), PSN {psn}", \
	  "the peer's receive holds the message, its QP allows the operation (qp_access_flags) and as many READs (max_dest_rd_atomic), and both QPs have one path MTU, here {limit}", \
	  "compare the attributes of both QPs; --log why at the peer names the rule") \
	X(0x122, NAK_ACCESS, \
	  "NAK remote access error received from {peer} for {what} of {len} bytes (wr_id {id}) at [{addr}, {end}) with rkey {key}", \
	  "the rkey is valid at the peer, covers the range and allows the operation", \
	  "compare address, rkey and access flags with the peer's region; --log why at the peer names the rule") \
	X(0x123, NAK_OPERATION, \
	  "NAK remote operational error received from {peer} for {what} of {len} bytes (wr_id {id}), PSN {psn}", \
	  "the memory of the peer's receive is valid", \
	  "check the SGEs of the peer's receives; --log why at the peer names the rule") \
	X(0x124, NAK_OTHER, \
	  "NAK of unknown syndrome {n} received from {peer} for {what} of {len} bytes (wr_id {id})", \
	  "the standard has the syndromes 0x60 to 0x63", \
	  "the peer is at fault") \
	X(0x125, RNR_RECEIVED, \
	  "RNR NAK received from {peer} for {what} of {len} bytes (wr_id {id}): it has no receive posted; sent again after {ms} ms, {n} retries are left (7: without end)", \
	  "a SEND or a WRITE with immediate takes a receive of the peer", \
	  "let the peer post more receives, and earlier") \
	X(0x126, SEQUENCE_RECEIVED, \
	  "NAK PSN sequence error received from {peer}: packets from PSN {psn} on were lost and are sent again", \
	  "a lossless network drops nothing", \
	  "normal where packets are lost; look for drops and full buffers on the path") \
	/* requests of the peer that are refused */ \
	X(0x141, PLACE, \
	  "NAK invalid request sent to {peer}: {what} at PSN {psn} does not follow the packet before it", \
	  "a message is FIRST, MIDDLE, LAST, or ONLY", \
	  "look at the packets (rocemu verify): the peer is at fault") \
	X(0x142, PATH_MTU, \
	  "NAK invalid request sent to {peer}: {what} at PSN {psn} has {n} bytes of payload, the path MTU of this QP is {limit}", \
	  "all packets but the last of a message have the path MTU, which both ends agree on; the peer's is {n} or more, if this is its first packet", \
	  "give both QPs the same IBV_QP_PATH_MTU") \
	X(0x143, LENGTH, \
	  "NAK invalid request sent to {peer}: {what} at PSN {psn} has {n} bytes of payload, {len} bytes are announced", \
	  "the packets of a WRITE make up its length, 2 GiB at most", \
	  "look at the packets (rocemu verify): the peer is at fault") \
	X(0x144, UNSUPPORTED, \
	  "NAK invalid request sent to {peer}: {what} at PSN {psn} is not supported", \
	  "a FLUSH has a placement type and a level of the standard", \
	  "look at the packets (rocemu verify): the peer is at fault") \
	X(0x145, TOO_MANY_READS, \
	  "NAK invalid request sent to {peer}: {what} at PSN {psn} is one more than max_dest_rd_atomic, {limit}, at a time", \
	  "the peer's max_rd_atomic is not more than this QP's max_dest_rd_atomic", \
	  "raise IBV_QP_MAX_DEST_RD_ATOMIC here or lower IBV_QP_MAX_QP_RD_ATOMIC there") \
	X(0x146, ALIGNMENT, \
	  "NAK invalid request sent to {peer}: {what} at {addr}", \
	  "an atomic's address is a multiple of 8, for the peer and in memory", \
	  "align the word") \
	X(0x147, QP_RIGHT, \
	  "NAK invalid request sent to {peer}: {what} of {len} bytes at {addr}: the QP does not allow it", \
	  "qp_access_flags has IBV_ACCESS_REMOTE_WRITE, _READ or _ATOMIC for what peers may do", \
	  "set IBV_QP_ACCESS_FLAGS by ibv_modify_qp()") \
	X(0x148, XRC_SRQ, \
	  "NAK invalid request sent to {peer}: {what} at PSN {psn} names SRQ {n}, which the QP's XRC domain does not have", \
	  "remote_srqn is the number of an XRC SRQ in the target's domain", \
	  "take ibv_get_srq_num() of the peer's SRQ") \
	X(0x149, RECEIVE_SHORT, \
	  "NAK invalid request sent to {peer}: {what} is longer than its receive, which has {len} bytes (wr_id {id})", \
	  "a message fits in the receive that it takes", \
	  "post longer receives") \
	X(0x14a, RKEY_UNKNOWN, \
	  "NAK remote access error sent to {peer}: {what} of {len} bytes at [{addr}, {end}): nothing has rkey {key}", \
	  "the rkey is that of a region or a bound window of this process's device", \
	  "compare it with ibv_mr::rkey, and deregister the region only when the peer is done") \
	X(0x14b, RKEY_PD, \
	  "NAK remote access error sent to {peer}: {what} of {len} bytes at [{addr}, {end}): rkey {key} is in another protection domain", \
	  "region and QP are in one protection domain", \
	  "register the memory in the QP's ibv_pd") \
	X(0x14c, RKEY_BOUNDS, \
	  "NAK remote access error sent to {peer}: {what} of {len} bytes accesses [{addr}, {end}), rkey {key} covers [{lo}, {hi})", \
	  "a request lies within the region or window", \
	  "check the remote address and length, or register more") \
	X(0x14d, RKEY_RIGHT, \
	  "NAK remote access error sent to {peer}: {what} of {len} bytes at [{addr}, {end}): rkey {key} does not allow it", \
	  "its access flags have IBV_ACCESS_REMOTE_WRITE, _READ or _ATOMIC for what peers may do", \
	  "register the memory, or bind the window, with that flag") \
	X(0x14e, RKEY_WINDOW, \
	  "NAK remote access error sent to {peer}: {what} of {len} bytes at [{addr}, {end}): rkey {key} is a window that is not bound, or is bound by another QP", \
	  "a type 2 window serves the peer of the QP that bound it", \
	  "bind it (ibv_bind_mw(), IBV_WR_BIND_MW) on this QP") \
	X(0x14f, RKEY_GONE, \
	  "NAK remote access error sent to {peer}: {what} of {len} bytes: the memory at [{addr}, {end}) of rkey {key} is not there", \
	  "registered memory stays mapped, and writable for a peer that writes", \
	  "deregister the region before the memory is freed, unmapped or protected") \
	X(0x150, RKEY_INVALIDATE, \
	  "{what} of {peer} would invalidate {key}, which is no type 2 memory window bound by this QP: the request is not answered", \
	  "only such keys can be invalidated", \
	  "send without invalidate, or the key of a bound window") \
	X(0x151, RNR_SENT, \
	  "RNR NAK sent to {peer}: no receive is posted for {what} at PSN {psn}; it is to be sent again after {ms} ms", \
	  "a SEND or a WRITE with immediate takes a receive", \
	  "post more receives, and earlier") \
	X(0x152, SEQUENCE_SENT, \
	  "NAK PSN sequence error sent to {peer}: packets from PSN {psn} on have not come", \
	  "a lossless network drops nothing", \
	  "normal where packets are lost; look for drops and full buffers on the path") \
	X(0x153, RNR_SENT_ON_PURPOSE, \
	  "RNR NAK sent to {peer}: the receive for {what} at PSN {psn} was hidden on purpose; it is to be sent again after {ms} ms", \
	  "rnr= of --impair hides receives by chance", \
	  "none is needed: the peer sends again") \
	/* packets that are dropped */ \
	X(0x181, DROP_QPN, \
	  "packet dropped: {what} from {peer} is for this number, which no QP has", \
	  "packets go to a QP that exists", \
	  "check the dest_qp_num that the peer was given, and that the QP was not destroyed too early") \
	X(0x182, DROP_SERVICE, \
	  "packet dropped: {what} from {peer} is of another service than the QP", \
	  "both QPs are of one type", \
	  "create both as RC, UC or UD") \
	X(0x183, DROP_STATE, \
	  "packet dropped: {what} from {peer} came while the QP is in {from}", \
	  "requests are taken in RTR, RTS and SQD, responses in RTS and SQD", \
	  "bring the QP to RTR before the peer sends") \
	X(0x184, DROP_PKEY, \
	  "packet dropped: {what} from {peer} has P_Key {key}", \
	  "the only P_Key is the default one, 0xffff", \
	  "let the peer use P_Key index 0") \
	X(0x185, DROP_SOURCE, \
	  "packet dropped: {what} came from {peer} or to an address that are not those of the QP's path", \
	  "packets of a connection come from the path's dgid and to its GID", \
	  "check ah_attr.grh.dgid and sgid_index of both QPs") \
	X(0x186, DROP_ICRC, \
	  "packet dropped: {what} from {peer} has a wrong ICRC", \
	  "the ICRC covers a packet from end to end, its addresses and ports as well", \
	  "something on the path changes packets (a NAT does), or the memory changed while it was sent") \
	X(0x187, DROP_QKEY, \
	  "packet dropped: {what} from {peer} has Q_Key {key}, the QP has {hi}", \
	  "the sender uses the Q_Key of the receiving QP", \
	  "give the sender the receiver's Q_Key (remote_qkey)") \
	X(0x188, DROP_NO_RECEIVE, \
	  "message dropped: no receive is posted for {what} of {n} bytes from {peer}", \
	  "UC and UD do not send again: a message without a receive is lost", \
	  "post more receives, and earlier") \
	X(0x189, DROP_TOO_LONG, \
	  "message dropped: {what} of {n} bytes from {peer} is longer than its receive", \
	  "a receive holds the message, and with UD 40 bytes more (GRH)", \
	  "post longer receives") \
	X(0x18a, DROP_ACCESS, \
	  "message dropped: {what} of {n} bytes from {peer} is for memory that it may not write", \
	  "a UC WRITE needs a valid rkey, its bounds and rights, and the QP's; nothing is answered", \
	  "compare address, rkey and access flags; with RC both sides get an error") \
	X(0x18b, DROP_LENGTH, \
	  "packet dropped: {what} from {peer} has {n} bytes of payload, the path MTU of this QP is {limit}", \
	  "all packets but the last of a message have the path MTU, which both ends agree on", \
	  "give both QPs the same IBV_QP_PATH_MTU") \
	X(0x18c, DROP_PORT, \
	  "packet dropped: {what} from {peer} came from another source port than the connection's", \
	  "a peer keeps to its source port, or moves with the packet that is due", \
	  "see docs/security.md") \
	X(0x18d, DROP_SWEEP, \
	  "packet dropped: {what} from {peer}: PSNs far from what is under way were tried on this connection", \
	  "for a second nothing that comes in ends the connection", \
	  "see docs/security.md: another sender guesses PSNs, or one of the QPs was set up with a wrong PSN") \
	/* ends without a packet */ \
	X(0x190, CQ_OVERRUN, \
	  "a CQ of {limit} entries is full: a completion is lost", \
	  "a CQ has room for all requests that are under way", \
	  "create it with more entries (cqe), or poll it more often") \
	X(0x191, DEVICE_GONE, \
	  "the device's interface is gone: the QP goes to ERR", \
	  "a device lives as long as its interface", \
	  "keep the interface, or reconnect on another device") \
	X(0x192, MODIFIED, \
	  "ibv_modify_qp {from} to {to}: {n} send requests under way are flushed", \
	  "a request completes while its QP is in RTS or SQD", \
	  "poll for their completions first, if they matter") \
	/* calls that are refused */ \
	X(0x1c1, CUR_STATE, \
	  "ibv_modify_qp: cur_qp_state is {to}, the QP is in {from}", \
	  "cur_qp_state is the QP's state, and only given on the way to RTS", \
	  "leave IBV_QP_CUR_STATE out") \
	X(0x1c2, NO_TRANSITION, \
	  "ibv_modify_qp {from} to {to}: there is no such transition", \
	  "RESET to INIT to RTR to RTS, RTS and SQD to each other, SQE to RTS (not RC), any but RESET to ERR, any to RESET", \
	  "take the steps between, or reset the QP first") \
	X(0x1c3, MISSING, \
	  "ibv_modify_qp {from} to {to}: {mask} is missing", \
	  "attr_mask needs {needs}", \
	  "set these members of ibv_qp_attr and their bits") \
	X(0x1c4, NOT_ALLOWED, \
	  "ibv_modify_qp {from} to {to}: {mask} cannot be given in this transition", \
	  "attr_mask may have {needs}, and IBV_QP_STATE", \
	  "leave it out, or set it in the transition that takes it") \
	X(0x1c5, VALUE, \
	  "ibv_modify_qp {from} to {to}: {what} is {n}", \
	  "it is {least} to {limit}", \
	  "set another value") \
	X(0x1c6, PATH, \
	  "ibv_modify_qp {from} to {to}: ah_attr has {what}: {n}", \
	  "RoCE needs is_global, port_num 1, a dgid that is an address, and the sgid_index of an entry of the GID table of the same family", \
	  "fill ah_attr.grh; ibv_query_gid() and rocemu devices show the GID table") \
	X(0x1c7, NO_MIGRATION, \
	  "ibv_modify_qp {from} to {to}: {mask}", \
	  "RoCE has no automatic path migration", \
	  "leave it out") \
	X(0x1c8, SEND_STATE, \
	  "ibv_post_send: {what} (wr_id {id}): the QP is in {from}", \
	  "sends are posted in RTS, SQD, SQE and ERR", \
	  "bring the QP to RTS first") \
	X(0x1c9, SEND_FULL, \
	  "ibv_post_send: {what} (wr_id {id}): the send queue's {limit} entries are in use", \
	  "an entry is free once the completion of its request, or of a later one that was signaled, was made", \
	  "create the QP with more max_send_wr, signal some requests, and poll") \
	X(0x1ca, SEND_SGES, \
	  "ibv_post_send: {what} (wr_id {id}) has {n} SGEs", \
	  "it has 0 to max_send_sge, here {limit}", \
	  "create the QP with more max_send_sge") \
	X(0x1cb, SEND_INLINE, \
	  "ibv_post_send: {what} (wr_id {id}) of {len} bytes is inline", \
	  "SENDs and WRITEs of up to max_inline_data bytes, here {limit}, may be", \
	  "create the QP with more max_inline_data, or post without IBV_SEND_INLINE") \
	X(0x1cc, SEND_LENGTH, \
	  "ibv_post_send: {what} (wr_id {id}) has SGEs of {len} bytes", \
	  "an atomic's result is 8 bytes", \
	  "give it an SGE of 8 bytes") \
	X(0x1cd, SEND_FLUSH, \
	  "ibv_post_send: {what} (wr_id {id}): its SGEs, placement types or level are wrong", \
	  "a FLUSH has one SGE at most, IBV_FLUSH_GLOBAL or _PERSISTENT, and level range or MR", \
	  "see ibv_wr_flush()") \
	X(0x1ce, SEND_OPCODE, \
	  "ibv_post_send: opcode {n} (wr_id {id})", \
	  "the QP's type has no such operation", \
	  "see enum ibv_wr_opcode; windows need RC or UC, and an XRC target sends nothing") \
	X(0x1cf, SEND_AH, \
	  "ibv_post_send: {what} (wr_id {id}) has no address handle of this device", \
	  "wr.ud.ah of a UD request is made by ibv_create_ah() on the QP's context", \
	  "set wr.ud.ah") \
	X(0x1d0, SEND_BIND, \
	  "ibv_post_send: bind (wr_id {id}): its window, region, or access flags {n} are wrong", \
	  "a bind has a window, a region unless its length is 0, and remote rights", \
	  "see IBV_WR_BIND_MW and ibv_bind_mw()") \
	X(0x1d1, RECV_STATE, \
	  "ibv_post_recv (wr_id {id}): the QP is in {from}", \
	  "receives are posted from INIT on", \
	  "bring the QP to INIT first") \
	X(0x1d2, RECV_SRQ, \
	  "ibv_post_recv (wr_id {id}): the QP has no receive queue of its own", \
	  "a QP with an SRQ, and XRC's, take the SRQ's receives", \
	  "use ibv_post_srq_recv()") \
	X(0x1d3, RECV_SGES, \
	  "ibv_post_recv (wr_id {id}) has {n} SGEs", \
	  "it has 0 to max_recv_sge, here {limit}", \
	  "create the queue with more max_recv_sge (SRQ: max_sge)") \
	X(0x1d4, RECV_FULL, \
	  "ibv_post_recv (wr_id {id}): the queue's {limit} entries are in use", \
	  "an entry is free once a message took it", \
	  "create the queue with more max_recv_wr (SRQ: max_wr)")
/* clang-format on */

enum rocemu_why_code {
	ROCEMU_WHY_NONE,
#define X(number, name, text, rule, remedy) ROCEMU_WHY_##name = number,
	ROCEMU_WHYS(X)
#undef X
};

/** A reason. What its code's text does not name is 0. */
struct rocemu_why {
	enum rocemu_why_code code;
	uint32_t qpn; /* the QP that it is about; 0: none */
	uint32_t peer_qpn, psn;
	struct rocemu_gid peer;
	const char *what; /* static: an operation, a member's name */
	uint64_t id, addr, len, key, lo, hi, n, limit;
};

#endif
