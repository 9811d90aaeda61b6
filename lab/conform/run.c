/* SPDX-License-Identifier: BSD-2-Clause */
/* A session with a device: what can be reached there, and cases with their verdicts. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rocemu/mad.h>

#include "base/bytes.h"
#include "base/rng.h"
#include "base/util.h"
#include "conform/session.h"
#include "wire/print.h"

enum { TRIES = 3, PACKETS_MAX = 100000 };

#define SERVICE_BASE 0x1000a5a500000000u /* of no registered service */

/* ---- begin ---- */

/** The address from which packets to the target leave. */
static bool own_address(const struct rocemu_gid *target, char text[INET6_ADDRSTRLEN])
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(ROCEMU_UDP_PORT)};
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(ROCEMU_UDP_PORT)};
	const bool ip4 = rocemu_gid_is_ipv4(target);
	struct sockaddr *sa = ip4 ? (struct sockaddr *)&four : (struct sockaddr *)&six;
	socklen_t len = ip4 ? sizeof(four) : sizeof(six);
	const int fd = socket(sa->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool good;

	memcpy(&four.sin_addr, target->raw + 12, sizeof(four.sin_addr));
	memcpy(&six.sin6_addr, target->raw, sizeof(six.sin6_addr));
	good = fd >= 0 && connect(fd, sa, len) == 0 && getsockname(fd, sa, &len) == 0 &&
	       inet_ntop(sa->sa_family, ip4 ? (void *)&four.sin_addr : (void *)&six.sin6_addr, text,
			 INET6_ADDRSTRLEN);
	if (fd >= 0)
		close(fd);
	return good;
}

/** Of the question to QP 1, or of its answer: by the communication ID behind the MAD's header. */
static bool is_hello(const struct conform_session *s, const struct wire_packet *p)
{
	enum { LOCAL_ID = ROCEMU_BTH_LEN + 8 + 24, REMOTE_ID = LOCAL_ID + 4 };

	return s->hello && p->len >= REMOTE_ID + 4 &&
	       (get_be32(p->data + 4) & ROCEMU_QPN_MASK) == ROCEMU_GSI_QPN &&
	       get_be32(p->data + (p->sent ? LOCAL_ID : REMOTE_ID)) == s->hello;
}

static void tap(void *arg, const struct wire_packet *p)
{
	struct conform_session *s = arg;
	const bool hello = is_hello(s, p);
	struct conform_packet *to;

	if (hello && p->sent)
		s->hello_sent_ns = p->ns;
	else if (hello)
		s->hello_came_ns = p->ns;
	if (s->ending)
		return;
	if (s->packets == s->room) {
		const unsigned room = s->room ? 2 * s->room : 64;
		struct conform_packet *more =
			room > PACKETS_MAX ? NULL : realloc(s->packet, room * sizeof(*more));

		if (!more)
			return;
		s->packet = more;
		s->room = room;
	}
	to = &s->packet[s->packets];
	*to = (struct conform_packet){.ip = p->ip,
				      .ns = p->ns,
				      .sent = p->sent,
				      .len = p->len,
				      .data = malloc(p->len + 1)};
	if (!to->data)
		return;
	memcpy(to->data, p->data, p->len);
	to->hello = hello;
	to->line = p->sent && !hello ? s->line : 0;
	if (s->world) {
		to->sq_psn = s->world->setup.sq_psn;
		to->rq_psn = s->world->setup.rq_psn;
		to->dqpn = p->sent ? s->world->peer.device_qpn : s->world->peer.qpn;
	}
	s->packets++;
}

static void forget_packets(struct conform_session *s)
{
	while (s->packets)
		free(s->packet[--s->packets].data);
}

static struct conform_session *refused(struct conform_session *s, char *error, size_t size,
				       const char *fmt, ...) __attribute__((format(printf, 4, 5)));

static struct conform_session *refused(struct conform_session *s, char *error, size_t size,
				       const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(error, size, fmt, args);
	va_end(args);
	conform_close(s);
	return NULL;
}

static uint64_t seed(void)
{
	struct timespec t;
	struct rng r;

	clock_gettime(CLOCK_REALTIME, &t);
	rng_init(&r, (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec + (uint64_t)getpid());
	return rng_u64(&r);
}

struct conform_session *conform_open(const struct conform_options *o, char *error, size_t size)
{
	struct conform_session *s = calloc(1, sizeof(*s));
	char own[INET6_ADDRSTRLEN], target[INET6_ADDRSTRLEN];
	const uint64_t random = seed();
	struct rocemu_gid gid;
	int result;

	if (!s)
		return refused(s, error, size, "no memory");
	s->tcp = -1;
	s->o = *o;
	print_gid(target, sizeof(target), &o->target);
	if (!o->from && !own_address(&o->target, own))
		return refused(s, error, size, "%s cannot be reached: %s", target, strerror(errno));
	s->wire = wire_open(o->from ? o->from : own, &result);
	if (!s->wire)
		return refused(s, error, size, "UDP port 4791 of %s cannot be had: %s",
			       o->from ? o->from : own, strerror(-result));
	gid = wire_gid(s->wire);
	if (rocemu_gid_equal(&gid, &o->target))
		return refused(s, error, size,
			       "%s is this host's: --from has to be another address of it", target);
	s->qpn = WIRE_PROBE_QPN; /* queue pairs of cases have the next ones */
	s->comm_id = (uint32_t)random;
	s->service = SERVICE_BASE | random >> 32;
	wire_tap(s->wire, tap, s);
	wire_take(s->wire, gsi_take, s);
	result = gsi_hello(s);
	if (result)
		return refused(s, error, size,
			       "QP 1 of %s does not answer a connection request (%s): is a RoCEv2 "
			       "device there, and does UDP port 4791 pass in both directions?",
			       target, strerror(-result));
	return s;
}

void conform_close(struct conform_session *s)
{
	if (!s)
		return;
	forget_packets(s);
	free(s->packet);
	if (s->tcp >= 0)
		close(s->tcp);
	if (s->wire)
		wire_close(s->wire);
	free(s);
}

struct rocemu_gid conform_gid(const struct conform_session *s)
{
	return wire_gid(s->wire);
}

/** The kernel's times of what came are earlier than the reading of it. */
static void sort_packets(struct conform_session *s)
{
	for (unsigned i = 1; i < s->packets; i++) {
		const struct conform_packet p = s->packet[i];
		unsigned k = i;

		for (; k && s->packet[k - 1].ns > p.ns; k--)
			s->packet[k] = s->packet[k - 1];
		s->packet[k] = p;
	}
}

/* ---- what there is at the device ---- */

static bool is_there(struct conform_session *s, enum scenario_peer_program kind)
{
	struct conform_reach *r = &s->reach[kind];

	if (r->asked)
		return r->there;
	r->asked = true;
	switch (kind) {
	case SCENARIO_PEER_NONE:
		return r->there = true;
	case SCENARIO_PEER_RPING:
		return r->there = rping_there(s, r->why, sizeof(r->why));
	case SCENARIO_PEER_WRITE_BW:
	case SCENARIO_PEER_READ_BW:
	case SCENARIO_PEER_ATOMIC_BW:
		return r->there = perftest_there(s, kind, r->why, sizeof(r->why));
	case SCENARIO_PEER_CONFORM_PEER:
		return r->there = remote_there(s, r->why, sizeof(r->why));
	default:
		return r->there = pingpong_there(s, kind, r->why, sizeof(r->why));
	}
}

/* ---- a case ---- */

void conform_result_free(struct conform_result *r)
{
	for (unsigned i = 0; i < r->packets; i++)
		free(r->packet[i].data);
	free(r->packet);
	free(r->text);
	*r = (struct conform_result){0};
}

static void say(struct conform_result *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void say(struct conform_result *r, const char *fmt, ...)
{
	va_list args;

	free(r->text);
	r->text = NULL;
	va_start(args, fmt);
	if (vasprintf(&r->text, fmt, args) < 0)
		r->text = NULL;
	va_end(args);
}

/** Of several rounds each has its own; those of one name are all kept, as far as there is room. */
static void add_measures(struct conform_result *r, const struct scenario_result *of)
{
	for (unsigned i = 0; i < of->measures && r->measures < SCENARIO_MEASURES; i++)
		r->measure[r->measures++] = of->measure[i];
}

/** Once, all rounds of it: up to the first that does not pass. */
static enum scenario_verdict once(struct conform_session *s, const struct conform_case *c,
				  struct conform_result *r)
{
	const struct scenario_case *rounds = &c->s->cases[c->number];
	const struct scenario_backend *b =
		s->kind == SCENARIO_PEER_CONFORM_PEER ? remote_backend() : &conform_backend;
	struct scenario_result result = {0};

	forget_packets(s);
	s->line = 0;
	r->measures = 0;
	for (unsigned i = 0; i < rounds->rounds; i++) {
		scenario_run(c->s, c->number, i, b, s->o.log, &result);
		add_measures(r, &result);
		if (result.verdict != SCENARIO_PASS)
			break;
	}
	r->line = result.verdict == SCENARIO_PASS ? 0 : result.error.line;
	if (result.verdict != SCENARIO_PASS)
		say(r, "%s%s%s", result.values, *result.values ? ": " : "", result.error.text);
	return result.verdict;
}

static enum conform_verdict of_difference(const struct conform_session *s,
					  enum scenario_level level)
{
	if (level == SCENARIO_MEASURE)
		return CONFORM_MEASURED;
	return level == SCENARIO_SHOULD && !s->o.strict ? CONFORM_WARN : CONFORM_FAIL;
}

/** It differs only if it does so each time. */
static enum conform_verdict judge(struct conform_session *s, const struct conform_case *c,
				  struct conform_result *r)
{
	unsigned failed = 0;

	while (r->tries < TRIES) {
		const enum scenario_verdict v = once(s, c, r);

		r->tries++;
		if (v == SCENARIO_CANNOT)
			return CONFORM_UNSUPPORTED;
		if (v == SCENARIO_ERROR)
			return CONFORM_INCONCLUSIVE;
		if (v == SCENARIO_PASS && !failed)
			return c->about.level == SCENARIO_MEASURE ? CONFORM_MEASURED : CONFORM_PASS;
		failed += v == SCENARIO_FAIL;
	}
	return failed == r->tries ? of_difference(s, c->about.level) : CONFORM_INCONCLUSIVE;
}

/** The peer of a case: the first of its two that is there. */
static bool choose(struct conform_session *s, const struct conform_case *c)
{
	s->kind = c->about.peer;
	if (is_there(s, s->kind))
		return true;
	s->kind = c->about.or_peer;
	return s->kind != SCENARIO_PEER_NONE && is_there(s, s->kind);
}

void conform_run(struct conform_session *s, const struct conform_case *c, struct conform_result *r)
{
	const uint64_t begin = conform_now();

	*r = (struct conform_result){.c = c, .verdict = CONFORM_SKIP};
	s->c = c;
	conform_use(s);
	if (c->about.may_break && !s->o.may_break)
		say(r, "it may break the device: --may-break-it allows it");
	else if (!choose(s, c))
		say(r, "needs at the device: %s (%s)", conform_peer_command[c->about.peer],
		    s->reach[c->about.peer].why);
	else
		r->verdict = judge(s, c, r);
	r->ns = conform_now() - begin;
	sort_packets(s);
	r->packet = s->packet;
	r->packets = s->packets;
	s->packet = NULL;
	s->packets = s->room = 0;
}
