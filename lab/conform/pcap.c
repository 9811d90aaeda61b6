/* SPDX-License-Identifier: BSD-2-Clause */
/* The packets of each case as a capture, pcapng, with comments of what each is in the case. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "capture/block-writer.h"
#include "capture/blocks.h"
#include "conform/ladder.h"
#include "conform/pcap.h"

enum { PATH_LEN = 4096, NANOSECONDS = 9 };

static int write_packet(struct block_writer *w, const struct conform_case *c,
			const struct conform_packet *p)
{
	uint8_t frame[IP_UDP_MAX_LEN + ROCEMU_MAX_PACKET + 1];
	const uint32_t payload = p->len <= ROCEMU_MAX_PACKET ? p->len : ROCEMU_MAX_PACKET;
	const uint32_t len = (uint32_t)ip_udp_encode(&p->ip, payload, frame);
	char text[CONFORM_PACKET_TEXT];

	memcpy(frame + len, p->data, payload);
	block_begin_packet(w, 0, p->ns, frame, len + payload, len + payload);
	conform_packet_text(p, text);
	block_put_comment(w, "%s: %s", p->sent ? "tester" : "device",
			  p->hello ? "a question to QP 1 that shows silence, or its answer" : text);
	if (p->line)
		block_put_comment(w, "line %u: %s", p->line, conform_line_text(c, p->line));
	return block_finish(w);
}

static int write_all(struct block_writer *w, const struct conform_result *r)
{
	const char *line = conform_line_text(r->c, r->line);
	int error;

	block_begin_section(w);
	block_put_comment(w, "rocemu conform: %s %s: %s (%s, IBTA %s)", r->c->id,
			  conform_verdict_text[r->verdict], r->c->sentence,
			  conform_level_text[r->c->about.level], r->c->about.clause);
	if (r->text)
		block_put_comment(w, "%s%s%s", line, *line ? ": " : "", r->text);
	error = block_finish(w);
	if (!error)
		error = block_write_interface(w, LINK_RAW, NANOSECONDS);
	for (unsigned i = 0; i < r->packets && !error; i++)
		error = write_packet(w, r->c, &r->packet[i]);
	return error;
}

/** "DIR/seq-gap.pcapng" */
static void path_of(const char *dir, const struct conform_case *c, char path[PATH_LEN])
{
	const int n = snprintf(path, PATH_LEN, "%s/", dir);

	if (n < PATH_LEN)
		snprintf(path + n, PATH_LEN - (size_t)n, "%s.pcapng", c->id);
	for (char *p = path + n; n < PATH_LEN && *p; p++)
		if (*p == '/')
			*p = '-';
}

static int write_case(const char *path, const struct conform_result *r)
{
	struct block_writer w = {.out = fopen(path, "we")};
	int error;

	if (!w.out)
		return -errno;
	error = write_all(&w, r);
	if (fclose(w.out) != 0 && !error)
		error = -errno;
	block_writer_fini(&w);
	return error;
}

bool conform_pcap_directory(const char *dir, const char *self)
{
	if (mkdir(dir, 0777) == 0 || errno == EEXIST)
		return true;
	fprintf(stderr, "%s: --pcap: cannot make %s: %s\n", self, dir, strerror(errno));
	return false;
}

bool conform_pcap(const char *dir, const struct conform_report *p, const char *self)
{
	for (unsigned i = 0; i < p->results; i++) {
		char path[PATH_LEN];
		int error;

		if (!p->result[i].packets)
			continue;
		path_of(dir, p->result[i].c, path);
		error = write_case(path, &p->result[i]);
		if (!error)
			continue;
		fprintf(stderr, "%s: --pcap: cannot write %s: %s\n", self, path, strerror(-error));
		return false;
	}
	return true;
}
