/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Captures of RoCEv2 packets, reading: pcap and pcapng, also compressed (source.h), and live from
 * an interface; with Ethernet, raw IP, BSD loopback, Linux cooked (v1, v2) or ERF link layers and
 * tunnels in them (encap.h). What is not RoCE is passed over.
 *
 * No locks inside. Error texts are for the user: they name the file and what is wrong with it.
 */
#ifndef CAPTURE_READ_H
#define CAPTURE_READ_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/encap.h"
#include "wire/ip.h"

struct capture_reader;

/** A packet that was read. */
struct capture_rec {
	uint64_t number; /* of the frame in the file, from 1, all frames counted */
	uint64_t ts_ns;	 /* nanoseconds since 1970 */
	struct ip_udp ip;
	bool v1;	/* RoCEv1 */
	uint8_t extras; /* as encap_found's */
	/* An IP fragment. The first has the packet's beginning and is a packet like those that the
	 * capture cut; a later one, fragment_at not 0, is none. */
	bool fragment;
	uint32_t fragment_at; /* its place in UDP's bytes */
	unsigned early; /* of the first: later ones that came before it, and were passed over */
	bool offloaded; /* as udp_packet's */
	bool hides;	/* set by burst_each(): cut, or ICRC wrong, and perhaps a burst */
	const uint8_t *data; /* from the BTH on; borrowed until the next read or close */
	size_t len;	     /* bytes at data */
	size_t wire_len;     /* bytes on the wire; more than len: the capture cut the packet */
	const uint8_t *dmac; /* destination of the Ethernet header around it, 6 bytes; borrowed as
				data; NULL: there is none */
	uint32_t interface; /* where it was captured: pcapng's or Linux cooked v2's; 0: one alone */
	enum encap encap;
};

/**
 * Open the capture at path ("-": standard input).
 * Errors: -errno of open(), -EINVAL no capture or a link layer not known here, -ENOMEM; the text is
 * in errbuf.
 */
int capture_reader_open(struct capture_reader **out, const char *path, char *errbuf, size_t errlen);

/**
 * Capture at a network interface ("any": all of them).
 * Errors: -EACCES, -ENODEV, -EINVAL, -ENOMEM; the text is in errbuf.
 */
int capture_reader_open_live(struct capture_reader **out, const char *name, char *errbuf,
			     size_t errlen);

/** UDP ports to look for RoCEv2 at, in place of 4791 alone; 1 <= n <= ENCAP_PORTS. */
void capture_reader_ports(struct capture_reader *r, const uint16_t *ports, unsigned n);

/** The capture ends after this many frames, RoCEv2 or not. */
void capture_reader_limit(struct capture_reader *r, uint64_t frames);

/** Once *stop is not 0: live, the end; a file, its end as soon as a signal interrupts reading.
 * Borrowed. */
void capture_reader_stop_at(struct capture_reader *r, const volatile sig_atomic_t *stop);

/**
 * Read the next packet to one of the ports, or fragment of one.
 * @return 1 *rec is filled, 0 end of the file, 2 nothing came for a while (live only), -EIO the
 * file is damaged here (capture_reader_error()).
 */
int capture_next(struct capture_reader *r, struct capture_rec *rec);

/** Frames read so far, RoCEv2 or not. */
uint64_t capture_reader_frames(const struct capture_reader *r);

/** Frames that may be RoCEv2 and were not read. */
struct capture_passed {
	uint64_t cut;	     /* the capture has not all of the headers down to UDP's */
	uint64_t infiniband; /* native InfiniBand */
	uint64_t link;	     /* of a link layer that is not known here */
	uint32_t link_type;  /* the first of those */
};

struct capture_passed capture_reader_passed(const struct capture_reader *r);

/** "12 RoCEv2 packets"; v1 of them are RoCEv1's. As snprintf(). */
size_t capture_count_text(char *buf, size_t size, uint64_t packets, uint64_t v1);

/** "; 12 frames of native InfiniBand, ...": what they are and what to do; empty: there are none.
 * As snprintf(). */
size_t capture_passed_text(char *buf, size_t size, const struct capture_passed *p);

/** Frames that a live capture dropped for lack of room. */
uint64_t capture_reader_dropped(struct capture_reader *r);

/** The error text after -EIO; borrowed as long as the reader lives. */
const char *capture_reader_error(const struct capture_reader *r);

/** NULL is allowed. */
void capture_reader_close(struct capture_reader *r);

#endif
