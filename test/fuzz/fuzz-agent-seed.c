/* SPDX-License-Identifier: BSD-2-Clause */
/* What fuzz-agent starts from: a message of each type. */
#include "driver.h"

#include <errno.h>

#include <rocemu/cm.h>

#include "agent/gsi-frame.h"
#include "agent/protocol.h"

static void seed(struct fuzz_corpus *c, const struct agent_msg *m)
{
	uint8_t buf[1 + AGENT_MSG_MAX] = {(uint8_t)m->nfds};

	fuzz_corpus_add(c, buf, 1 + agent_msg_encode(m, buf + 1));
}

static void seed_cm(struct fuzz_corpus *c)
{
	struct agent_msg m;

	m = (struct agent_msg){.type = AGENT_GSI_OPEN, .u.socket.scope_id = 3};
	seed(c, &m);
	m = (struct agent_msg){.type = AGENT_GSI_BIND,
			       .u.gsi_bind = {{0x1061d2f, .flags = 3}, 5, 0}};
	seed(c, &m);
	m.type = AGENT_GSI_LISTEN;
	seed(c, &m);
	m = (struct agent_msg){.type = AGENT_GSI_DONE, .u.gsi_done.value = 9};
	seed(c, &m);
}

static void seed_frames(struct fuzz_corpus *c)
{
	static const uint16_t attrs[] = {
#define X(name, id, member, len) ROCEMU_CM_##name,
		ROCEMU_CM_MESSAGES(X)
#undef X
	};
	uint8_t buf[1 + sizeof(struct gsi_frame)] = {0x80}, packet[1 + GSI_PACKET_LEN] = {0xc0};
	struct gsi_frame f = {.magic = GSI_FRAME_MAGIC, .comm_id = 1};

	for (size_t i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++) {
		struct rocemu_cm_msg m = {.attr_id = attrs[i], .tid = i};

		(void)rocemu_cm_encode(&m, f.m.mad);
		gsi_hdr_encode(&f.m, 1);
		gsi_packet_encode(&f.m, packet + 1);
		fuzz_corpus_add(c, packet, sizeof(packet));
		f.type = (uint8_t)(GSI_FRAME_MAD + i % GSI_FRAME_EXIT_CLEAR);
		f.m.nflips = (uint16_t)(i % 3);
		memcpy(buf + 1, &f, sizeof(f));
		fuzz_corpus_add(c, buf, sizeof(buf));
	}
}

static void seed_status(struct fuzz_corpus *c)
{
	const struct agent_status_head h = {
		.naddrs = 1, .ngsi_clients = 1, .nlisteners = 1, .nclients = 1};
	uint8_t buf[1 + sizeof(h) + 32 + 40 + 40 + 12] = {0xf0};

	memcpy(buf + 1, &h, sizeof(h));
	fuzz_corpus_add(c, buf, sizeof(buf));
}

void fuzz_seed(struct fuzz_corpus *c)
{
	struct agent_msg m = {.type = AGENT_HELLO};

	seed(c, &m);
	m = (struct agent_msg){.type = AGENT_REJOIN, .u.rejoin = {AGENT_LANE, 7, 9}};
	seed(c, &m);
	m = (struct agent_msg){.type = AGENT_WELCOME, .nfds = 2, .u.welcome = {AGENT_GSI, 7, 9}};
	seed(c, &m);
	m = (struct agent_msg){.type = AGENT_SOCKET, .u.socket.scope_id = 3};
	seed(c, &m);
	m = (struct agent_msg){.type = AGENT_SOCKET_IS, .nfds = 1};
	seed(c, &m);
	m = (struct agent_msg){.type = AGENT_STATUS};
	seed(c, &m);
	m = (struct agent_msg){.type = AGENT_STATUS_IS, .nfds = 1};
	seed(c, &m);
	agent_msg_set_error(&m, EPERM, "no");
	seed(c, &m);
	seed_cm(c);
	seed_frames(c);
	seed_status(c);
}
