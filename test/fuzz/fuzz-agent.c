/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The messages between clients and the agent: the first byte of the input is the number of
 * descriptors that came along, the rest is the message. What decodes must encode to the same bytes,
 * but for an error's text, which is cleaned and whose version does not matter, and for bits that
 * mean nothing: those must come out the same the second time. A first byte from 0x80 on: the rest
 * is a frame of connection management, from 0xc0 on a packet for QP 1, from 0xf0 on an agent's
 * status.
 */
#include "driver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/gsi-frame.h"
#include "agent/gsi-mad.h"
#include "agent/protocol.h"

static void check_ranges(const struct agent_msg *m)
{
	switch (m->type) {
	case AGENT_HELLO:
		FUZZ_CHECK(m->u.hello.kind < AGENT_KIND_COUNT);
		break;
	case AGENT_REJOIN:
		FUZZ_CHECK(m->u.rejoin.kind < AGENT_KIND_COUNT);
		FUZZ_CHECK(m->u.rejoin.place > 0 && m->u.rejoin.place < AGENT_SEATS);
		break;
	case AGENT_WELCOME:
		FUZZ_CHECK(m->u.welcome.kind < AGENT_KIND_COUNT);
		FUZZ_CHECK(m->u.welcome.place > 0 && m->u.welcome.place < AGENT_SEATS);
		FUZZ_CHECK(m->u.welcome.first_index < AGENT_INDEXES);
		break;
	case AGENT_ERROR:
		FUZZ_CHECK(m->u.error.err > 0);
		FUZZ_CHECK(memchr(m->u.error.text, 0, sizeof(m->u.error.text)));
		break;
	default:
		break;
	}
}

/* The contents of an accepted frame are within bounds: its packet can be made. */
static void check_frame(const uint8_t *data, size_t size)
{
	uint8_t packet[GSI_PACKET_LEN];
	struct gsi_frame f = {0};

	memcpy(&f, data, size < sizeof(f) ? size : sizeof(f));
	if (!gsi_frame_ok(&f, size))
		return;
	gsi_packet_encode(&f.m, packet);
	(void)gsi_packet_decode(&f.m, packet, sizeof(packet));
}

/* The ICRC is made right, or nothing would get behind it. */
static void check_packet(const uint8_t *data, size_t size)
{
	struct gsi_mad d = {.src = {.raw = {1}}, .dst = {.raw = {2}}};
	struct rocemu_cm_msg m, answer, again;
	uint8_t buf[GSI_PACKET_LEN];

	if (size == sizeof(buf)) {
		memcpy(d.hdr, data, sizeof(d.hdr));
		memcpy(d.mad, data + sizeof(d.hdr), sizeof(d.mad));
		gsi_packet_encode(&d, buf);
		data = buf;
	}
	if (gsi_packet_decode(&d, data, size) || rocemu_cm_decode(&m, d.mad, sizeof(d.mad)) ||
	    !gsi_mad_answer(&m, &answer))
		return;
	/* An answer is a message, and one that is not answered. */
	(void)rocemu_cm_encode(&answer, d.mad);
	gsi_packet_encode(&d, buf);
	FUZZ_CHECK(gsi_packet_decode(&d, buf, sizeof(buf)) == GSI_OK);
	FUZZ_CHECK(rocemu_cm_decode(&m, d.mad, sizeof(d.mad)) == 0);
	FUZZ_CHECK(!gsi_mad_answer(&m, &again));
}

static volatile unsigned sink;

/* All that is found lies in the file, and may be read. */
static void check_status(const uint8_t *data, size_t size)
{
	struct agent_status st = {.data = malloc(size + 1)};
	unsigned sum = 0;

	memcpy(st.data, data, size);
	if (agent_status_parse(&st, size) == 0) {
		for (uint32_t i = 0; i < st.agent.naddrs; i++)
			sum += st.addrs[i].sockets;
		for (uint32_t i = 0; i < st.agent.ngsi_clients; i++)
			sum += st.gsi_clients[i].queued;
		for (uint32_t i = 0; i < st.agent.nlisteners; i++)
			sum += st.listeners[i].number;
		for (uint32_t i = 0; i < st.agent.nclients; i++)
			sum += st.clients[i].slot;
		sink = sum;
		FUZZ_CHECK((const uint8_t *)(st.clients + st.agent.nclients) ==
			   (uint8_t *)st.data + size);
	}
	free(st.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t once[AGENT_MSG_MAX], twice[AGENT_MSG_MAX];
	struct agent_msg m;
	size_t len;
	int r;

	if (size < 1 || size > UINT16_MAX)
		return 0;
	if (data[0] >= 0x80) {
		(data[0] < 0xc0	  ? check_frame
		 : data[0] < 0xf0 ? check_packet
				  : check_status)(data + 1, size - 1);
		return 0;
	}
	m.nfds = data[0] % (AGENT_MSG_FDS + 1);
	r = agent_msg_decode(data + 1, size - 1, &m);
	FUZZ_CHECK(r == 0 || r == -EBADMSG || r == -EPROTO);
	if (r)
		return 0;
	check_ranges(&m);
	len = agent_msg_encode(&m, once);
	FUZZ_CHECK(len == size - 1);
	if (m.type != AGENT_ERROR)
		FUZZ_CHECK(memcmp(once, data + 1, len) == 0);
	FUZZ_CHECK(agent_msg_decode(once, len, &m) == 0);
	FUZZ_CHECK(agent_msg_encode(&m, twice) == len && memcmp(once, twice, len) == 0);
	return 0;
}
