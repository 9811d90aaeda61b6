/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/status.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "agent/client.h"
#include "agent/socket.h"

static const char *const counter_names[] = {
#define X(name, text) #name,
	AGENT_GSI_COUNTERS(X)
#undef X
};

static const char *const counter_texts[] = {
#define X(name, text) text,
	AGENT_GSI_COUNTERS(X)
#undef X
};

/* A wildcard address: "0.0.0.0", "::". */
static const char *listener_addr(const struct agent_gsi_listener_info *l,
				 char buf[static AGENT_ADDR_STRLEN])
{
	return data_addr_str(&l->bind.addr, l->bind.scope_id, buf);
}

static void print_count(const char *what, uint32_t shown, uint32_t others)
{
	printf("%s: %" PRIu32, what, shown);
	if (others)
		printf(", and %" PRIu32 " of other users", others);
	printf("\n");
}

static void print_cm_text(const struct agent_status *st)
{
	char name[AGENT_ADDR_STRLEN];

	print_count("clients of connection management", st->agent.ngsi_clients,
		    st->agent.other_gsi_clients);
	for (size_t i = 0; i < st->agent.ngsi_clients; i++) {
		const struct agent_gsi_client_info *c = &st->gsi_clients[i];

		printf("  number %4u  process %" PRIu32 " of user %" PRIu32
		       ": %u addresses, %" PRIu32 " ports, %" PRIu32 " exit MADs, %" PRIu64
		       " datagrams, %" PRIu32 " waiting, %" PRIu64 " dropped\n",
		       c->number, c->pid, c->uid, c->addrs, c->binds, c->exit_mads, c->delivered,
		       c->queued, c->dropped);
	}
	print_count("listeners", st->agent.nlisteners, st->agent.other_listeners);
	for (size_t i = 0; i < st->agent.nlisteners; i++)
		printf("  service ID 0x%016" PRIx64 "  %-24s number %u\n",
		       st->listeners[i].bind.service_id, listener_addr(&st->listeners[i], name),
		       st->listeners[i].number);
	if (st->agent.lingering)
		printf("exit MADs being sent: %" PRIu32 "\n", st->agent.lingering);
	for (unsigned i = 0; i < AGENT_GSI_COUNTER_COUNT; i++)
		if (st->agent.counters[i])
			printf("%12" PRIu64 " %s\n", st->agent.counters[i], counter_texts[i]);
}

static void print_cm_json(const struct agent_status *st)
{
	char name[AGENT_ADDR_STRLEN];

	printf("\"cm\": {\"lingering\": %" PRIu32 ", \"other_clients\": %" PRIu32
	       ", \"other_listeners\": %" PRIu32 ", \"clients\": [",
	       st->agent.lingering, st->agent.other_gsi_clients, st->agent.other_listeners);
	for (size_t i = 0; i < st->agent.ngsi_clients; i++) {
		const struct agent_gsi_client_info *c = &st->gsi_clients[i];

		printf("%s{\"number\": %u, \"pid\": %" PRIu32 ", \"uid\": %" PRIu32
		       ", \"addresses\": %u, \"ports\": %" PRIu32 ", \"exit_mads\": %" PRIu32
		       ", \"delivered\": %" PRIu64 ", \"queued\": %" PRIu32
		       ", \"dropped\": %" PRIu64 "}",
		       i ? ", " : "", c->number, c->pid, c->uid, c->addrs, c->binds, c->exit_mads,
		       c->delivered, c->queued, c->dropped);
	}
	printf("], \"listeners\": [");
	for (size_t i = 0; i < st->agent.nlisteners; i++)
		printf("%s{\"number\": %u, \"service_id\": \"0x%016" PRIx64
		       "\", \"address\": \"%s\"}",
		       i ? ", " : "", st->listeners[i].number, st->listeners[i].bind.service_id,
		       listener_addr(&st->listeners[i], name));
	printf("], \"counters\": {");
	for (unsigned i = 0; i < AGENT_GSI_COUNTER_COUNT; i++)
		printf("%s\"%s\": %" PRIu64, i ? ", " : "", counter_names[i],
		       st->agent.counters[i]);
	printf("}}");
}

static void print_text(const struct agent_status *st)
{
	const struct agent_status_head *a = &st->agent;
	char name[AGENT_ADDR_STRLEN];

	printf("agent %" PRIu32 " (holder %" PRIu32 ") of user %" PRIu32 "%s, up %" PRIu64 " s\n",
	       a->pid, a->holder, a->uid, a->system ? " (system-wide)" : "", a->uptime_ms / 1000);
	print_count("clients", a->nclients, a->other_clients);
	for (size_t i = 0; i < st->agent.nclients; i++)
		printf("  slot %4u  process %" PRIu32 " of user %" PRIu32 "\n", st->clients[i].slot,
		       st->clients[i].pid, st->clients[i].uid);
	printf("addresses: %" PRIu32 "\n", st->agent.naddrs);
	for (size_t i = 0; i < st->agent.naddrs; i++)
		printf("  %-24s %u sockets, %" PRIu64 " datagrams without a receiver\n",
		       data_addr_str(&st->addrs[i].addr, st->addrs[i].scope_id, name),
		       st->addrs[i].sockets, st->addrs[i].dropped);
	print_cm_text(st);
}

static void print_json(const struct agent_status *st)
{
	const struct agent_status_head *a = &st->agent;
	char name[AGENT_ADDR_STRLEN];

	printf("{\"pid\": %" PRIu32 ", \"holder\": %" PRIu32 ", \"uid\": %" PRIu32
	       ", \"system\": %s, \"uptime_ms\": %" PRIu64 ", \"other_clients\": %" PRIu32
	       ", \"clients\": [",
	       a->pid, a->holder, a->uid, a->system ? "true" : "false", a->uptime_ms,
	       a->other_clients);
	for (size_t i = 0; i < st->agent.nclients; i++)
		printf("%s{\"slot\": %u, \"pid\": %" PRIu32 ", \"uid\": %" PRIu32 "}",
		       i ? ", " : "", st->clients[i].slot, st->clients[i].pid, st->clients[i].uid);
	printf("], \"addresses\": [");
	for (size_t i = 0; i < st->agent.naddrs; i++)
		printf("%s{\"address\": \"%s\", \"sockets\": %u, \"dropped\": %" PRIu64 "}",
		       i ? ", " : "",
		       data_addr_str(&st->addrs[i].addr, st->addrs[i].scope_id, name),
		       st->addrs[i].sockets, st->addrs[i].dropped);
	printf("], ");
	print_cm_json(st);
	printf("}\n");
}

int status_print(bool system, bool json)
{
	struct agent_status *st;
	char text[AGENT_TEXT_MAX];
	int r = agent_client_status(system, &st, text, sizeof(text));

	if (r == -ECONNREFUSED && !system)
		r = agent_client_status(true, &st, text, sizeof(text));
	if (r) {
		fprintf(stderr, "rocemu-agent: %s\n", r == -ECONNREFUSED ? "no agent runs" : text);
		return 1;
	}
	if (json)
		print_json(st);
	else
		print_text(st);
	agent_status_free(st);
	return 0;
}
