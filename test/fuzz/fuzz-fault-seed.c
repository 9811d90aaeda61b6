/* SPDX-License-Identifier: BSD-2-Clause */
/* What fuzz-fault starts from: a text for each key, action and condition, and packets behind some.
 */
#include "driver.h"

#include <string.h>

#include <rocemu/wire.h>

static const char *const texts[] = {
	"loss=1%,dup=0.5%,reorder=0.02,corrupt=1,delay=10us..2ms,rnr=20%,seed=7",
	"rate=1Gbit,queue=64k/mark=16k",
	"rate=100kbit,queue=1.5M",
	"flap=2s..5s/200ms",
	"drop opcode=RC_ACK nth=3",
	"drop opcode=RC_SEND_*|*_READ_REQUEST qp=0x10..0x20 dqp=5.. psn=..100",
	"dup peer=10.0.0.1 dir=rx every=3 times=2",
	"delay time=100us..1ms peer=fe80::1 message=2..3 first",
	"corrupt bit=72 icrc=right once",
	"corrupt field=payload icrc=wrong chance=1%",
	"mark nth=8..",
	"# comment\n drop nth=1 ; dup # and\r\n\nloss=1% , dup=2%\n",
	"drop;;mark\tfirst\n",
};

static void add_packet(struct fuzz_corpus *c, const char *text, uint8_t opcode)
{
	const struct rocemu_hdrs h = {.opcode = opcode, .dqpn = 5, .psn = 6};
	uint8_t buf[512] = {0};
	size_t len = strlen(text) + 1;

	memcpy(buf, text, len);
	len += rocemu_hdrs_encode(&h, buf + len);
	fuzz_corpus_add(c, buf, len + 8 + ROCEMU_ICRC_LEN);
}

void fuzz_seed(struct fuzz_corpus *c)
{
	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		fuzz_corpus_add(c, texts[i], strlen(texts[i]));
	add_packet(c, "corrupt field=va", ROCEMU_RC_WRITE_ONLY);
	add_packet(c, "corrupt field=syndrome;drop message=1", ROCEMU_RC_ACK);
	add_packet(c, "corrupt;corrupt field=payload icrc=right;dup message=2",
		   ROCEMU_UD_SEND_ONLY);
}
