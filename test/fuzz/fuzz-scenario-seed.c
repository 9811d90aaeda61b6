/* SPDX-License-Identifier: BSD-2-Clause */
/* What fuzz-scenario starts from: a case for each command and kind of word. */
#include "driver.h"

#include <string.h>

static const char *const texts[] = {
	"case a\n  with N: 1 | 2\n  with OP LEN: SEND_ONLY 8 | WRITE_FIRST 256\n  qp RC\n"
	"  post_recv len 64 at recv+8*$N id 7\n  < $OP 0 len $LEN at mem+8 dmalen 300 ackreq 1\n"
	"  expect *\n",
	"case b\nqp RC timeout 1 retry_cnt 2 window 3000 access REMOTE_READ,LOCAL_WRITE\n"
	"post_send RDMA_READ len 600 to 0x1000 rkey 5 flags FENCE,SIGNALED\nexpect "
	"READ_REQUEST 0+600 A\n"
	"< READ_RESP_FIRST 0 len 256 fill 0xa1\nwait 8192ns\nlast dmalen 344 at mem\n"
	"check send len 256 fill 0xa1\nwait deadline\nstate RTS\ncounter timeouts 1\n",
	"case c\npair RC delay 1us\na: post_send ATOMIC_CMP_AND_SWP len 8 compare 1 swap 2\n"
	"b: lose all atomic*\nrun\na: ignore\nb: expect nothing\n",
	"case d\nqp UD ip 6 qkey 3\npost_recv len 100\n< SEND_ONLY_IMM 0 imm 3 ecn 3 sport 9\n"
	"for i 1..3\n post_send SEND len i*4 flags INLINE\n < nak PSN_SEQ i-1\nend\noutput 1\n",
	"case e\nqp XRC_RECV state RTR\n< SEND_ONLY 0 len 8 srqn 3 bad_icrc 1\nmodify ERR\n"
	"dereg recv errno EINVAL\nset mem+8 u64 5\ncheck mem+8 len 8 = mem+8\ndeadline never\n",
	"case f\nqp UC srq 1\nfor x 0..2 for y 0..1 < WRITE_ONLY x*2+y len 8 by_memory 1\n"
	"check recv+131064 untouched\nexpect ack {1+2}/3\n< rnr 3 0\n< ack -1 syndrome 2\n",
	"case g\nqp RC\nmw 2\npost_send BIND_MW from mem+64 len 128 rkey 5 access REMOTE_READ,"
	"ZERO_BASED\n< SEND_ONLY_INV 0 len 8 ieth mw.rkey+1\npost_send LOCAL_INV inv mw.rkey\n"
	"post_send BIND_MW no_mr\nmw free\nmw 1 other_pd errno EINVAL\nignore\n",
	"case h\nqp RC srq 1 srq_other_pd 1\nreg recv access LOCAL_WRITE other_pd\nsrq limit 1\n"
	"post_recv sge recv 10 sge recv+131072 0 lkey recv.lkey-1\n< READ_REQUEST 0 at mem-1\n"
	"modify SQD\nmodify SQD max_dest_rd_atomic 3 other_address 1 access none\nmodify RTS "
	"min_rnr_timer 3\ncheck recv len 2 bytes eeee\nsrq destroy\ncounter drop_PSN 0\n",
	"case i\nconform MUST 9.7,CA17-1 rc_pingpong may_break\nqp RC\n< WRITE_ONLY 0 bytes 0aff "
	"bytes 01 len 9\nlatency l at_least 1ns at_most 9s\nexpect ack 0/1 or nak * or nothing\n"
	"trait t word ack * or other nothing\nnote n 3*4\ninterval i at_most 1us\nanswer\n",
	"case j\nqp UD\n< mad REQ service_id 5 primary.local_gid 0a0b opcode RC_SEND_ONLY mad_len "
	"3 "
	"tid 9 bad_icrc 1\n< mad REJ ari 00ff reason 3 ari_len 72 alternate.sl 3\nexpect *\n",
};

void fuzz_seed(struct fuzz_corpus *c)
{
	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		fuzz_corpus_add(c, texts[i], strlen(texts[i]));
}
