/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets' names as Wireshark has them, so that the two can be read side by side. */
#ifndef VERIFY_NAMES_H
#define VERIFY_NAMES_H

#include "packetlog.h"
#include "wire/text.h"

/** "RC RDMA Write First"; "RC Reserved 0x18" for what is not known. */
void name_opcode(struct text *t, uint8_t opcode);
/** "CM: ConnectRequest", static; NULL for numbers that are no CM message. */
const char *name_cm(uint16_t attr_id);
/** "NAK PSN Sequence Error", "RNR NAK 0.64 ms", "ACK". */
void name_syndrome(struct text *t, uint8_t syndrome);
/** The most specific name of a packet: of its CM message, its NAK, or else its opcode. */
void name_packet(struct text *t, const struct logged *e);

/** Is it a response that refuses: NAK or RNR NAK? */
bool logged_is_nak(const struct logged *e);

#endif
