/* SPDX-License-Identifier: BSD-2-Clause */
/* What fuzz-rsocket starts from: a stream and a datagram socket that live as they should. */
#include "driver.h"

#include <string.h>

#include "fuzz-rsocket.h"

static size_t stream_head(uint8_t *p, uint8_t kind)
{
	memset(p, 0, 42);
	p[0] = kind;
	p[1] = 0;      /* all of the connection data */
	p[2] = 1;      /* version */
	p[3] = 2;      /* iomaps; byte order: little */
	p[5] = 16;     /* receives */
	p[9] = 4;      /* iomaps */
	p[10 + 7] = 8; /* table: address, key, entries */
	p[10 + 11] = 5;
	p[10 + 15] = 2;
	p[26 + 7] = 9; /* buffer: address, key, bytes */
	p[26 + 11] = 6;
	p[26 + 14] = 16;
	return 42;
}

static const uint8_t life[] = {
	FUZZ_RS_SEND,
	0x02,
	0x00, /* 512 bytes */
	FUZZ_RS_DATA,
	0x03,
	0x00, /* 768 come */
	FUZZ_RS_RECV,
	0x01,
	0x00,
	0x02, /* peek */
	FUZZ_RS_RECV,
	0x04,
	0x00,
	0, /* read */
	FUZZ_RS_DONE,
	1,
	0, /* it was sent */
	FUZZ_RS_TARGET,
	0,
	0,
	1,
	2,
	3,
	4,
	5,
	6, /* a buffer's half */
	7,
	8,
	9,
	9,
	9,
	9,
	0,
	0,
	1,
	0,
	FUZZ_RS_CREDIT,
	5,
	FUZZ_RS_SEND,
	0x17,
	0x00,
	FUZZ_RS_IOMAP,
	0,
	0,
	FUZZ_RS_TARGET,
	0,
	48,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	1,
	0,
	0,
	0,
	7,
	0,
	16, /* an iomap of the peer's */
	FUZZ_RS_IOWRITE,
	0,
	8,
	1,
	0,
	FUZZ_RS_WORD,
	0xc0,
	0,
	0,
	1,
	FUZZ_RS_SHUTDOWN,
	1,
	FUZZ_RS_WORD,
	0xe0,
	0,
	0,
	2, /* both end */
	FUZZ_RS_DONE,
	9,
	0,
	FUZZ_RS_WORD,
	0xe0,
	0,
	0,
	0,
	FUZZ_RS_RECV,
	1,
	1,
	0,
};

static const uint8_t words[] = {
	FUZZ_RS_WORD, 0x20, 0, 0, 1, FUZZ_RS_BAD_RECV, 0, FUZZ_RS_DONE, 3, 12, FUZZ_RS_TICK,
};

static const uint8_t letters[] = {
	FUZZ_RS_UDP_GOOD,
	1,
	2,
	0,
	0,
	0,
	9,
	20, /* data from a peer */
	FUZZ_RS_UD_SEND,
	1,
	0,
	100,
	FUZZ_RS_UD_RECV,
	200,
	0, /* answered on UD */
	FUZZ_RS_UD_GOOD,
	1,
	50,
	9,
	FUZZ_RS_UD_RECV,
	10,
	2,
	FUZZ_RS_UD_DONE,
	9,
	0,
	FUZZ_RS_UDP_GOOD,
	1,
	1,
	7,
	0,
	0,
	8,
	0, /* another QP */
	FUZZ_RS_UD,
	4,
	4,
	8,
	27,
	88,
	FUZZ_RS_UD_BAD,
	1,
	1,
	FUZZ_RS_UDP,
	1,
	0,
	4,
	0x55,
	0x55,
	0x55,
	0x55,
	FUZZ_RS_UD_SEND,
	2,
	9,
	0,
	FUZZ_RS_UD_CONNECT,
	2,
	FUZZ_RS_UD_CONNECT,
	0x80,
};

static void add(struct fuzz_corpus *c, const uint8_t *head, size_t head_len, const uint8_t *body,
		size_t len)
{
	uint8_t buf[512];

	memcpy(buf, head, head_len);
	memcpy(buf + head_len, body, len);
	fuzz_corpus_add(c, buf, head_len + len);
}

void fuzz_seed(struct fuzz_corpus *c)
{
	uint8_t head[42];

	for (uint8_t v6 = 0; v6 <= FUZZ_RS_V6; v6 = (uint8_t)(v6 + FUZZ_RS_V6)) {
		const size_t n = stream_head(head, v6);

		add(c, head, n, life, sizeof(life));
		add(c, head, n, words, sizeof(words));
		head[0] = (uint8_t)(FUZZ_RS_DGRAM | v6);
		add(c, head, 1, letters, sizeof(letters));
		head[0] |= FUZZ_RS_CONNECTED;
		add(c, head, 1, letters, sizeof(letters));
	}
}
