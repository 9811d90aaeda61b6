/* SPDX-License-Identifier: BSD-2-Clause */
/* What fuzz-agent starts from: a message of each type. */
#include "driver.h"

#include <errno.h>

#include "agent/protocol.h"

static void seed(struct fuzz_corpus *c, const struct agent_msg *m)
{
	uint8_t buf[1 + AGENT_MSG_MAX] = {(uint8_t)m->nfds};

	fuzz_corpus_add(c, buf, 1 + agent_msg_encode(m, buf + 1));
}

void fuzz_seed(struct fuzz_corpus *c)
{
	struct agent_msg m = {.type = AGENT_HELLO};

	seed(c, &m);
	m = (struct agent_msg){.type = AGENT_REJOIN, .nfds = 3, .u.slot = {7, 9}};
	seed(c, &m);
	m = (struct agent_msg){.type = AGENT_WELCOME, .nfds = 1, .u.slot = {7, 9}};
	seed(c, &m);
	m = (struct agent_msg){.type = AGENT_SOCKET, .u.socket.scope_id = 3};
	seed(c, &m);
	m = (struct agent_msg){.type = AGENT_SOCKET_IS, .nfds = 1};
	seed(c, &m);
	m = (struct agent_msg){.type = AGENT_STATUS, .u.from = {1, 2}};
	seed(c, &m);
	m = (struct agent_msg){.type = AGENT_STATUS_PAGE};
	m.u.page.nclients = 2;
	m.u.page.naddrs = 3;
	seed(c, &m);
	agent_msg_set_error(&m, EPERM, "no");
	seed(c, &m);
}
