/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/status.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "agent/client.h"
#include "agent/socket.h"

static void print_text(const struct agent_status *st)
{
	const struct agent_page *a = &st->agent;
	char name[AGENT_ADDR_STRLEN];

	printf("agent %" PRIu32 " of user %" PRIu32 "%s, up %" PRIu64 " s%s\n", a->pid, a->uid,
	       a->system ? " (system-wide)" : "", a->uptime_ms / 1000,
	       a->recovering ? ", waiting for the sockets of an earlier agent" : "");
	printf("clients: %zu\n", st->nclients);
	for (size_t i = 0; i < st->nclients; i++)
		printf("  slot %4u  process %" PRIu32 " of user %" PRIu32 "\n", st->clients[i].slot,
		       st->clients[i].pid, st->clients[i].uid);
	printf("addresses: %zu\n", st->naddrs);
	for (size_t i = 0; i < st->naddrs; i++)
		printf("  %-24s %u sockets, %" PRIu64 " datagrams for nobody\n",
		       data_addr_str(&st->addrs[i].addr, st->addrs[i].scope_id, name),
		       st->addrs[i].sockets, st->addrs[i].dropped);
}

static void print_json(const struct agent_status *st)
{
	const struct agent_page *a = &st->agent;
	char name[AGENT_ADDR_STRLEN];

	printf("{\"pid\": %" PRIu32 ", \"uid\": %" PRIu32
	       ", \"system\": %s, \"recovering\": %s, \"uptime_ms\": %" PRIu64 ", \"clients\": [",
	       a->pid, a->uid, a->system ? "true" : "false", a->recovering ? "true" : "false",
	       a->uptime_ms);
	for (size_t i = 0; i < st->nclients; i++)
		printf("%s{\"slot\": %u, \"pid\": %" PRIu32 ", \"uid\": %" PRIu32 "}",
		       i ? ", " : "", st->clients[i].slot, st->clients[i].pid, st->clients[i].uid);
	printf("], \"addresses\": [");
	for (size_t i = 0; i < st->naddrs; i++)
		printf("%s{\"address\": \"%s\", \"sockets\": %u, \"dropped\": %" PRIu64 "}",
		       i ? ", " : "",
		       data_addr_str(&st->addrs[i].addr, st->addrs[i].scope_id, name),
		       st->addrs[i].sockets, st->addrs[i].dropped);
	printf("]}\n");
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
