/* SPDX-License-Identifier: BSD-2-Clause */
/* rocemu decode: a capture's RoCEv2 packets, one line each, with their ICRC checked. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli.h"
#include "base/json.h"
#include "base/util.h"
#include "tool.h"
#include "capture/burst.h"
#include "capture/cut.h"
#include "wire/print.h"

struct decode {
	bool json;
	uint64_t limit; /* packets to print; 0: all */
	uint64_t t0_ns; /* of the first packet */
	uint64_t packets, v1, malformed, bad_icrc, cut, fragments;
};

/** A packet, and what is wrong with it. */
struct judged {
	struct rocemu_packet pkt;
	uint32_t hdrs;	       /* ROCEMU_HDR_* that are there */
	enum rocemu_drop form; /* ROCEMU_DROP_NONE: decoded */
	bool cut;	       /* the capture does not have all of it */
	bool icrc_ok;	       /* meaningless when cut or malformed */
};

enum { OPT_LIMIT = 'n', OPT_JSON = 'j' };

static const struct cli_option options[] = {
	{OPT_LIMIT, "limit", "N", "Print the first N packets only; all are checked and counted"},
	{OPT_JSON, "json", NULL, "Print a JSON object per line"},
	CLI_HELP,
	{0},
};

const struct cli decode_cli = {
	.name = "decode",
	.brief = "print the RoCEv2 packets of a capture",
	.usage = "[OPTIONS] FILE",
	.about = "Prints the RoCEv2 packets of a capture file (pcap or pcapng, \"-\" for standard "
		 "input), one line each, with the ICRC checked. The last line, on standard error, "
		 "counts them.",
	.options = options,
	.notes = "Exit code 1: a packet was malformed or its ICRC wrong, or the file could not be "
		 "read to its end.",
	.operand = CLI_FILE,
};

static void judge(struct judged *j, const struct capture_rec *rec, bool icrc_wrong)
{
	memset(j, 0, sizeof(*j));
	j->cut = rec->wire_len > rec->len || rec->fragment_at != 0;
	j->icrc_ok = !icrc_wrong;
	j->form = ROCEMU_DROP_SHORT;
	if (rec->fragment_at != 0)
		return;
	j->form = cut_decode(&j->pkt, &j->hdrs, rec);
	if (j->form == ROCEMU_DROP_LENGTH && rec->hides && j->cut)
		j->form = ROCEMU_DROP_NONE;
}

static const char *verdict_text(const struct capture_rec *rec, const struct judged *j)
{
	if (rec->fragment)
		return "IP fragment";
	if (j->cut && (j->form == ROCEMU_DROP_NONE || !cut_has_bth(rec)))
		return "cut short by the capture";
	if (j->form != ROCEMU_DROP_NONE)
		return rocemu_drop_text(j->form);
	return j->icrc_ok ? "ICRC ok" : "ICRC WRONG";
}

static bool is_malformed(const struct capture_rec *rec, const struct judged *j)
{
	return j->form != ROCEMU_DROP_NONE && (cut_has_bth(rec) || !j->cut) &&
	       rec->fragment_at == 0;
}

static bool is_bad(const struct capture_rec *rec, const struct judged *j)
{
	return rec->fragment || is_malformed(rec, j) || (!j->cut && !j->icrc_ok);
}

static void describe(char *text, size_t len, const struct capture_rec *rec, const struct judged *j)
{
	const struct rocemu_packet *pkt = &j->pkt;
	uint32_t missing = rocemu_opcode_hdrs(pkt->h.opcode) & ~j->hdrs;
	char names[64];
	size_t n;

	if (rec->fragment_at != 0) {
		snprintf(text, len, "%zu bytes, from byte %u of UDP's on", rec->len,
			 rec->fragment_at);
	} else if (!cut_has_bth(rec)) {
		snprintf(text, len, "%zu bytes", rec->len);
	} else if (j->form != ROCEMU_DROP_NONE) {
		snprintf(text, len, "%s qpn 0x%x psn %u", rocemu_opcode_name(pkt->h.opcode),
			 pkt->h.dqpn, pkt->h.psn);
	} else if (!j->cut) {
		print_packet(text, len, pkt);
	} else {
		n = print_packet_cut(text, len, pkt, j->hdrs, !rec->hides);
		cut_names(names, sizeof(names), missing);
		if (missing != 0)
			n += (size_t)snprintf(text + n, len - n, " (%s cut)", names);
		if (rec->hides)
			snprintf(text + n, len - n, " (perhaps several packets)");
	}
	if (rec->v1) {
		n = strlen(text);
		snprintf(text + n, len - n, " (RoCEv1)");
	}
}

static void print_line(const struct decode *d, const struct capture_rec *rec, unsigned segment,
		       const struct judged *j, const char *text)
{
	char number[32];
	uint64_t t = rec->ts_ns - d->t0_ns;
	char flow[128];

	print_flow(flow, sizeof(flow), &rec->ip);
	if (segment)
		snprintf(number, sizeof(number), "%" PRIu64 ".%u", rec->number, segment);
	else
		snprintf(number, sizeof(number), "%" PRIu64, rec->number);
	printf("%5s %3" PRIu64 ".%09" PRIu64 " %s %s  ", number, t / NS_PER_S, t % NS_PER_S, flow,
	       text);
	if (is_bad(rec, j))
		out_bad(stdout, verdict_text(rec, j));
	else
		fputs(verdict_text(rec, j), stdout);
	putchar('\n');
}

static void print_json(const struct capture_rec *rec, unsigned segment, const struct judged *j,
		       const char *text)
{
	struct json out = {.f = stdout};
	char src[64], dst[64];

	print_gid(src, sizeof(src), &rec->ip.src);
	print_gid(dst, sizeof(dst), &rec->ip.dst);
	json_open(&out, NULL, '{');
	json_u64(&out, "number", rec->number);
	json_u64(&out, "time_ns", rec->ts_ns);
	json_text(&out, "src", src);
	json_text(&out, "dst", dst);
	json_u64(&out, "sport", rec->ip.sport);
	if (segment)
		json_u64(&out, "segment", segment);
	if (rec->v1)
		json_bool(&out, "roce_v1", true);
	if (rec->fragment)
		json_u64(&out, "fragment_at", rec->fragment_at);
	if (rec->fragment_at == 0 && cut_has_bth(rec)) {
		json_text(&out, "opcode", rocemu_opcode_name(j->pkt.h.opcode));
		json_u64(&out, "qpn", j->pkt.h.dqpn);
		json_u64(&out, "psn", j->pkt.h.psn);
	}
	if (j->form == ROCEMU_DROP_NONE && !rec->hides)
		json_u64(&out, "payload_len", j->pkt.payload_len);
	if (j->form == ROCEMU_DROP_NONE && j->cut)
		json_null(&out, "icrc");
	else if (j->form == ROCEMU_DROP_NONE)
		json_bool(&out, "icrc", j->icrc_ok);
	json_text(&out, "text", text);
	json_text(&out, "verdict", verdict_text(rec, j));
	json_close(&out, '}');
	putchar('\n');
}

static void count(struct decode *d, const struct capture_rec *rec, const struct judged *j)
{
	if (d->packets + d->fragments == 0)
		d->t0_ns = rec->ts_ns;
	d->fragments += rec->fragment;
	if (rec->fragment_at != 0)
		return;
	d->packets++;
	d->v1 += rec->v1;
	d->cut += j->cut && !rec->fragment;
	d->malformed += is_malformed(rec, j);
	d->bad_icrc += !j->cut && j->form == ROCEMU_DROP_NONE && !j->icrc_ok;
}

static void take(void *arg, const struct capture_rec *rec, unsigned segment, bool icrc_wrong)
{
	struct decode *d = arg;
	char text[PRINT_PACKET_MAX];
	struct judged j;

	judge(&j, rec, icrc_wrong);
	count(d, rec, &j);
	if (d->limit && d->packets > d->limit)
		return;
	describe(text, sizeof(text), rec, &j);
	if (d->json)
		print_json(rec, segment, &j, text);
	else
		print_line(d, rec, segment, &j, text);
}

static int decode_file(struct decode *d, const char *self, const char *path)
{
	struct capture_passed passed;
	struct capture_reader *r;
	struct capture_rec rec;
	char err[512];
	int ret = capture_reader_open(&r, path, err, sizeof(err));

	if (ret < 0) {
		out_error(self, err);
		return TOOL_FAILED;
	}
	while ((ret = capture_next(r, &rec)) == 1 && !ferror(stdout))
		burst_each(&rec, take, d);
	fflush(stdout);
	if (ret < 0)
		out_error(self, capture_reader_error(r));
	capture_count_text(err, sizeof(err), d->packets, d->v1);
	fprintf(stderr,
		"%s in %" PRIu64 " frames, %" PRIu64 " malformed, %" PRIu64
		" with a wrong ICRC, %" PRIu64 " cut short",
		err, capture_reader_frames(r), d->malformed, d->bad_icrc, d->cut);
	if (d->fragments != 0)
		fprintf(stderr, ", %" PRIu64 " IP fragments", d->fragments);
	passed = capture_reader_passed(r);
	capture_passed_text(err, sizeof(err), &passed);
	fprintf(stderr, "%s\n", err);
	capture_reader_close(r);
	return ret < 0 || d->malformed || d->bad_icrc ? TOOL_FAILED : TOOL_OK;
}

int tool_decode(int argc, char **argv)
{
	struct decode d = {0};
	char *end;
	int opt;

	while ((opt = cli_next(&decode_cli, argc, argv)) != CLI_END) {
		switch (opt) {
		case OPT_LIMIT:
			errno = 0;
			d.limit = strtoull(optarg, &end, 10);
			if (errno || end == optarg || *end || *optarg == '-' || d.limit == 0) {
				fprintf(stderr, "%s: --limit %s: expected a number from 1\n",
					argv[0], optarg);
				return TOOL_USAGE;
			}
			break;
		case OPT_JSON:
			d.json = true;
			break;
		case 'h':
			cli_print_help(&decode_cli, stdout);
			return TOOL_OK;
		default:
			return TOOL_USAGE;
		}
	}
	if (optind + 1 != argc) {
		fprintf(stderr, "%s: expected one capture file; see --help\n", argv[0]);
		return TOOL_USAGE;
	}
	return decode_file(&d, argv[0], argv[optind]);
}
