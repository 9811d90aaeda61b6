/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading captures: blocks from a file, or frames from libpcap live; the packets in them. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pcap/pcap.h>

#include "base/bytes.h"
#include "base/util.h"
#include "capture/blocks.h"
#include "capture/capture-read.h"
#include "wire/text.h"

enum {
	SLL2_IFINDEX = 4,
	SLL2_LEAST = 20,
	LIVE_SNAP = 0x40000,	   /* all of any frame */
	LIVE_BUFFER = 64 << 20,	   /* bytes in the kernel */
	LIVE_BATCH_MS = 100,	   /* the kernel waits for more frames */
	LIVE_AFTER_STOP = 1 << 17, /* frames that may still be in the kernel */
	LIVE_IDLE_MS = 250,	   /* until "nothing came" */
	DATAGRAMS = 256,	   /* in fragments at a time */
};
#define FRAGMENTS_NS (UINT64_C(30) * NS_PER_S) /* no host waits longer for the rest */

/* A packet in fragments. */
struct datagram {
	struct rocemu_gid src, dst;
	uint32_t id;
	bool ours;	/* its first fragment was seen, and names one of the ports */
	unsigned early; /* later fragments before that */
	uint64_t ts_ns;
};

struct capture_reader {
	struct blocks *blocks; /* owned; NULL: live */
	struct source *source; /* borrowed from blocks */
	pcap_t *live;	       /* owned; NULL: a file */
	uint32_t live_link;
	uint64_t frames, limit;
	struct capture_passed passed;
	struct encap_ports ports;
	struct datagram datagrams[DATAGRAMS]; /* by hash: a new one replaces the place's */
	unsigned after_stop;		      /* frames */
	const volatile sig_atomic_t *stop;    /* borrowed, or NULL */
};

static struct capture_reader *reader_new(void)
{
	struct capture_reader *r = calloc(1, sizeof(*r));

	if (r != NULL) {
		r->ports = (struct encap_ports){.port = {ROCEMU_UDP_PORT}, .n = 1};
		r->limit = UINT64_MAX;
	}
	return r;
}

/* @return 0, or -EINVAL and the text. Of pcapng each interface has a link layer of its own. */
static int check_link(uint32_t link, const char *path, char *errbuf, size_t errlen)
{
	const char *name = pcap_datalink_val_to_name((int)link);

	if (encap_link_known(link))
		return 0;
	snprintf(errbuf, errlen,
		 "%s has link layer %s; Ethernet, raw IP, loopback, Linux cooked and ERF can be "
		 "read",
		 path, name != NULL ? name : "unknown");
	return -EINVAL;
}

int capture_reader_open(struct capture_reader **out, const char *path, char *errbuf, size_t errlen)
{
	struct capture_reader *r = reader_new();
	char why[160];
	int err;

	*out = NULL;
	if (r == NULL) {
		snprintf(errbuf, errlen, "no memory for the capture %s", path);
		return -ENOMEM;
	}
	err = source_open(&r->source, path, errbuf, errlen);
	if (err < 0) {
		free(r);
		return err;
	}
	err = blocks_open(&r->blocks, r->source, why, sizeof(why));
	if (err < 0)
		snprintf(errbuf, errlen, "%s is not a capture that can be read: %s", path, why);
	else if (!blocks_are_pcapng(r->blocks))
		err = check_link(blocks_link(r->blocks), path, errbuf, errlen);
	if (err < 0) {
		capture_reader_close(r);
		return err;
	}
	*out = r;
	return 0;
}

/* ---- live ---- */

/*
 * What may be RoCEv2, or a tunnel with RoCEv2 in it, at the default ports. Where the link layer has
 * no Ethernet types the second fits; where that does not either, all frames are taken.
 */
static void live_filter(pcap_t *p)
{
	static const char *const filters[] = {
		"udp dst port 4791 or udp dst port 4789 or udp dst port 8472 or udp dst port 6081 "
		"or "
		"ip proto 47 or ip proto 4 or ip proto 41 or ip6 proto 47 or ip6 proto 4 or "
		"ip6 proto 41 or ether proto 0x8847 or ether proto 0x8848 or ether proto 0x8100 or "
		"ether proto 0x88a8 or ether proto 0x9100 or ip[6:2] & 0x3fff != 0 or "
		"ip proto 51 or ip6[6] = 0 or ip6[6] = 43 or ip6[6] = 44 or ip6[6] = 51 or "
		"ip6[6] = 60 or ip6[6] = 143 or ether proto 0x8915",
		"ip or ip6",
	};
	struct bpf_program program;

	for (size_t i = 0; i < ARRAY_LEN(filters); i++) {
		if (pcap_compile(p, &program, filters[i], 1, PCAP_NETMASK_UNKNOWN) != 0)
			continue;
		if (pcap_setfilter(p, &program) == 0)
			i = ARRAY_LEN(filters);
		pcap_freecode(&program);
	}
}

static int live_activate(struct capture_reader *r, const char *name, char *errbuf, size_t errlen)
{
	char err[PCAP_ERRBUF_SIZE] = "";
	int ret;

	pcap_set_snaplen(r->live, LIVE_SNAP);
	pcap_set_buffer_size(r->live, LIVE_BUFFER);
	pcap_set_timeout(r->live, LIVE_BATCH_MS);
	pcap_set_tstamp_precision(r->live, PCAP_TSTAMP_PRECISION_NANO);
	ret = pcap_activate(r->live);
	if (ret < 0) {
		snprintf(errbuf, errlen, "cannot capture at %s: %s%s%s", name,
			 pcap_statustostr(ret), *pcap_geterr(r->live) ? ": " : "",
			 pcap_geterr(r->live));
		return ret == PCAP_ERROR_PERM_DENIED	  ? -EACCES
		       : ret == PCAP_ERROR_NO_SUCH_DEVICE ? -ENODEV
							  : -EINVAL;
	}
	pcap_set_datalink(r->live, DLT_LINUX_SLL2); /* of "any": it names the interface */
	r->live_link = (uint32_t)pcap_datalink(r->live);
	if (pcap_setnonblock(r->live, 1, err) != 0) {
		snprintf(errbuf, errlen, "cannot capture at %s: %s", name, err);
		return -EINVAL;
	}
	return check_link(r->live_link, name, errbuf, errlen);
}

int capture_reader_open_live(struct capture_reader **out, const char *name, char *errbuf,
			     size_t errlen)
{
	struct capture_reader *r = reader_new();
	char err[PCAP_ERRBUF_SIZE] = "";
	int ret;

	*out = NULL;
	if (r == NULL) {
		snprintf(errbuf, errlen, "no memory to capture at %s", name);
		return -ENOMEM;
	}
	r->live = pcap_create(name, err);
	if (r->live == NULL) {
		snprintf(errbuf, errlen, "cannot capture at %s: %s", name, err);
		free(r);
		return -EINVAL;
	}
	ret = live_activate(r, name, errbuf, errlen);
	if (ret < 0) {
		capture_reader_close(r);
		return ret;
	}
	live_filter(r->live);
	*out = r;
	return 0;
}

/* As blocks_next(), and 2: nothing came. */
static int live_next(struct capture_reader *r, struct block *b)
{
	struct pollfd fd = {.fd = pcap_get_selectable_fd(r->live), .events = POLLIN};
	struct pcap_pkthdr *h;
	const u_char *data;
	int n;

	bool stop = r->stop != NULL && *r->stop != 0;

	if (stop && r->after_stop++ == LIVE_AFTER_STOP)
		return 0;
	n = pcap_next_ex(r->live, &h, &data);
	if (n == 0) {
		poll(&fd, 1, LIVE_IDLE_MS);
		n = pcap_next_ex(r->live, &h, &data);
	}
	if (n == 0)
		return stop ? 0 : 2;
	if (n != 1)
		return -EIO;
	*b = (struct block){
		.kind = BLOCK_FRAME,
		.ts_ns = (uint64_t)h->ts.tv_sec * NS_PER_S + (uint64_t)h->ts.tv_usec,
		.data = data,
		.caplen = h->caplen,
		.len = h->len,
		.link = r->live_link,
	};
	return 1;
}

/* ---- both ---- */

void capture_reader_ports(struct capture_reader *r, const uint16_t *ports, unsigned n)
{
	r->ports.n = MIN(n, (unsigned)ENCAP_PORTS);
	memcpy(r->ports.port, ports, r->ports.n * sizeof(*ports));
	if (r->live != NULL) {
		struct bpf_program all;

		if (pcap_compile(r->live, &all, "", 1, PCAP_NETMASK_UNKNOWN) == 0) {
			pcap_setfilter(r->live, &all);
			pcap_freecode(&all);
		}
	}
}

void capture_reader_limit(struct capture_reader *r, uint64_t frames)
{
	r->limit = frames;
}

void capture_reader_stop_at(struct capture_reader *r, const volatile sig_atomic_t *stop)
{
	r->stop = stop;
	if (r->source != NULL)
		source_stop_at(r->source, stop);
}

/* The packet that a fragment is of; a new one if it is none that is known. */
static struct datagram *datagram_of(struct capture_reader *r, const struct encap_found *f,
				    uint64_t ts_ns)
{
	uint32_t hash = f->fragment_id;
	struct datagram *d;

	for (unsigned i = 0; i < 16; i += 4)
		hash = (hash ^ get_be32(f->ip.src.raw + i) ^ get_be32(f->ip.dst.raw + i) * 3) *
		       0x01000193u;
	d = &r->datagrams[(hash ^ hash >> 16) % DATAGRAMS];
	if (d->id != f->fragment_id || !rocemu_gid_equal(&d->src, &f->ip.src) ||
	    !rocemu_gid_equal(&d->dst, &f->ip.dst) ||
	    (ts_ns > d->ts_ns ? ts_ns - d->ts_ns : d->ts_ns - ts_ns) > FRAGMENTS_NS)
		*d = (struct datagram){.src = f->ip.src, .dst = f->ip.dst, .id = f->fragment_id};
	d->ts_ns = ts_ns;
	return d;
}

/* @return false: a later fragment of what is not known to be a packet to one of the ports. */
static bool fragment_ours(struct capture_reader *r, const struct encap_found *f, uint64_t ts_ns,
			  unsigned *early)
{
	struct datagram *d = datagram_of(r, f, ts_ns);

	*early = 0;
	if (f->fragment_at != 0) {
		d->early += !d->ours;
		return d->ours;
	}
	*early = d->early;
	d->early = 0;
	d->ours = true;
	return true;
}

int capture_next(struct capture_reader *r, struct capture_rec *rec)
{
	struct encap_found found;
	struct block b;
	unsigned early = 0;
	int n = 0;

	while (r->frames < r->limit &&
	       (n = r->live != NULL ? live_next(r, &b) : blocks_next(r->blocks, &b)) == 1) {
		if (b.kind != BLOCK_FRAME)
			continue;
		r->frames++;
		switch (encap_find(&r->ports, b.link, b.data, b.caplen, &found)) {
		case ENCAP_SHORT:
			r->passed.cut += b.caplen < b.len;
			continue;
		case ENCAP_INFINIBAND:
			r->passed.infiniband++;
			continue;
		case ENCAP_NOTHING:
			if (!encap_link_known(b.link) && r->passed.link++ == 0)
				r->passed.link_type = b.link;
			continue;
		default:
			break;
		}
		if (found.fragment && !fragment_ours(r, &found, b.ts_ns, &early))
			continue;
		*rec = (struct capture_rec){
			.number = r->frames,
			.ts_ns = b.ts_ns,
			.ip = found.ip,
			.v1 = found.v1,
			.extras = found.extras,
			.fragment = found.fragment,
			.fragment_at = found.fragment_at,
			.early = early,
			.offloaded = found.offloaded,
			.data = found.data,
			.len = found.len,
			.wire_len = found.wire_len,
			.dmac = found.dmac,
			.interface = b.interface,
			.encap = found.encap,
		};
		if (b.link == LINK_SLL2 && b.caplen >= SLL2_LEAST)
			rec->interface = get_be32(b.data + SLL2_IFINDEX);
		return 1;
	}
	return r->frames < r->limit ? n : 0;
}

uint64_t capture_reader_frames(const struct capture_reader *r)
{
	return r->frames;
}

struct capture_passed capture_reader_passed(const struct capture_reader *r)
{
	return r->passed;
}

size_t capture_count_text(char *buf, size_t size, uint64_t packets, uint64_t v1)
{
	struct text t = text_start(buf, size);

	if (v1 == 0 || v1 < packets)
		text_add(&t, "%" PRIu64 " RoCEv2 ", packets - v1);
	if (v1 != 0)
		text_add(&t, "%s%" PRIu64 " RoCEv1 ", v1 < packets ? "and " : "", v1);
	text_add(&t, "packets");
	return t.len;
}

size_t capture_passed_text(char *buf, size_t size, const struct capture_passed *p)
{
	struct text t = text_start(buf, size);

	if (p->cut != 0)
		text_add(&t,
			 "; %" PRIu64 " frames cut before UDP's header: capture at least 128 bytes "
			 "of each (tcpdump -s 128)",
			 p->cut);
	if (p->infiniband != 0)
		text_add(&t, "; %" PRIu64 " frames of native InfiniBand, which Wireshark reads",
			 p->infiniband);
	if (p->link != 0)
		text_add(&t,
			 "; %" PRIu64 " frames of a link layer that cannot be read (LINKTYPE %u)",
			 p->link, p->link_type);
	return t.len;
}

uint64_t capture_reader_dropped(struct capture_reader *r)
{
	struct pcap_stat s = {0};

	return r->live != NULL && pcap_stats(r->live, &s) == 0 ? s.ps_drop : 0;
}

const char *capture_reader_error(const struct capture_reader *r)
{
	return r->live != NULL ? pcap_geterr(r->live) : blocks_error(r->blocks);
}

void capture_reader_close(struct capture_reader *r)
{
	if (r == NULL)
		return;
	if (r->live != NULL)
		pcap_close(r->live);
	blocks_close(r->blocks);
	free(r);
}
