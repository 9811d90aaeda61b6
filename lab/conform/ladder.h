/* SPDX-License-Identifier: BSD-2-Clause */
/* The packets of a case as text: each in the words of scenarios, all as a ladder diagram. */
#ifndef CONFORM_LADDER_H
#define CONFORM_LADDER_H

#include "conform/conform.h"

enum { CONFORM_PACKET_TEXT = 512 };

/** "SEND_ONLY 1 A len 8", "nak 60 0/0", "CM REQ ...": a packet; and what is wrong with it. */
void conform_packet_text(const struct conform_packet *p, char to[CONFORM_PACKET_TEXT]);

/** A line for each packet, behind indent blanks, about width columns wide. */
void conform_ladder(FILE *f, const struct conform_result *r, unsigned indent, unsigned width);

#endif
