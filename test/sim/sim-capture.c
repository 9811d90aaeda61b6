/* SPDX-License-Identifier: BSD-2-Clause */
/* See sim-capture.h. Virtual time begins in 1970. */
#include "sim-capture.h"

#include <stdio.h>

#include "base/util.h"
#include "wire/capture.h"

static void write_packet(struct capture_writer *w, struct sim_packet *p)
{
	struct iovec iov = {.iov_base = p->data, .iov_len = p->len};
	struct capture_pkt pkt = {
		.ip = {.src = p->src,
		       .dst = p->dst,
		       .sport = p->sport,
		       .dport = ROCEMU_UDP_PORT,
		       .ip_frag = IP_FLAG_DF,
		       .tclass = p->tclass,
		       .hop_limit = p->hop_limit},
		.iov = &iov,
		.niov = 1,
	};

	capture_write(w, p->sent_at, &pkt);
}

int sim_capture_to(const struct sim *s, const char *path)
{
	uint64_t kept = MIN(s->history_len, (uint64_t)SIM_HISTORY);
	struct capture_writer *w;
	char err[256];

	if (capture_writer_open(&w, path, err, sizeof(err)) != 0) {
		fprintf(stderr, "  no capture: %s\n", err);
		return -1;
	}
	for (uint64_t i = s->history_len - kept; i < s->history_len; i++)
		write_packet(w, s->history[i % SIM_HISTORY]);
	return capture_writer_close(w);
}

int sim_capture(const struct sim *s, char *path, size_t size)
{
	snprintf(path, size, "%s/failed-%s-%llu.pcap", SIM_CAPTURE_DIR,
		 s->cfg.name ? s->cfg.name : "run", (unsigned long long)s->cfg.seed);
	return sim_capture_to(s, path);
}
