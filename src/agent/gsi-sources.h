/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counts the sources of packets to QP 1, so that one that floods does not use up the capacity of
 * others. Sources are counted in cells (base/share.h): an address has one, and the port that agents
 * and Soft-RoCE send from, which other users of that host cannot use, has a separate one. Pure.
 */
#ifndef AGENT_GSI_SOURCES_H
#define AGENT_GSI_SOURCES_H

#include <stdbool.h>
#include <stdint.h>

#include <rocemu/endpoint.h>

#include "base/prf.h"
#include "base/share.h"

/** What Soft-RoCE sends QP 1's packets from, and agents do. */
enum { GSI_SPORT = 55410 };

/** Replies for absent clients to one source, per second. */
enum { GSI_ANSWERS_PER_S = 4096 };

struct gsi_sources {
	struct prf prf;
	uint64_t second; /* that answers are counted in */
	uint16_t answers[SHARE_CELLS];
};

/** key: secret, or a source could choose whose cell it shares. */
void gsi_sources_init(struct gsi_sources *s, const uint64_t key[static 2]);

/** The cell of a source. */
unsigned gsi_sources_cell(const struct gsi_sources *s, const struct rocemu_gid *addr,
			  uint16_t sport);

/** One more answer to a cell. @return false: it has had enough for now. */
bool gsi_sources_may_answer(struct gsi_sources *s, unsigned cell, uint64_t now_ms);

#endif
