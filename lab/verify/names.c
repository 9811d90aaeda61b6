/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of opcodes are made of those in the opcode table, word by word. */
#include "names.h"

#include <string.h>

#include <rocemu/cm.h>

#include "base/util.h"

/* clang-format off */
static const struct { const char *ours, *name; } words[] = {
	{"SEND", "Send"}, {"WRITE", "RDMA Write"}, {"READ", "RDMA Read"}, {"REQUEST", "Request"},
	{"RESP", "Response"}, {"FIRST", "First"}, {"MIDDLE", "Middle"}, {"LAST", "Last"},
	{"ONLY", "Only"}, {"IMM", "Immediate"}, {"INV", "Invalidate"}, {"ACK", "Acknowledge"},
	{"ATOMIC", "Atomic"}, {"CMP", "Compare"}, {"SWAP", "Swap"}, {"FETCH", "Fetch"},
	{"ADD", "Add"}, {"FLUSH", "Flush"},
};
static const char *const services[8] = {"RC", "UC", "RD", "UD", "CNP", "XRC", "Manufacturer",
					"Manufacturer"};
/* clang-format on */

static const char *word_name(const char *word, size_t len)
{
	for (unsigned i = 0; i < ARRAY_LEN(words); i++) {
		if (strlen(words[i].ours) == len && memcmp(words[i].ours, word, len) == 0)
			return words[i].name;
	}
	return NULL;
}

void name_opcode(struct text *t, uint8_t opcode)
{
	const char *word = rocemu_opcode_name(opcode);
	const char *name;
	size_t len;

	if (rocemu_opcode_hdr_len(opcode) == 0) {
		text_add(t, "%s Reserved 0x%02x", services[opcode >> 5], opcode);
		return;
	}
	if (rocemu_opcode_ops(opcode) & ROCEMU_OP_ATOMIC_WRITE) { /* not "Atomic RDMA Write" */
		text_add(t, "%s Atomic Write", services[opcode >> 5]);
		return;
	}
	for (const char *space = ""; *word != 0; space = " ") {
		len = strcspn(word, "_");
		name = word_name(word, len);
		if (name != NULL)
			text_add(t, "%s%s", space, name);
		else
			text_add(t, "%s%.*s", space, (int)len, word);
		word += len + (word[len] == '_');
	}
}

const char *name_cm(uint16_t attr_id)
{
	switch ((enum rocemu_cm_attr)attr_id) {
	case ROCEMU_CM_REQ:
		return "CM: ConnectRequest";
	case ROCEMU_CM_MRA:
		return "CM: MsgRcptAck";
	case ROCEMU_CM_REJ:
		return "CM: ConnectReject";
	case ROCEMU_CM_REP:
		return "CM: ConnectReply";
	case ROCEMU_CM_RTU:
		return "CM: ReadyToUse";
	case ROCEMU_CM_DREQ:
		return "CM: DisconnectRequest";
	case ROCEMU_CM_DREP:
		return "CM: DisconnectReply";
	case ROCEMU_CM_SIDR_REQ:
		return "CM: ServiceIDResReq";
	case ROCEMU_CM_SIDR_REP:
		return "CM: ServiceIDResReqResp";
	case ROCEMU_CM_LAP:
		return "CM: LoadAlternatePath";
	case ROCEMU_CM_APR:
		return "CM: AlternatePathResponse";
	}
	return NULL;
}

void name_syndrome(struct text *t, uint8_t syndrome)
{
	static const char *const naks[] = {
		"PSN Sequence Error",	    "Invalid Request",	  "Remote Access Error",
		"Remote Operational Error", "Invalid RD Request",
	};
	unsigned value = syndrome & ROCEMU_AETH_VALUE_MASK;

	switch (syndrome & ROCEMU_AETH_CLASS_MASK) {
	case ROCEMU_AETH_ACK:
		text_add(t, "ACK");
		return;
	case ROCEMU_AETH_RNR:
		text_add(t, "RNR NAK %g ms", (double)rocemu_rnr_timer_ns((uint8_t)value) / 1e6);
		return;
	case ROCEMU_AETH_NAK:
		if (value < ARRAY_LEN(naks)) {
			text_add(t, "NAK %s", naks[value]);
			return;
		}
		break;
	default:
		break;
	}
	text_add(t, "Reserved syndrome 0x%02x", syndrome);
}

bool logged_is_nak(const struct logged *e)
{
	return logged_has(e, ROCEMU_HDR_AETH) &&
	       (e->h.aeth.syndrome & ROCEMU_AETH_CLASS_MASK) != ROCEMU_AETH_ACK;
}

void name_packet(struct text *t, const struct logged *e)
{
	const char *cm = e->mad != NULL ? name_cm(e->mad_attr) : NULL;

	if (cm != NULL)
		text_add(t, "%s", cm);
	else if (logged_is_nak(e))
		name_syndrome(t, e->h.aeth.syndrome);
	else
		name_opcode(t, e->h.opcode);
}
