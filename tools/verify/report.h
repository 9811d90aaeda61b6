/* SPDX-License-Identifier: BSD-2-Clause */
/* What the reports share: figures of a connection, and JSON. */
#ifndef VERIFY_REPORT_H
#define VERIFY_REPORT_H

#include <stdio.h>

#include "model.h"

/** Of one direction of a connection. */
struct figures {
	uint64_t packets, wire_bytes, goodput_bytes, requests, again, rtt_p50_ns, rtt_p99_ns, rtt_n;
	double seconds, goodput_bps, again_share;
};

struct figures figures_of(const struct flow *f);
const char *service_name(enum rocemu_service svc);

/** Call fn for each kept finding, in the order of packets within each flow. */
typedef void (*finding_fn)(const struct verify *v, const struct flow *f, const struct finding *n,
			   void *user);
void for_each_finding(const struct verify *v, finding_fn fn, void *user);

void json_string(FILE *f, const char *text);
/** Everything but the packets, without the outermost braces. */
void json_body(const struct verify *v, FILE *f, const char *name);

#endif
