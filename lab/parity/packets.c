/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The packets of a run, in words that hold for any device: from the capture that an emulated device
 * writes of what it sends and receives. The file is read here by its format's description, so that
 * this program uses no code of rocemu.
 *
 * Packets that depend on time are left out: retransmissions, packets after a refused one,
 * acknowledgements that a later answer includes, and AckReq in the middle of a message. What
 * depends on the device, too: addresses, keys, ports, numbers of QPs (which are counted as they
 * appear). PSNs are the scenario's.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/stat.h>

#include "parity.h"

enum {
	FILE_HEADER = 24,
	RECORD_HEADER = 16,
	MAGIC_US = 0xa1b2c3d4,
	MAGIC_NS = 0xa1b23c4d,
	LINK_RAW = 101,
	ROCE_PORT = 4791,
	BTH = 12,
	ICRC = 4,
	FILE_MAX = 64 << 20,
	PACKETS_MAX = 20000,
	QPS_MAX = 8,
	DEFAULT_PKEY = 0xffff,
};

enum {
	HAS_RETH = 1,
	HAS_AETH = 2,
	HAS_IMM = 4,
	HAS_ATOMIC = 8,
	HAS_INV = 16,
	HAS_DETH = 32,
	HAS_RESULT = 64,
	ANSWERS = 128,
	HAS_SRQ = 256
};

static const struct opcode {
	const char *name;
	unsigned has;
} opcodes[32] = {
	/* clang-format off */
	[0x00] = {"SEND First", 0}, [0x01] = {"SEND Middle", 0}, [0x02] = {"SEND Last", 0},
	[0x03] = {"SEND Last imm", HAS_IMM}, [0x04] = {"SEND Only", 0}, [0x05] = {"SEND Only imm", HAS_IMM},
	[0x06] = {"WRITE First", HAS_RETH}, [0x07] = {"WRITE Middle", 0}, [0x08] = {"WRITE Last", 0},
	[0x09] = {"WRITE Last imm", HAS_IMM}, [0x0a] = {"WRITE Only", HAS_RETH},
	[0x0b] = {"WRITE Only imm", HAS_RETH | HAS_IMM}, [0x0c] = {"READ", HAS_RETH},
	[0x0d] = {"READ response First", HAS_AETH | ANSWERS}, [0x0e] = {"READ response Middle", ANSWERS},
	[0x0f] = {"READ response Last", HAS_AETH | ANSWERS}, [0x10] = {"READ response Only", HAS_AETH | ANSWERS},
	[0x11] = {"acknowledge", HAS_AETH | ANSWERS}, [0x12] = {"atomic response", HAS_AETH | HAS_RESULT | ANSWERS},
	[0x13] = {"compare and swap", HAS_ATOMIC}, [0x14] = {"fetch and add", HAS_ATOMIC},
	[0x16] = {"SEND Last inv", HAS_INV}, [0x17] = {"SEND Only inv", HAS_INV},
	/* clang-format on */
};
static const char *const services[8] = {"RC", "UC", "RD", "UD", NULL, "XRC"};
enum { UD = 3, XRC = 5, OP_READ = 0x0c, OP_ACK = 0x11, RNR_NAK = 1, NAK_SEQUENCE = 0x60 };

struct packet {
	uint8_t op; /* without the service */
	uint8_t service, flags, syndrome;
	uint16_t pkey;
	uint32_t qpn, psn, msn, imm, qkey;
	uint32_t dma_len, payload;
	bool gone; /* sent again, or included in a later answer */
};

struct packets {
	struct packet *all; /* owned */
	unsigned n;
};

/* ---- reading ---- */

static uint32_t be(const uint8_t *p, unsigned bytes)
{
	uint32_t v = 0;

	for (unsigned i = 0; i < bytes; i++)
		v = v << 8 | p[i];
	return v;
}

/** The UDP payload of a packet to port 4791, or NULL. */
static const uint8_t *roce(const uint8_t *p, size_t *len)
{
	size_t ip = *len < 1	     ? 0
		    : p[0] >> 4 == 4 ? (size_t)(p[0] & 15) * 4
		    : p[0] >> 4 == 6 ? 40
				     : 0;

	if (!ip || *len < ip + 8 + BTH + ICRC || be(p + ip + 2, 2) != ROCE_PORT)
		return NULL;
	*len -= ip + 8;
	return p + ip + 8;
}

static const struct opcode *opcode_of(const struct packet *k)
{
	return &opcodes[k->op];
}

/** Headers behind the BTH. @return false: too short. */
static bool extended(struct packet *k, const uint8_t *p, size_t len)
{
	unsigned has = opcode_of(k)->has;
	const struct {
		unsigned bit, size;
	} order[] = {{HAS_SRQ, 4},  {HAS_DETH, 8},   {HAS_RETH, 16}, {HAS_ATOMIC, 28},
		     {HAS_AETH, 4}, {HAS_RESULT, 8}, {HAS_IMM, 4},   {HAS_INV, 4}};

	if (k->service == UD)
		has |= HAS_DETH;
	if (k->service == XRC && !(has & ANSWERS)) /* every request names an SRQ */
		has |= HAS_SRQ;
	for (unsigned i = 0; i < COUNT(order); i++) {
		if (!(has & order[i].bit))
			continue;
		if (len < order[i].size + ICRC)
			return false;
		if (order[i].bit == HAS_DETH)
			k->qkey = be(p, 4);
		if (order[i].bit == HAS_RETH)
			k->dma_len = be(p + 12, 4);
		if (order[i].bit == HAS_AETH) {
			k->syndrome = p[0];
			k->msn = be(p + 1, 3);
		}
		if (order[i].bit == HAS_IMM)
			k->imm = be(p, 4);
		p += order[i].size;
		len -= order[i].size;
	}
	k->payload = (uint32_t)(len - ICRC);
	return true;
}

static bool middle(const struct packet *k)
{
	return k->op == 0x01 || k->op == 0x07 || k->op == 0x0e;
}

static bool ends_message(const struct packet *k)
{
	return !strstr(opcode_of(k)->name ? opcode_of(k)->name : "", "First") && !middle(k);
}

static bool parse(struct packet *k, const uint8_t *p, size_t len)
{
	unsigned pad = p[1] >> 4 & 3;

	*k = (struct packet){
		.op = p[0] & 31,
		.service = p[0] >> 5,
		/* solicited; acknowledge; version of the transport */
		.flags = (uint8_t)((p[1] & 0x80) | (p[8] & 0x80) >> 1 | (p[1] & 15)),
		.pkey = (uint16_t)be(p + 2, 2),
		.qpn = be(p + 5, 3),
		.psn = be(p + 9, 3),
	};
	if (!extended(k, p + BTH, len - BTH) || k->payload < pad)
		return false;
	k->payload -= pad;
	return true;
}

/** One file's bytes; NULL: none, or not one of those. */
static uint8_t *load(const char *path, size_t *len)
{
	FILE *f = fopen(path, "re");
	struct stat st;
	/* Not more: where malloc() fills what it gives, a large buffer takes as long as the run. */
	const size_t size = f && fstat(fileno(f), &st) == 0 && st.st_size > 0
				    ? (size_t)MIN(st.st_size, FILE_MAX)
				    : 0;
	uint8_t *data = size ? malloc(size) : NULL;
	uint32_t magic = 0, link = 0;

	*len = data ? fread(data, 1, size, f) : 0;
	if (f)
		fclose(f);
	if (*len >= FILE_HEADER) {
		memcpy(&magic, data, 4);
		memcpy(&link, data + 20, 4);
	}
	if ((magic == MAGIC_US || magic == MAGIC_NS) && link == LINK_RAW)
		return data;
	free(data);
	return NULL;
}

static void read_all(struct packets *all, const uint8_t *data, size_t len)
{
	size_t at = FILE_HEADER;
	uint32_t caplen;

	while (at + RECORD_HEADER <= len && all->n < PACKETS_MAX) {
		const uint8_t *p;
		size_t n;

		memcpy(&caplen, data + at + 8, 4);
		at += RECORD_HEADER;
		if (caplen > len - at)
			return;
		n = caplen;
		p = roce(data + at, &n);
		if (p && parse(&all->all[all->n], p, n))
			all->n++;
		at += caplen;
	}
}

/* ---- what time has to do with ---- */

static bool answers(const struct packet *k)
{
	return opcode_of(k)->has & ANSWERS;
}

static bool plain_ack(const struct packet *k)
{
	return k->op == OP_ACK && k->syndrome >> 5 == 0;
}

static bool same_flow(const struct packet *a, const struct packet *b)
{
	return a->qpn == b->qpn && a->service == b->service && answers(a) == answers(b);
}

/** Is b, which comes later, a repetition of a, or a part of a's range? */
static bool repeats(const struct packet *a, const struct packet *b)
{
	uint32_t beyond = (b->psn - a->psn) & 0xffffff;

	if (!same_flow(a, b))
		return false;
	if (a->op == OP_READ && b->op == OP_READ)
		return beyond < (a->dma_len ? (a->dma_len + MTU - 1) / MTU : 1);
	if (answers(a))
		return a->psn == b->psn && (a->op == OP_ACK) == (b->op == OP_ACK) &&
		       a->syndrome >> 5 == b->syndrome >> 5;
	return a->psn == b->psn;
}

/**
 * A request that was refused permanently: how much its requester had sent behind it by then depends
 * on timing.
 */
static void leave_out_behind(struct packets *all, const struct packet *nak)
{
	for (unsigned i = 0; i < all->n; i++) {
		struct packet *k = &all->all[i];
		uint32_t beyond = (k->psn - nak->psn) & 0xffffff;

		if (!answers(k) && k->qpn != nak->qpn && k->service == nak->service && beyond &&
		    beyond < 0x800000)
			k->gone = true;
	}
}

/** An error, or no receive until the retries were used up. */
static bool is_refusal(const struct packets *all, unsigned nak)
{
	const struct packet *n = &all->all[nak];

	if (n->op != OP_ACK || n->syndrome >> 5 != RNR_NAK)
		return n->op == OP_ACK && n->syndrome > NAK_SEQUENCE;
	for (unsigned i = nak + 1; i < all->n; i++) {
		const struct packet *k = &all->all[i];

		if (plain_ack(k) && same_flow(k, n) && ((k->psn - n->psn) & 0xffffff) < 0x800000)
			return false;
	}
	return true;
}

static void leave_out(struct packets *all)
{
	for (unsigned i = 0; i < all->n; i++)
		if (is_refusal(all, i))
			leave_out_behind(all, &all->all[i]);
	for (unsigned i = 0; i < all->n; i++) {
		struct packet *k = &all->all[i];

		for (unsigned j = 0; j < i && !k->gone; j++)
			k->gone = !all->all[j].gone && repeats(&all->all[j], k);
	}
	for (unsigned i = 0; i < all->n; i++) {
		struct packet *k = &all->all[i];

		for (unsigned j = i + 1; plain_ack(k) && j < all->n && !k->gone; j++)
			k->gone = !all->all[j].gone && same_flow(k, &all->all[j]);
	}
}

/* ---- output ---- */

static unsigned number_of(uint32_t qpn, uint32_t qpns[QPS_MAX], unsigned *n)
{
	for (unsigned i = 0; i < *n; i++)
		if (qpns[i] == qpn)
			return i + 1;
	if (*n < QPS_MAX)
		qpns[(*n)++] = qpn;
	return *n;
}

static void packet_say(FILE *f, const struct packet *k, unsigned qp, unsigned times)
{
	const struct opcode *o = opcode_of(k);
	const char *service = services[k->service];

	fprintf(f, "packet to %u: ", qp);
	if (!o->name || !service)
		fprintf(f, "opcode %02x", k->service << 5 | k->op);
	else
		fprintf(f, "%s %s", service, o->name);
	fprintf(f, " psn %06x, ", k->psn);
	if (times > 1)
		fprintf(f, "%u times ", times);
	fprintf(f, "%u bytes", k->payload);
	if (o->has & HAS_RETH)
		fprintf(f, " of %u", k->dma_len);
	if (o->has & HAS_AETH)
		fprintf(f, ", syndrome %02x msn %u", k->syndrome, k->msn);
	if (o->has & HAS_IMM)
		fprintf(f, ", imm %08x", k->imm);
	if (k->service == UD)
		fprintf(f, ", qkey %#x", k->qkey);
	fprintf(f, "%s%s", k->flags & 0x80 ? ", solicited" : "",
		k->flags & 0x40 && ends_message(k) ? ", AckReq" : "");
	if (k->flags & 15)
		fprintf(f, ", version %u", k->flags & 15);
	if (k->pkey != DEFAULT_PKEY)
		fprintf(f, ", P_Key %04x", k->pkey);
	putc('\n', f);
}

/** How many Middles that are alike begin at i: they get one line. Those of other flows and those
 *  left out stand between them. */
static unsigned fold(const struct packets *all, unsigned i)
{
	const struct packet *first = &all->all[i];
	unsigned n = 1;

	for (unsigned j = i + 1; middle(first) && j < all->n; j++) {
		struct packet *k = &all->all[j];

		if (k->gone || !same_flow(first, k))
			continue;
		if (k->op != first->op || k->psn != ((first->psn + n) & 0xffffff) ||
		    k->payload != first->payload)
			break;
		k->gone = true;
		n++;
	}
	return n;
}

/** The requests to each QP, then the answers to each: how they interleave is a matter of time. */
static char *text_of(const struct packets *all)
{
	uint32_t qpns[QPS_MAX] = {0};
	unsigned nqpns = 0;
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		abort();
	for (unsigned i = 0; i < all->n; i++)
		number_of(all->all[i].qpn, qpns, &nqpns);
	for (unsigned flow = 0; flow < 2 * nqpns; flow++)
		for (unsigned i = 0; i < all->n; i++) {
			struct packet *k = &all->all[i];

			if (!k->gone && answers(k) == (flow >= nqpns) &&
			    number_of(k->qpn, qpns, &nqpns) == flow % nqpns + 1)
				packet_say(f, k, flow % nqpns + 1, fold(all, i));
		}
	fclose(f);
	return text;
}

char *packets_read(const char *path)
{
	struct packets all = {0};
	size_t len;
	uint8_t *data = load(path, &len);
	char *text;

	if (!data)
		return NULL;
	all.all = calloc(PACKETS_MAX, sizeof(*all.all));
	if (!all.all)
		abort();
	read_all(&all, data, len);
	leave_out(&all);
	text = text_of(&all);
	free(all.all);
	free(data);
	return text;
}
