/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers of conform-peer, which come from the host of a device that is tested: any bytes are read
 * or refused. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#include "conform/remote.h"

enum { BYTES = 16 };

static void check_list(const char *list, unsigned room)
{
	FUZZ_CHECK(strlen(list) < room);
	FUZZ_CHECK((remote_count(list) == 0) == (*list == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct remote r;
	struct scenario_setup setup = {0};
	char *text = malloc(size + 1);
	uint8_t bytes[BYTES];
	uint64_t n;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	memset(&r, 0, sizeof(r));
	remote_read_hello(&r, text);
	if (remote_read_qp(&r, text, &setup))
		FUZZ_CHECK(r.qpn <= ROCEMU_QPN_MASK);
	/* Twice: what was not looked at is kept. */
	for (unsigned i = 0; i < 2; i++)
		remote_read_look(&r, text);
	check_list(r.completions, sizeof(r.completions));
	check_list(r.events, sizeof(r.events));
	FUZZ_CHECK(remote_bytes(text, "", bytes, BYTES) <= BYTES);
	FUZZ_CHECK(remote_bytes(text, "gid", bytes, BYTES) <= BYTES);
	remote_number(text, "rkey", &n);
	free(text);
	return 0;
}
