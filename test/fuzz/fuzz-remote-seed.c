/* SPDX-License-Identifier: BSD-2-Clause */
/* What fuzz-remote starts from: an answer of each kind. */
#include "driver.h"

#include <string.h>

static const char *const texts[] = {
	"ok version=1 device=d gid_index=1 gid=00000000000000000000ffff0a000001 mtu=4096 "
	"rd_atomic=16 atomic=1 window2=1 area=131072",
	"ok qpn=0x4036 send_wr=64 recv_wr=64 sge=4 inline=64 mem=0x7fc06012c000,0x179ae4c9,0x17 "
	"send=0x7fc0600ec000,0x1,0x2 recv=0x7fc06002a000,0x3,0x4",
	"ok state=ERR; completion queue=recv id=7 status=0 vendor_err=0x0 qpn=0x4036 opcode=129 "
	"len=8 flags=0x2 src_qp=0x0 sl=0 imm=0xdeadbeef; completion queue=send id=9 status=5; "
	"event code=2",
	"ok lkey=0x83235baf rkey=0x83235baf",
	"error 22 ibv_dereg_mr: Invalid argument",
	"0001feff",
};

void fuzz_seed(struct fuzz_corpus *c)
{
	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		fuzz_corpus_add(c, texts[i], strlen(texts[i]));
}
