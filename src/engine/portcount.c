/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/portcount.h"

#include <stddef.h>
#include <stdio.h>

#include "base/util.h"

_Static_assert(sizeof(struct port_counts) <= COUNTFILE_VALUES * sizeof(uint64_t),
	       "a row has too few values");
_Static_assert(sizeof(struct rocemu_ep_shown) <= PORTCOUNT_SHOWN_STRIDE, "stride too small");

/* clang-format off */
#define TERM(member) (int16_t)(offsetof(struct port_counts, member) / sizeof(uint64_t) + 1)
#define EP(name)     TERM(ep.name)
#define LANE(name)   TERM(lane.name)
#define DROP(why)    TERM(ep.drops[ROCEMU_DROP_##why])

/* clang-format off */
#define IB(name_, ...) {.name = "counters/" name_, .term = {__VA_ARGS__}, .divisor = 1}
#define HW(name_, ...) {.name = "hw_counters/" name_, .term = {__VA_ARGS__}, .divisor = 1}
/* clang-format on */

/* Counters without a term exist because programs look for them, and stay 0. */
static const struct countfile_counter table[] = {
	IB("VL15_dropped"),
	IB("excessive_buffer_overrun_errors", LANE(rx_sock_drops)),
	IB("link_downed", LANE(impair_flaps)),
	IB("link_error_recovery"),
	IB("local_link_integrity_errors"),
	IB("multicast_rcv_packets", EP(mcast_rcvd)),
	IB("multicast_xmit_packets", EP(mcast_sent)),
	IB("port_rcv_constraint_errors"),
	/* IBTA 16.1.3.5: octets divided by 4. */
	{.name = "counters/port_rcv_data", .term = {LANE(rx_octets)}, .divisor = 4},
	IB("port_rcv_errors", DROP(SHORT), DROP(OPCODE), DROP(TVER), DROP(PAD), DROP(LENGTH),
	   DROP(ICRC)),
	IB("port_rcv_packets", LANE(rx_datagrams)),
	IB("port_rcv_remote_physical_errors"),
	IB("port_rcv_switch_relay_errors"),
	IB("port_xmit_constraint_errors"),
	{.name = "counters/port_xmit_data", .term = {EP(tx_octets)}, .divisor = 4},
	IB("port_xmit_discards", LANE(tx_errors)),
	IB("port_xmit_packets", EP(tx_packets)),
	IB("port_xmit_wait", LANE(tx_backlogged)),
	IB("symbol_error"),
	IB("unicast_rcv_packets", LANE(rx_datagrams), -EP(mcast_rcvd)),
	IB("unicast_xmit_packets", EP(tx_packets), -EP(mcast_sent)),

	HW("duplicate_request", EP(duplicates)),
	HW("implied_nak_seq_err", EP(response_gaps)),
	/* Lifespan of counters in milliseconds: they are always current. */
	HW("lifespan"),
	HW("local_ack_timeout_err", EP(timeouts)),
	HW("np_cnp_sent", EP(cnps_sent)),
	HW("np_ecn_marked_roce_packets", EP(ecn_marked)),
	HW("out_of_buffer", DROP(NO_RECV)),
	HW("out_of_sequence", EP(kept), EP(kept_full)),
	HW("packet_seq_err", EP(naks_rcvd)),
	HW("req_cqe_error", EP(req_errors)),
	HW("req_cqe_flush_error", EP(req_flushed)),
	HW("req_remote_access_errors", EP(req_rem_access)),
	HW("req_remote_invalid_request", EP(req_rem_invalid)),
	HW("req_rnr_retries_exceeded", EP(req_rnr_exc)),
	HW("req_transport_retries_exceeded", EP(req_retry_exc)),
	HW("resp_cqe_error", EP(resp_errors)),
	HW("resp_cqe_flush_error", EP(resp_flushed)),
	HW("resp_local_length_error", EP(resp_too_long)),
	HW("resp_remote_access_errors", EP(access_errors)),
	HW("retrans_pkts", EP(retransmits)),
	HW("rnr_nak_retry_err", EP(rnr_naks_rcvd)),
	HW("roce_adp_retrans"),
	HW("roce_adp_retrans_to"),
	HW("roce_slow_restart"),
	HW("roce_slow_restart_cnps"),
	HW("roce_slow_restart_trans"),
	HW("rp_cnp_handled", EP(cnps_rcvd)),
	HW("rp_cnp_ignored"),
	HW("rx_atomic_requests", EP(atomics_rcvd)),
	HW("rx_dct_connect"),
	HW("rx_guard_dropped", DROP(SWEEP)),
	HW("rx_guard_sweeps", EP(psn_sweeps)),
	HW("rx_icrc_encapsulated", DROP(ICRC)),
	HW("rx_port_dropped", DROP(PORT)),
	HW("rx_port_moves", EP(port_moves)),
	HW("rx_read_requests", EP(reads_rcvd)),
	HW("rx_write_requests", EP(writes_rcvd)),
};
/* clang-format on */

_Static_assert(ARRAY_LEN(table) <= COUNTFILE_COUNTERS, "a file has too few counters");

const struct countfile_counter *portcount_table(unsigned *n)
{
	*n = ARRAY_LEN(table);
	return table;
}

bool portcount_path(char *out, size_t len, const char *root, const char *device)
{
	return snprintf(out, len, "%s/shared/counters/%s", root, device) < (int)len;
}

bool portcount_shown_path(char *out, size_t len, const char *root, const char *device)
{
	return snprintf(out, len, "%s/shared/objects/%s", root, device) < (int)len;
}
