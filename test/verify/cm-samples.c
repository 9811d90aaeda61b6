/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Captures of exchanges of CM messages, made by two connection managers in virtual time: the same
 * bytes at each run. For pcap-samples/regenerate.py; with loss, doubling and disorder for a test.
 *
 *	cm-samples DIRECTORY          each exchange once, on a good network
 *	cm-samples DIRECTORY SEEDS    each on as many bad ones
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cm/scenario.h"
#include "wire/capture.h"

enum { BAD_MS = 40 };

static struct capture_writer *writer;
static uint32_t psn[2];

/* What rdma_cm puts before the consumer's private data (annex A11). */
static void add_addresses(const struct cm_addr *addr, uint8_t *private_data)
{
	const struct rocemu_cma cma = {
		.ip_version = rocemu_gid_is_ipv4(&addr->src) ? 4 : 6,
		.sport = 40000,
		.src = addr->src,
		.dst = addr->dst,
	};

	rocemu_cma_encode(&cma, private_data);
}

static void tap(struct net *n, unsigned from, const struct cm_mad *mad)
{
	const struct rocemu_hdrs h = {
		.opcode = ROCEMU_UD_SEND_ONLY,
		.pkey = ROCEMU_PKEY_DEFAULT,
		.migreq = true,
		.dqpn = ROCEMU_GSI_QPN,
		.psn = psn[from]++,
		.deth = {.qkey = ROCEMU_GSI_QKEY, .sqpn = ROCEMU_GSI_QPN},
	};
	struct rocemu_icrc_ctx icrc = {.src = mad->addr.src,
				       .dst = mad->addr.dst,
				       .sport = 0xc000,
				       .dport = ROCEMU_UDP_PORT,
				       .ip_frag = IP_FLAG_DF};
	uint8_t hdr[ROCEMU_MAX_HDR_LEN], data[ROCEMU_MAD_LEN], sum[ROCEMU_ICRC_LEN];
	struct iovec iov[3] = {
		{hdr, rocemu_hdrs_encode(&h, hdr)}, {data, sizeof(data)}, {sum, sizeof(sum)}};
	struct rocemu_cm_msg m;
	uint32_t v;

	memcpy(data, mad->data, sizeof(data));
	if (rocemu_cm_decode(&m, data, sizeof(data)) == ROCEMU_MAD_OK) {
		if (m.attr_id == ROCEMU_CM_REQ)
			add_addresses(&mad->addr, m.req.private_data);
		else if (m.attr_id == ROCEMU_CM_SIDR_REQ)
			add_addresses(&mad->addr, m.sidr_req.private_data);
		if (m.attr_id == ROCEMU_CM_REQ || m.attr_id == ROCEMU_CM_SIDR_REQ)
			rocemu_cm_encode(&m, data);
	}
	v = rocemu_icrc(&icrc, hdr, iov[0].iov_len, &iov[1], 1, NULL, 0);
	for (unsigned i = 0; i < sizeof(sum); i++)
		sum[i] = (uint8_t)(v >> 8 * i);
	capture_write(writer, n->now,
		      &(struct capture_pkt){.ip = {.src = mad->addr.src,
						   .dst = mad->addr.dst,
						   .sport = 0xc000,
						   .dport = ROCEMU_UDP_PORT,
						   .ip_frag = IP_FLAG_DF,
						   .hop_limit = 64},
					    .iov = iov,
					    .niov = 3});
}

/* "A needs time" -> "cm_a_needs_time" */
static void file_name(char *path, size_t room, const char *directory, const char *name,
		      const char *end)
{
	size_t at = (size_t)snprintf(path, room, "%s/cm_", directory);

	for (; *name && at + 1 < room; name++) {
		if (*name == ' ')
			path[at++] = '_';
		else if (*name != ',')
			path[at++] = *name >= 'A' && *name <= 'Z' ? (char)(*name + 32) : *name;
	}
	snprintf(path + at, room - at, "%s.pcap", end);
}

static void record(const char *directory, const struct scenario *s, bool ipv6, unsigned seed)
{
	static struct net n;
	char path[512], end[32], err[256];

	snprintf(end, sizeof(end), seed != 0 ? "-%u" : ipv6 ? "_ipv6" : "_ipv4", seed);
	file_name(path, sizeof(path), directory, s->name, end);
	if (capture_writer_open(&writer, path, err, sizeof(err)) != 0) {
		fprintf(stderr, "%s\n", err);
		exit(1);
	}
	net_start(&n, seed + 1);
	n.tap = tap;
	for (unsigned i = 0; ipv6 && i < 2; i++)
		n.side[i].gid = (struct rocemu_gid){{0xfd, 0x77, [15] = (uint8_t)(i + 1)}};
	if (seed != 0) {
		struct rng rng;

		rng_init(&rng, seed);
		n.lose = rng_u64(&rng) & rng_u64(&rng) & 0xff;
		n.twice = rng_u64(&rng) & rng_u64(&rng);
		n.jumble = true;
		n.spread = BAD_MS * 1000000ull;
	}
	scenario_run(s, &n, path);
	if (capture_writer_close(writer) != 0)
		exit(1);
}

int main(int argc, char **argv)
{
	unsigned seeds = argc == 3 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;

	if (argc != 2 && argc != 3) {
		fputs("usage: cm-samples DIRECTORY [SEEDS]\n", stderr);
		return 2;
	}
	for (unsigned i = 0; i < scenario_count; i++) {
		if (argc == 2) {
			record(argv[1], &scenarios[i], i % 2 != 0, 0);
			continue;
		}
		for (unsigned seed = 1; seed <= seeds; seed++)
			record(argv[1], &scenarios[i], seed % 2 != 0, seed);
	}
	return 0;
}
