/* SPDX-License-Identifier: BSD-2-Clause */
/* Asking an agent what it does, page by page. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/client.h"
#include "agent/launch.h"
#include "agent/link.h"

/* Append n entries of a page to a list. @return 0 or -ENOMEM. */
static int append(void **list, size_t *count, const void *entries, size_t n, size_t size)
{
	uint8_t *grown = realloc(*list, (*count + n + 1) * size);

	if (!grown)
		return -ENOMEM;
	memcpy(grown + *count * size, entries, n * size);
	*list = grown;
	*count += n;
	return 0;
}

#define APPEND(list, count, entries, n)                                             \
	({                                                                          \
		void *list_ = (list);                                               \
		int r_ = append(&list_, &(count), (entries), (n), sizeof(*(list))); \
                                                                                    \
		(list) = list_;                                                     \
		r_;                                                                 \
	})

/* @return 1: there are more, 0, or -errno. */
static int add_page(struct agent_status *st, const struct agent_page *pg)
{
	int r = APPEND(st->clients, st->nclients, pg->clients, pg->nclients);

	if (!r)
		r = APPEND(st->addrs, st->naddrs, pg->addrs, pg->naddrs);
	if (r)
		return r;
	st->agent = *pg;
	return pg->nclients || pg->naddrs
		       ? st->nclients < pg->clients_total || st->naddrs < pg->addrs_total
		       : 0;
}

static int add_gsi_page(struct agent_status *st, const struct agent_gsi_page *pg)
{
	int r = APPEND(st->gsi_clients, st->ncm_clients, pg->clients, pg->nclients);

	if (!r)
		r = APPEND(st->listeners, st->nlisteners, pg->listeners, pg->nlisteners);
	if (r)
		return r;
	st->cm = *pg;
	return pg->nclients || pg->nlisteners
		       ? st->ncm_clients < pg->clients_total || st->nlisteners < pg->listeners_total
		       : 0;
}

static int ask_page(struct link *l, struct agent_status *st, char *errbuf, size_t errlen)
{
	struct agent_msg m = {.type = AGENT_STATUS,
			      .u.from = {(uint32_t)st->nclients, (uint32_t)st->naddrs}};
	struct agent_msg answer;
	int r = link_ask(l, &m, AGENT_STATUS_PAGE, &answer, errbuf, errlen);

	return r ? r : add_page(st, &answer.u.page);
}

static int ask_gsi_page(struct link *l, struct agent_status *st, char *errbuf, size_t errlen)
{
	struct agent_msg m = {.type = AGENT_GSI_STATUS,
			      .u.gsi_from = {(uint32_t)st->ncm_clients, (uint32_t)st->nlisteners}};
	struct agent_msg answer;
	int r = link_ask(l, &m, AGENT_GSI_STATUS_PAGE, &answer, errbuf, errlen);

	return r ? r : add_gsi_page(st, &answer.u.gsi_page);
}

int agent_client_status(bool system, struct agent_status **out, char *errbuf, size_t errlen)
{
	struct agent_status *st = calloc(1, sizeof(*st));
	struct agent_realm realm;
	struct link l;
	int r = st ? agent_realm_init(&realm, system) : -ENOMEM;

	link_init(&l, AGENT_LANE);
	if (!r)
		r = l.fd = agent_connect(&realm, LINK_TIMEOUT_MS);
	if (r < 0)
		snprintf(errbuf, errlen, "no agent to be asked: %s", strerror(-r));
	for (r = r < 0 ? r : 1; r > 0;)
		r = ask_page(&l, st, errbuf, errlen);
	for (r = r < 0 ? r : 1; r > 0;)
		r = ask_gsi_page(&l, st, errbuf, errlen);
	link_close(&l);
	if (r < 0) {
		agent_status_free(st);
		return r;
	}
	*out = st;
	return 0;
}

void agent_status_free(struct agent_status *st)
{
	if (!st)
		return;
	free(st->clients);
	free(st->addrs);
	free(st->gsi_clients);
	free(st->listeners);
	free(st);
}
