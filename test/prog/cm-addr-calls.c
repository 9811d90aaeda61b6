/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_bind_addr(), rdma_listen(), rdma_resolve_addr() and rdma_resolve_route(), and what is seen
 * of an ID after each. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cm-addr.h"

enum { GUARD_MS = 60000, NOBODY = 65534 };

static enum rdma_cm_event_type print_event(struct rdma_event_channel *ch)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};
	enum rdma_cm_event_type type;
	struct rdma_cm_event *ev;

	if (poll(&p, 1, GUARD_MS) != 1 || rdma_get_cm_event(ch, &ev)) {
		printf(" no event");
		return RDMA_CM_EVENT_TIMEWAIT_EXIT;
	}
	type = ev->event;
	printf(" %s", rdma_event_str(type) + strlen("RDMA_CM_EVENT_"));
	if (ev->status)
		printf(" %s", ev->status < 0 ? strerrorname_np(-ev->status) : "positive");
	rdma_ack_cm_event(ev);
	return type;
}

static struct rdma_event_channel *channel(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();

	if (!ch) {
		perror("rdma_create_event_channel");
		exit(1);
	}
	return ch;
}

static struct rdma_cm_id *new_id(struct rdma_event_channel *ch, enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(ch, &id, NULL, ps)) {
		perror("rdma_create_id");
		exit(1);
	}
	return id;
}

static void set(struct rdma_cm_id *id, int option, int value)
{
	print_error(option == RDMA_OPTION_ID_REUSEADDR ? "reuseaddr" : "afonly",
		    rdma_set_option(id, RDMA_OPTION_ID, option, &value, sizeof(value)));
}

/* ---- bind ---- */

static void bind_one(enum rdma_port_space ps, const char *name, uint16_t port)
{
	struct rdma_event_channel *ch = channel();
	struct rdma_cm_id *id = new_id(ch, ps);

	printf("bind ps %x %s:%u:", ps, name, port);
	print_error("bind", rdma_bind_addr(id, address(name, port)));
	print_id(id);
	print_error("listen", rdma_listen(id, 1));
	print_id(id);
	printf("\n");
	rdma_destroy_id(id);
	rdma_destroy_event_channel(ch);
}

static void bind_family(sa_family_t family)
{
	struct sockaddr_storage ss = {.ss_family = family};
	struct rdma_event_channel *ch = channel();
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP);

	printf("bind family %u:", family);
	print_error("bind", rdma_bind_addr(id, (struct sockaddr *)&ss));
	print_error("resolve", rdma_resolve_addr(id, NULL, (struct sockaddr *)&ss, RESOLVE_MS));
	printf("\n");
	rdma_destroy_id(id);
	rdma_destroy_event_channel(ch);
}

/* Options of a pair: who has them. */
enum { REUSE_1 = 1, REUSE_2 = 2, ONLY_1 = 4, ONLY_2 = 8, NOT_ONLY_1 = 16, NOT_ONLY_2 = 32 };

static void bind_two(const char *first, const char *second, enum rdma_port_space ps2,
		     unsigned options)
{
	struct rdma_event_channel *ch = channel();
	struct rdma_cm_id *a = new_id(ch, RDMA_PS_TCP), *b = new_id(ch, ps2);

	printf("bind two %s %s ps %x options %x:", first, second, ps2, options);
	if (options & REUSE_1)
		set(a, RDMA_OPTION_ID_REUSEADDR, 1);
	if (options & REUSE_2)
		set(b, RDMA_OPTION_ID_REUSEADDR, 1);
	if (options & (ONLY_1 | NOT_ONLY_1))
		set(a, RDMA_OPTION_ID_AFONLY, !!(options & ONLY_1));
	if (options & (ONLY_2 | NOT_ONLY_2))
		set(b, RDMA_OPTION_ID_AFONLY, !!(options & ONLY_2));
	print_error("bind", rdma_bind_addr(a, address(first, PORT)));
	print_error("bind", rdma_bind_addr(b, address(second, PORT)));
	print_error("listen", rdma_listen(a, 1));
	print_error("listen", rdma_listen(b, 1));
	printf("\n");
	rdma_destroy_id(a);
	rdma_destroy_id(b);
	rdma_destroy_event_channel(ch);
}

static void bind_twice(void)
{
	struct rdma_event_channel *ch = channel();
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP);

	printf("bind twice:");
	print_error("bind", rdma_bind_addr(id, address("any4", 0)));
	print_error("bind", rdma_bind_addr(id, address("any4", 0)));
	set(id, RDMA_OPTION_ID_REUSEADDR, 1);
	set(id, RDMA_OPTION_ID_AFONLY, 1);
	print_error("listen", rdma_listen(id, 1));
	print_error("listen", rdma_listen(id, 1));
	print_error("bind", rdma_bind_addr(id, address("any4", 0)));
	print_error("resolve", rdma_resolve_addr(id, NULL, address("own4", PORT), RESOLVE_MS));
	set(id, RDMA_OPTION_ID_REUSEADDR, 1);
	set(id, RDMA_OPTION_ID_AFONLY, 1);
	printf("\n");
	rdma_destroy_id(id);
	rdma_destroy_event_channel(ch);
}

/* Listening without an address. */
static void listen_unbound(void)
{
	struct rdma_event_channel *ch = channel();
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP);

	printf("listen unbound:");
	print_id(id);
	print_error("listen", rdma_listen(id, 1));
	print_id(id);
	printf("\n");
	rdma_destroy_id(id);
	rdma_destroy_event_channel(ch);
}

/* A port below 1024, without privilege. */
static void bind_privileged(void)
{
	struct rdma_event_channel *ch = channel();
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP), *again = new_id(ch, RDMA_PS_TCP);

	printf("bind port 80:");
	print_error("root", rdma_bind_addr(id, address("any4", 80)));
	rdma_destroy_id(id);
	if (seteuid(NOBODY) == 0) {
		int ret = rdma_bind_addr(again, address("any4", 80));
		int err = errno;

		if (seteuid(0))
			exit(1);
		errno = err;
		print_error("nobody", ret);
	}
	printf("\n");
	rdma_destroy_id(again);
	rdma_destroy_event_channel(ch);
}

static void binds(void)
{
	static const char *const names[] = {
		"own4",	   "any4",    "lo4",	 "peer4",  "far4",   "mc4",	"bc4", "own6",
		"any6",	   "lo6",     "peer6",	 "far6",   "mc6",    "ll6%",	"ll6", "ll6%999",
		"ib:any6", "ib:own4", "ib:own6", "ib:ll6", "ib:lo6", "ib:far4",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		bind_one(RDMA_PS_TCP, names[i], 0);
		bind_one(RDMA_PS_TCP, names[i], PORT);
	}
	bind_one(RDMA_PS_UDP, "own4", PORT);
	bind_one(RDMA_PS_UDP, "ib:any6", 0);
	bind_one(RDMA_PS_UDP, "ib:any6", PORT);
	bind_one(RDMA_PS_IB, "own4", PORT);
	bind_one(RDMA_PS_IB, "any6", 0);
	bind_one(RDMA_PS_IB, "ib:any6", 0);
	bind_one(RDMA_PS_IB, "ib:any6", PORT);
	bind_one(RDMA_PS_IPOIB, "own4", 0);
	bind_one(RDMA_PS_IPOIB, "any4", 0);
	bind_one(RDMA_PS_IPOIB, "ib:any6", 0);
	bind_family(AF_UNSPEC);
	bind_family(AF_UNIX);
	bind_family(255);
	bind_twice();
	listen_unbound();
	bind_privileged();
}

static void bind_pairs(void)
{
	bind_two("own4", "own4", RDMA_PS_TCP, 0);
	bind_two("own4", "own4", RDMA_PS_UDP, 0);
	bind_two("own4", "own4", RDMA_PS_IB, 0);
	bind_two("own4", "own4", RDMA_PS_TCP, REUSE_1);
	bind_two("own4", "own4", RDMA_PS_TCP, REUSE_1 | REUSE_2);
	bind_two("own4", "any4", RDMA_PS_TCP, 0);
	bind_two("any4", "own4", RDMA_PS_TCP, 0);
	bind_two("any4", "own4", RDMA_PS_TCP, REUSE_1 | REUSE_2);
	bind_two("any4", "any4", RDMA_PS_TCP, 0);
	bind_two("any4", "any4", RDMA_PS_TCP, REUSE_1 | REUSE_2);
	bind_two("own4", "own6", RDMA_PS_TCP, 0);
	bind_two("own6", "own6", RDMA_PS_TCP, 0);
	bind_two("own6", "ll6%", RDMA_PS_TCP, 0);
	bind_two("own6", "any4", RDMA_PS_TCP, 0);
	bind_two("any6", "own4", RDMA_PS_TCP, 0);
	bind_two("any6", "any4", RDMA_PS_TCP, 0);
	bind_two("any4", "any6", RDMA_PS_TCP, 0);
	bind_two("any6", "any4", RDMA_PS_TCP, ONLY_1);
	bind_two("any6", "any4", RDMA_PS_TCP, ONLY_1 | ONLY_2);
	bind_two("any6", "any4", RDMA_PS_TCP, ONLY_1 | NOT_ONLY_2);
	bind_two("any6", "own4", RDMA_PS_TCP, ONLY_1);
	bind_two("ib:any6", "any4", RDMA_PS_TCP, 0);
	bind_two("ib:any6", "own4", RDMA_PS_TCP, 0);
	bind_two("ib:any6", "any6", RDMA_PS_TCP, 0);
}

/* ---- resolve ---- */

static void resolve_more(struct rdma_event_channel *ch, struct rdma_cm_id *id)
{
	int ret;

	print_error("again", rdma_resolve_addr(id, NULL, address("own4", PORT), RESOLVE_MS));
	ret = rdma_resolve_route(id, RESOLVE_MS);
	print_error("route", ret);
	if (ret || print_event(ch) != RDMA_CM_EVENT_ROUTE_RESOLVED)
		return;
	if (id->route.num_paths == 1)
		print_path(id->route.path_rec);
}

/* bound: an address that is bound before, or "-". */
static void resolve_one(const char *bound, const char *src, const char *dst, uint16_t src_port)
{
	struct rdma_event_channel *ch = channel();
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP);
	int ret;

	printf("resolve bound %s from %s:%u to %s:", bound, src, src_port, dst);
	if (bound[0] != '-')
		print_error("bind", rdma_bind_addr(id, address(bound, src_port)));
	ret = rdma_resolve_addr(id, address(src, src_port), address(dst, PORT), RESOLVE_MS);
	print_error("resolve", ret);
	if (!ret && print_event(ch) == RDMA_CM_EVENT_ADDR_RESOLVED) {
		print_id(id);
		resolve_more(ch, id);
	} else {
		print_id(id);
	}
	printf("\n");
	rdma_destroy_id(id);
	rdma_destroy_event_channel(ch);
}

static void resolves(void)
{
	static const char *const dsts[] = {
		"own4",	   "peer4",    "dead4",	 "far4",    "any4",    "lo4",
		"mc4",	   "bc4",      "own6",	 "peer6",   "far6",    "any6",
		"lo6",	   "ll6%",     "ll6",	 "ll6%999", "ib:own4", "ib:peer4",
		"ib:own6", "ib:peer6", "ib:ll6", "ib:any6", "ib:lo6",  "ib:far6",
	};
	static const char *const srcs[][2] = {
		{"own4", "peer4"},	 {"own4", "own4"},     {"any4", "peer4"},
		{"lo4", "peer4"},	 {"lo4", "lo4"},       {"lo4", "own4"},
		{"own4", "lo4"},	 {"peer4", "peer4"},   {"far4", "peer4"},
		{"own4", "far4"},	 {"own6", "peer6"},    {"any6", "peer6"},
		{"own6", "peer4"},	 {"own4", "peer6"},    {"ll6%", "peer6"},
		{"any6", "ll6%"},	 {"any4", "peer6"},    {"ib:own4", "ib:peer4"},
		{"ib:any6", "ib:peer4"}, {"own4", "ib:peer4"}, {"ib:own4", "peer4"},
		{"own4", "any4"},
	};

	for (size_t i = 0; i < sizeof(dsts) / sizeof(dsts[0]); i++)
		resolve_one("-", "-", dsts[i], 0);
	for (size_t i = 0; i < sizeof(srcs) / sizeof(srcs[0]); i++) {
		resolve_one("-", srcs[i][0], srcs[i][1], 0);
		resolve_one(srcs[i][0], "-", srcs[i][1], 0);
	}
	resolve_one("-", "own4", "peer4", PORT + 1);
	resolve_one("-", "any4", "peer4", PORT + 1);
	resolve_one("own4", "own4", "peer4", PORT + 1);
	resolve_one("any4", "-", "peer4", PORT + 1);
}

void calls(void)
{
	binds();
	bind_pairs();
	resolves();
}
