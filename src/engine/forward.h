/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams that the kernel gave to the wrong lane (GRO merged packets of two QPs that share a
 * source port), handed to the lane of their slot over an abstract Unix datagram socket, with the
 * addresses they came from. One message carries a run of equal segments, only the last may be
 * shorter, as GRO merged them.
 *
 * What comes in is taken from processes of the same user only, and even so parsed as hostile input.
 */
#ifndef ENGINE_FORWARD_H
#define ENGINE_FORWARD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <rocemu/wire.h>

enum { FORWARD_HDR_LEN = 48 };

struct forward_hdr {
	struct rocemu_gid src, dst;
	uint16_t sport;
	uint16_t seg_len; /* not 0 */
	uint16_t ip_id;	  /* guess for the first segment; the following count on */
	uint8_t tclass, hop_limit;
	uint32_t flow_label;
};

void forward_encode(const struct forward_hdr *h, uint8_t buf[FORWARD_HDR_LEN]);
/** @return 0, or -EBADMSG: not such a message. */
int forward_decode(struct forward_hdr *h, const uint8_t *buf, size_t len);

/** The socket that takes what is for a slot. @return a non-blocking file descriptor, or -errno. */
int forward_open(uint16_t slot);

/** Hand data[0..len) to the lane of slot, through the sender's own forward socket. 0 or -errno. */
int forward_send(int fd, uint16_t slot, const struct forward_hdr *h, const uint8_t *data,
		 size_t len);

/**
 * Take one message: its header to *h, its data to buf, which has room for size bytes.
 * @return bytes of data (> 0), -EAGAIN nothing there, -EPERM or -EBADMSG a message that was thrown
 * away, other -errno.
 */
ssize_t forward_recv(int fd, struct forward_hdr *h, uint8_t *buf, size_t size);

#endif
