/* SPDX-License-Identifier: BSD-2-Clause */
/* cm-sample FILE: write every CM message of cm-vectors.c, as our encoder makes it, into a capture.
 */
#include <stdio.h>

#include "cm-vectors.h"
#include "wire/capture.h"

static int write_message(struct capture_writer *w, const struct rocemu_cm_msg *m)
{
	const struct rocemu_hdrs h = {
		.opcode = ROCEMU_UD_SEND_ONLY,
		.pkey = ROCEMU_PKEY_DEFAULT,
		.dqpn = ROCEMU_GSI_QPN,
		.deth = {.qkey = ROCEMU_GSI_QKEY, .sqpn = ROCEMU_GSI_QPN},
	};
	struct capture_pkt pkt = {
		.ip = {.src.raw = {0xfd, [15] = 1},
		       .dst.raw = {0xfd, [15] = 2},
		       .sport = 0xc000,
		       .dport = ROCEMU_UDP_PORT,
		       .hop_limit = 64},
	};
	const struct rocemu_icrc_ctx ctx = {
		.src = pkt.ip.src,
		.dst = pkt.ip.dst,
		.sport = pkt.ip.sport,
		.dport = pkt.ip.dport,
	};
	uint8_t buf[ROCEMU_MAX_HDR_LEN + ROCEMU_MAD_LEN + ROCEMU_ICRC_LEN];
	size_t len = rocemu_hdrs_encode(&h, buf);
	struct iovec iov;
	uint32_t icrc;

	len += rocemu_cm_encode(m, buf + len);
	icrc = rocemu_icrc(&ctx, buf, len, NULL, 0, NULL, 0);
	for (unsigned i = 0; i < ROCEMU_ICRC_LEN; i++)
		buf[len++] = (uint8_t)(icrc >> 8 * i);
	iov = (struct iovec){.iov_base = buf, .iov_len = len};
	pkt.iov = &iov;
	pkt.niov = 1;
	return capture_write(w, 0, &pkt);
}

int main(int argc, char **argv)
{
	struct capture_writer *w;
	char err[256];

	if (argc != 2) {
		fputs("usage: cm-sample FILE\n", stderr);
		return 2;
	}
	if (capture_writer_open(&w, argv[1], err, sizeof(err)) != 0) {
		fprintf(stderr, "%s\n", err);
		return 1;
	}
	for (unsigned i = 0; i < CM_VECTORS; i++)
		if (write_message(w, &cm_vectors()[i].msg) != 0)
			return 1;
	return capture_writer_close(w) != 0;
}
