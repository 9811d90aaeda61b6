/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages of rtnetlink, whatever bytes: links and addresses. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#include "netdev/rtnl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Aligned, and no longer than it is. */
	uint8_t *copy = malloc(size ? size : 1);
	struct rtnl_address address;
	struct rtnl_link link;

	FUZZ_CHECK(copy);
	if (size)
		memcpy(copy, data, size);
	if (rtnl_decode_link(copy, size, &link)) {
		FUZZ_CHECK(link.ifindex && link.name[0]);
		FUZZ_CHECK(memchr(link.name, 0, sizeof(link.name)));
		FUZZ_CHECK(memchr(link.master_kind, 0, sizeof(link.master_kind)));
	}
	(void)rtnl_decode_address(copy, size, &address);
	free(copy);
	return 0;
}
