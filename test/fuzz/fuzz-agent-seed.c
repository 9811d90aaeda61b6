/* SPDX-License-Identifier: BSD-2-Clause */
/* What fuzz-agent starts from: a message of each type. */
#include "driver.h"

#include <errno.h>

#include "agent/cm-mad.h"
#include "agent/protocol-cm.h"
#include "agent/protocol.h"

static void seed(struct fuzz_corpus *c, const struct agent_msg *m)
{
	uint8_t buf[1 + AGENT_MSG_MAX] = {(uint8_t)m->nfds};

	fuzz_corpus_add(c, buf, 1 + agent_msg_encode(m, buf + 1));
}

static void seed_cm(struct fuzz_corpus *c)
{
	struct agent_msg m = {.type = AGENT_CM_HELLO};

	seed(c, &m);
	m = (struct agent_msg){.type = AGENT_CM_WELCOME, .nfds = 2, .u.cm_number.number = 7};
	seed(c, &m);
	m = (struct agent_msg){.type = AGENT_CM_OPEN, .u.socket.scope_id = 3};
	seed(c, &m);
	m = (struct agent_msg){.type = AGENT_CM_BIND, .u.cm_bind = {5, {0x1061d2f, .flags = 3}}};
	seed(c, &m);
	m.type = AGENT_CM_LISTEN;
	seed(c, &m);
	m = (struct agent_msg){.type = AGENT_CM_DONE, .u.cm_done.value = 9};
	seed(c, &m);
	m = (struct agent_msg){.type = AGENT_CM_STATUS, .u.cm_from = {1, 2}};
	seed(c, &m);
	m = (struct agent_msg){.type = AGENT_CM_STATUS_PAGE};
	m.u.cm_page.nclients = 2;
	m.u.cm_page.nlisteners = 3;
	seed(c, &m);
}

static void seed_frames(struct fuzz_corpus *c)
{
	static const uint16_t attrs[] = {
#define X(name, id, member, len) ROCEMU_CM_##name,
		ROCEMU_CM_MESSAGES(X)
#undef X
	};
	uint8_t buf[1 + CM_FRAME_MAX] = {0x80}, packet[1 + AGENT_CM_DGRAM_LEN] = {0xc0};
	struct cm_frame f = {.type = CM_FRAME_WILL, .comm_id = 1, .cm_timeout = 20, .retries = 3};

	fuzz_corpus_add(c, buf, 1 + cm_frame_encode(&f, buf + 1));
	f = (struct cm_frame){.type = CM_FRAME_UNREACHED, .comm_id = 1, .error = 111};
	fuzz_corpus_add(c, buf, 1 + cm_frame_encode(&f, buf + 1));
	for (size_t i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++) {
		struct rocemu_cm_msg m = {.attr_id = attrs[i], .tid = i};

		cm_mad_build(&f.d, &m, 1, packet + 1);
		fuzz_corpus_add(c, packet, sizeof(packet));
		f.type = i % 2 ? CM_FRAME_WILL : CM_FRAME_DGRAM;
		fuzz_corpus_add(c, buf, 1 + cm_frame_encode(&f, buf + 1));
	}
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
	seed_cm(c);
	seed_frames(c);
}
