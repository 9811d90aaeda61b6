/* SPDX-License-Identifier: BSD-2-Clause */
/* What the reports share: figures of a connection, and JSON. */
#ifndef VERIFY_REPORT_H
#define VERIFY_REPORT_H

#include "base/json.h"
#include "model.h"

/** Of one direction of a connection. */
struct figures {
	uint64_t packets, wire_bytes, goodput_bytes, requests, again, rtt_p50_ns, rtt_p99_ns, rtt_n;
	double seconds, goodput_bps, again_share;
};

struct figures figures_of(const struct flow *f);
const char *service_name(enum rocemu_service svc);

/** Call fn for each finding that is reported, in the order of packets. */
typedef void (*finding_fn)(const struct verify *v, const struct flow *f, const struct finding *n,
			   void *user);
void for_each_finding(const struct verify *v, finding_fn fn, void *user);
/** As for_each_finding(), also those kept for annotations alone. */
void for_each_kept(const struct verify *v, finding_fn fn, void *user);

/** The first of the worst errors or warnings; n is NULL: there are none. */
struct worst {
	const struct flow *f;
	const struct finding *n;
};
struct worst worst_finding(const struct verify *v);
/** "fail", "warn" or "pass". */
const char *verdict_name(const struct verify *v);

/** An object, as an element or with a key. */
void finding_json(const struct verify *v, struct json *j, const char *key, const struct flow *f,
		  const struct finding *n, bool tentative);
/** The members of the report, everything but the packets. */
void report_json(const struct verify *v, struct json *j, const char *name);

#endif
