/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The messages between clients and the agent: the first byte of the input is the number of
 * descriptors that came along, the rest is the message. What decodes must encode to the same bytes,
 * but for an error's text, which is cleaned and whose version does not matter, and for bits that
 * mean nothing: those must come out the same the second time.
 */
#include "driver.h"

#include <errno.h>
#include <string.h>

#include "agent/protocol.h"

static void check_ranges(const struct agent_msg *m)
{
	switch (m->type) {
	case AGENT_REJOIN:
	case AGENT_WELCOME:
		FUZZ_CHECK(m->u.slot.slot < AGENT_SLOTS);
		FUZZ_CHECK(m->u.slot.first_index < AGENT_INDEXES);
		break;
	case AGENT_ERROR:
		FUZZ_CHECK(m->u.error.err > 0);
		FUZZ_CHECK(memchr(m->u.error.text, 0, sizeof(m->u.error.text)));
		break;
	case AGENT_STATUS_PAGE:
		FUZZ_CHECK(m->u.page.nclients <= AGENT_PAGE_CLIENTS);
		FUZZ_CHECK(m->u.page.naddrs <= AGENT_PAGE_ADDRS);
		break;
	default:
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t once[AGENT_MSG_MAX], twice[AGENT_MSG_MAX];
	struct agent_msg m;
	size_t len;
	int r;

	if (size < 1)
		return 0;
	m.nfds = data[0] % (AGENT_MSG_FDS + 1);
	r = agent_msg_decode(data + 1, size - 1, &m);
	FUZZ_CHECK(r == 0 || r == -EBADMSG || r == -EPROTO);
	if (r)
		return 0;
	check_ranges(&m);
	len = agent_msg_encode(&m, once);
	FUZZ_CHECK(len <= size - 1);
	if (m.type != AGENT_ERROR && m.type != AGENT_STATUS_PAGE)
		FUZZ_CHECK(len == size - 1 && memcmp(once, data + 1, len) == 0);
	FUZZ_CHECK(agent_msg_decode(once, len, &m) == 0);
	FUZZ_CHECK(agent_msg_encode(&m, twice) == len && memcmp(once, twice, len) == 0);
	return 0;
}
