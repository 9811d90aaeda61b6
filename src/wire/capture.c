/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Capture files: writing with pcap_dump(), reading with pcap_next_ex(). The packets' own format is
 * the codec's business, not this file's.
 */
#include "wire/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pcap/pcap.h>

#include "base/bytes.h"
#include "base/util.h"

enum {
	MAX_FRAME = 0xffff,
	SLL_PROTO = 14, /* Linux cooked v1: the ethertype, then the packet */
	SLL2_PROTO = 0, /* v2: the ethertype comes first, ... */
	SLL2_LEN = 20,	/* ... the packet here */
	NULL_LEN = 4,	/* BSD loopback: an address family in whatever byte order */
	WRITE_BUFFER = 256 * 1024,
};
#define NS_PER_S 1000000000u

struct capture_writer {
	pcap_t *pcap;	       /* owned */
	pcap_dumper_t *dumper; /* owned */
	int err;	       /* errno of the first write that failed, or 0 */
	uint8_t frame[MAX_FRAME];
	char buffer[WRITE_BUFFER]; /* stdio's */
};

struct capture_reader {
	pcap_t *pcap; /* owned */
	uint64_t frames;
	int linktype; /* DLT_* */
};

/* ---- writing ---- */

static FILE *open_for_write(const char *path, char *buffer)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	FILE *f;

	if (fd < 0)
		return NULL;
	f = fdopen(fd, "wb");
	if (f == NULL)
		close(fd);
	else
		setvbuf(f, buffer, _IOFBF, WRITE_BUFFER);
	return f;
}

int capture_writer_open(struct capture_writer **out, const char *path, char *errbuf, size_t errlen)
{
	struct capture_writer *w = calloc(1, sizeof(*w));
	FILE *f;
	int err;

	*out = NULL;
	if (w == NULL) {
		snprintf(errbuf, errlen, "no memory for the capture %s", path);
		return -ENOMEM;
	}
	f = open_for_write(path, w->buffer);
	if (f == NULL) {
		err = errno;
		snprintf(errbuf, errlen, "cannot write the capture %s: %s", path, strerror(err));
		free(w);
		return -err;
	}
	w->pcap = pcap_open_dead_with_tstamp_precision(DLT_RAW, MAX_FRAME,
						       PCAP_TSTAMP_PRECISION_NANO);
	if (w->pcap == NULL) {
		snprintf(errbuf, errlen, "no memory for the capture %s", path);
		fclose(f);
		free(w);
		return -ENOMEM;
	}
	w->dumper = pcap_dump_fopen(w->pcap, f); /* closes f when it fails */
	if (w->dumper == NULL) {
		snprintf(errbuf, errlen, "cannot write the capture %s: %s", path,
			 pcap_geterr(w->pcap));
		pcap_close(w->pcap);
		free(w);
		return -EIO;
	}
	*out = w;
	return 0;
}

/* pcap_dump() returns nothing: ask the stream, while errno is fresh. */
static void note_error(struct capture_writer *w)
{
	if (w->err == 0 && ferror(pcap_dump_file(w->dumper)) != 0)
		w->err = errno != 0 ? errno : EIO;
}

int capture_write(struct capture_writer *w, uint64_t ts_ns, const struct capture_pkt *pkt)
{
	struct pcap_pkthdr h = {0};
	size_t len = 0, n;

	for (unsigned i = 0; i < pkt->niov; i++) {
		if (pkt->iov[i].iov_len > MAX_FRAME - IP_UDP_MAX_LEN - len)
			return -EMSGSIZE;
		len += pkt->iov[i].iov_len;
	}
	n = ip_udp_encode(&pkt->ip, len, w->frame);
	for (unsigned i = 0; i < pkt->niov; i++) {
		if (pkt->iov[i].iov_len != 0)
			memcpy(w->frame + n, pkt->iov[i].iov_base, pkt->iov[i].iov_len);
		n += pkt->iov[i].iov_len;
	}
	h.ts.tv_sec = (time_t)(ts_ns / NS_PER_S);
	h.ts.tv_usec =
		(suseconds_t)(ts_ns % NS_PER_S); /* nanoseconds: the precision asked for at open */
	h.caplen = h.len = (bpf_u_int32)n;
	errno = 0;
	pcap_dump((u_char *)w->dumper, &h, w->frame);
	note_error(w);
	return 0;
}

int capture_flush(struct capture_writer *w)
{
	errno = 0;
	pcap_dump_flush(w->dumper);
	note_error(w);
	return -w->err;
}

int capture_writer_close(struct capture_writer *w)
{
	int r;

	if (w == NULL)
		return 0;
	r = capture_flush(w);
	pcap_dump_close(w->dumper);
	pcap_close(w->pcap);
	free(w);
	return r;
}

/* ---- reading ---- */

static bool linktype_known(int linktype)
{
	switch (linktype) {
	case DLT_EN10MB:
	case DLT_RAW:
	case DLT_IPV4:
	case DLT_IPV6:
	case DLT_NULL:
	case DLT_LOOP:
	case DLT_LINUX_SLL:
	case DLT_LINUX_SLL2:
		return true;
	default:
		return false;
	}
}

/* Where the IP header starts in a frame; len or more: nowhere. */
static size_t ip_offset(int linktype, const uint8_t *frame, size_t len)
{
	size_t off;

	switch (linktype) {
	case DLT_RAW:
	case DLT_IPV4:
	case DLT_IPV6:
		return 0;
	case DLT_NULL:
	case DLT_LOOP:
		return NULL_LEN;
	case DLT_LINUX_SLL2:
		if (len < SLL2_LEN)
			return len;
		return ethertype_is_ip(get_be16(frame + SLL2_PROTO)) ? SLL2_LEN : len;
	case DLT_LINUX_SLL:
		off = ethertype_ip_offset(frame, len, SLL_PROTO);
		break;
	default:
		off = ethertype_ip_offset(frame, len, ETHER_TYPE);
		break;
	}
	return off != 0 ? off : len;
}

int capture_reader_open(struct capture_reader **out, const char *path, char *errbuf, size_t errlen)
{
	char pcap_err[PCAP_ERRBUF_SIZE] = "";
	struct capture_reader *r;
	const char *name;
	FILE *f = strcmp(path, "-") == 0 ? fdopen(dup(STDIN_FILENO), "rb") : fopen(path, "rbe");
	int err;

	*out = NULL;
	if (f == NULL) {
		err = errno;
		snprintf(errbuf, errlen, "cannot read the capture %s: %s", path, strerror(err));
		return -err;
	}
	r = calloc(1, sizeof(*r));
	if (r == NULL) {
		snprintf(errbuf, errlen, "no memory for the capture %s", path);
		fclose(f);
		return -ENOMEM;
	}
	r->pcap = pcap_fopen_offline_with_tstamp_precision(f, PCAP_TSTAMP_PRECISION_NANO, pcap_err);
	if (r->pcap == NULL) {
		snprintf(errbuf, errlen, "%s is not a capture that can be read: %s", path,
			 pcap_err);
		fclose(f);
		free(r);
		return -EINVAL;
	}
	r->linktype = pcap_datalink(r->pcap);
	if (!linktype_known(r->linktype)) {
		name = pcap_datalink_val_to_name(r->linktype);
		snprintf(errbuf, errlen,
			 "%s has link layer %s; Ethernet, raw IP, loopback and Linux cooked can be "
			 "read",
			 path, name != NULL ? name : "unknown");
		capture_reader_close(r);
		return -EINVAL;
	}
	*out = r;
	return 0;
}

int capture_next(struct capture_reader *r, struct capture_rec *rec)
{
	struct pcap_pkthdr *h;
	const u_char *frame;
	size_t off;
	int n;

	while ((n = pcap_next_ex(r->pcap, &h, &frame)) == 1) {
		r->frames++;
		off = ip_offset(r->linktype, frame, h->caplen);
		if (off >= h->caplen)
			continue;
		if (ip_udp_decode(&rec->ip, frame + off, h->caplen - off, &rec->data, &rec->len,
				  &rec->wire_len) != IPHDR_OK)
			continue;
		if (rec->ip.dport != ROCEMU_UDP_PORT)
			continue;
		rec->number = r->frames;
		rec->dmac = r->linktype == DLT_EN10MB ? frame : NULL;
		rec->ts_ns = (uint64_t)h->ts.tv_sec * NS_PER_S + (uint64_t)h->ts.tv_usec;
		return 1;
	}
	return n == PCAP_ERROR_BREAK ? 0 : -EIO;
}

uint64_t capture_reader_frames(const struct capture_reader *r)
{
	return r->frames;
}

const char *capture_reader_error(const struct capture_reader *r)
{
	return pcap_geterr(r->pcap);
}

void capture_reader_close(struct capture_reader *r)
{
	if (r == NULL)
		return;
	pcap_close(r->pcap);
	free(r);
}
