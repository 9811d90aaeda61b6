/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/status.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "agent/client.h"
#include "agent/socket.h"
#include "base/json.h"

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

static void print_cm_json(struct json *j, const struct agent_status *st)
{
	char name[AGENT_ADDR_STRLEN], service[24];

	json_open(j, "cm", '{');
	JSON_U64S(j, {"lingering", st->agent.lingering},
		  {"other_clients", st->agent.other_gsi_clients},
		  {"other_listeners", st->agent.other_listeners});
	json_open(j, "clients", '[');
	for (size_t i = 0; i < st->agent.ngsi_clients; i++) {
		const struct agent_gsi_client_info *c = &st->gsi_clients[i];

		json_open(j, NULL, '{');
		JSON_U64S(j, {"number", c->number}, {"pid", c->pid}, {"uid", c->uid},
			  {"addresses", c->addrs}, {"ports", c->binds}, {"exit_mads", c->exit_mads},
			  {"delivered", c->delivered}, {"queued", c->queued},
			  {"dropped", c->dropped});
		json_close(j, '}');
	}
	json_close(j, ']');
	json_open(j, "listeners", '[');
	for (size_t i = 0; i < st->agent.nlisteners; i++) {
		const struct agent_gsi_listener_info *l = &st->listeners[i];

		snprintf(service, sizeof(service), "0x%016" PRIx64, l->bind.service_id);
		json_open(j, NULL, '{');
		json_u64(j, "number", l->number);
		json_text(j, "service_id", service);
		json_text(j, "address", listener_addr(l, name));
		json_close(j, '}');
	}
	json_close(j, ']');
	json_open(j, "counters", '{');
	for (unsigned i = 0; i < AGENT_GSI_COUNTER_COUNT; i++)
		json_u64(j, counter_names[i], st->agent.counters[i]);
	json_close(j, '}');
	json_close(j, '}');
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
	struct json j = {.f = stdout};
	char name[AGENT_ADDR_STRLEN];

	json_open(&j, NULL, '{');
	JSON_U64S(&j, {"pid", a->pid}, {"holder", a->holder}, {"uid", a->uid});
	json_bool(&j, "system", a->system);
	json_u64(&j, "uptime_ms", a->uptime_ms);
	json_u64(&j, "other_clients", a->other_clients);
	json_open(&j, "clients", '[');
	for (size_t i = 0; i < a->nclients; i++) {
		json_open(&j, NULL, '{');
		JSON_U64S(&j, {"slot", st->clients[i].slot}, {"pid", st->clients[i].pid},
			  {"uid", st->clients[i].uid});
		json_close(&j, '}');
	}
	json_close(&j, ']');
	json_open(&j, "addresses", '[');
	for (size_t i = 0; i < a->naddrs; i++) {
		const struct agent_addr_info *at = &st->addrs[i];

		json_open(&j, NULL, '{');
		json_text(&j, "address", data_addr_str(&at->addr, at->scope_id, name));
		json_u64(&j, "sockets", at->sockets);
		json_u64(&j, "dropped", at->dropped);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	print_cm_json(&j, st);
	json_close(&j, '}');
	putchar('\n');
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
