/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GRH, MADs and CM messages on any bytes. The input is read as each in turn, and once
 * more as a MAD with a header that is taken. What decodes must come back the same from what
 * it encodes to, reserved bits apart, and printing must stay within its buffer.
 */
#include "driver.h"

#include <string.h>

#include <rocemu/cm.h>

#include "wire/print.h"

static void check_grh(const uint8_t buf[ROCEMU_GRH_LEN])
{
	uint8_t again[ROCEMU_GRH_LEN];
	struct rocemu_grh g;
	size_t from;

	if (!rocemu_grh_decode(&g, buf))
		return;
	FUZZ_CHECK(g.ipver == 4 || g.ipver == 6);
	from = g.ipver == 4 ? 20 : 0; /* what precedes an IPv4 header is not defined */
	rocemu_grh_encode(&g, again);
	FUZZ_CHECK(memcmp(again + from, buf + from, sizeof(again) - from) == 0);
}

static void check_header(const uint8_t *data, size_t size)
{
	uint8_t again[ROCEMU_MAD_HDR_LEN];
	struct rocemu_mad m;

	if (rocemu_mad_decode(&m, data, size) != ROCEMU_MAD_OK)
		return;
	FUZZ_CHECK(size == ROCEMU_MAD_LEN && m.data == data + ROCEMU_MAD_HDR_LEN);
	rocemu_mad_encode(&m, again);
	FUZZ_CHECK(memcmp(again, data, 18) == 0);
	FUZZ_CHECK(memcmp(again + 20, data + 20, 4) == 0);
}

/* A second way through must change nothing: reserved bits were gone after the first. */
static void check_message(const uint8_t *data, size_t size)
{
	uint8_t first[ROCEMU_MAD_LEN], second[ROCEMU_MAD_LEN];
	struct rocemu_cm_msg m, again;
	enum rocemu_mad_verdict why = rocemu_cm_decode(&m, data, size);

	FUZZ_CHECK(why < ROCEMU_MAD_VERDICT_COUNT);
	if (why != ROCEMU_MAD_OK)
		return;
	FUZZ_CHECK(rocemu_cm_name(m.attr_id) != NULL);
	FUZZ_CHECK(rocemu_cm_encode(&m, first) == ROCEMU_MAD_LEN);
	for (size_t i = ROCEMU_MAD_HDR_LEN; i < sizeof(first); i++)
		FUZZ_CHECK((first[i] & ~data[i]) == 0);
	FUZZ_CHECK(rocemu_cm_decode(&again, first, sizeof(first)) == ROCEMU_MAD_OK);
	FUZZ_CHECK(memcmp(&again, &m, sizeof(m)) == 0);
	FUZZ_CHECK(rocemu_cm_encode(&again, second) == ROCEMU_MAD_LEN);
	FUZZ_CHECK(memcmp(first, second, sizeof(first)) == 0);
	if (m.attr_id == ROCEMU_CM_REJ)
		FUZZ_CHECK(m.rej.ari_len <= sizeof(m.rej.ari));
	if (m.attr_id == ROCEMU_CM_APR)
		FUZZ_CHECK(m.apr.info_len <= sizeof(m.apr.info));
	if (m.attr_id == ROCEMU_CM_SIDR_REP)
		FUZZ_CHECK(m.sidr_rep.info_len <= sizeof(m.sidr_rep.info));
}

static void check_cma(const uint8_t *data, size_t size)
{
	uint8_t buf[ROCEMU_CMA_LEN];
	struct rocemu_cma c, again;

	memset(&c, 0, sizeof(c));
	memset(&again, 0, sizeof(again));
	if (rocemu_cma_decode(&c, data, size) != ROCEMU_MAD_OK)
		return;
	FUZZ_CHECK(rocemu_cma_encode(&c, buf) == sizeof(buf));
	FUZZ_CHECK(rocemu_cma_decode(&again, buf, sizeof(buf)) == ROCEMU_MAD_OK);
	FUZZ_CHECK(memcmp(&c, &again, sizeof(c)) == 0);
}

static void check_print(const uint8_t *data, size_t size)
{
	char text[PRINT_MAD_MAX];
	size_t n = print_mad(text, sizeof(text), data, size);

	FUZZ_CHECK(n < sizeof(text) && strlen(text) == n);
}

/* With a header that is taken, so that every input reaches the messages. */
static void check_as_message(const uint8_t *data, size_t size)
{
	uint8_t mad[ROCEMU_MAD_LEN] = {0};

	if (size == 0)
		return;
	memcpy(mad, data, size < sizeof(mad) ? size : sizeof(mad));
	mad[0] = 1;
	mad[1] = ROCEMU_CM_CLASS;
	mad[2] = ROCEMU_CM_CLASS_VERSION;
	mad[3] = ROCEMU_CM_METHOD_SEND;
	mad[16] = 0;
	mad[17] = (uint8_t)(ROCEMU_CM_REQ + data[size - 1] % 12); /* one too many */
	check_header(mad, sizeof(mad));
	check_message(mad, sizeof(mad));
	check_print(mad, sizeof(mad));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size >= ROCEMU_GRH_LEN)
		check_grh(data);
	check_header(data, size);
	check_message(data, size);
	check_print(data, size);
	check_cma(data, size);
	check_as_message(data, size);
	return 0;
}
