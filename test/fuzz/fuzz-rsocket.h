/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The language of fuzz-rsocket's inputs, and the adapter that is none under the sockets. The first
 * byte: bit 0 a datagram socket, bit 1 IPv6, bit 2 connected. A stream's input goes on with 40
 * bytes of connection data. Then come commands, a byte each (modulo their number), each followed by
 * its bytes; what the input does not have is 0.
 */
#ifndef TEST_FUZZ_RSOCKET_H
#define TEST_FUZZ_RSOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum { FUZZ_RS_DGRAM = 1, FUZZ_RS_V6 = 2, FUZZ_RS_CONNECTED = 4 };

enum fuzz_rs_stream {
	FUZZ_RS_WORD,	  /* 4 bytes of immediate data came */
	FUZZ_RS_DATA,	  /* so many bytes of data: 2 bytes, modulo what may come */
	FUZZ_RS_CREDIT,	  /* so many messages more than were sent */
	FUZZ_RS_TARGET,	  /* the peer writes into the local table: place (2), 16 bytes */
	FUZZ_RS_BAD_RECV, /* a receive completes: status; 0: without immediate data */
	FUZZ_RS_DONE,	  /* sends complete: how many, status */
	FUZZ_RS_RECV,	  /* the program: length (2), flags */
	FUZZ_RS_SEND,	  /* length (2) */
	FUZZ_RS_IOWRITE,  /* offset (2), length (2) */
	FUZZ_RS_IOMAP,	  /* which, offset */
	FUZZ_RS_SHUTDOWN, /* how */
	FUZZ_RS_TICK,
	FUZZ_RS_STREAM_COMMANDS,
};

enum fuzz_rs_dgram {
	FUZZ_RS_UDP,	  /* from whom, at which address, length, bytes */
	FUZZ_RS_UDP_GOOD, /* from whom, at which address, operation, QPN (3), length */
	FUZZ_RS_UD,	  /* length, bytes */
	FUZZ_RS_UD_GOOD,  /* from whom, QPN, length */
	FUZZ_RS_UD_BAD,	  /* status */
	FUZZ_RS_UD_DONE,  /* how many sends, status */
	FUZZ_RS_UD_RECV,  /* length, flags */
	FUZZ_RS_UD_SEND,  /* to whom, length (2) */
	FUZZ_RS_UD_CONNECT,
	FUZZ_RS_DGRAM_COMMANDS,
};

/* ---- fuzz-rsocket-fake.c: verbs, rdma_cm and UDP driven by the input ---- */

void fake_reset(bool v6);
/** Whose queues (of the QPs that there are) the next two are about. */
void fake_select(unsigned which);
/** A receive that is posted, completed with this; false: there is none. data goes to its buffer. */
bool fake_recv(unsigned status, bool has_imm, uint32_t imm, const void *data, size_t len,
	       uint32_t src_qp);
/** Sends that are posted, completed. */
void fake_complete(unsigned count, unsigned status);
/** A UDP datagram; at: where it was sent to. It is there for the next recvmsg(). */
void fake_udp(unsigned from, unsigned at, const void *data, size_t len);
/** One of four addresses with ports, of the family. */
socklen_t fake_addr(unsigned which, struct sockaddr_storage *out);

#endif
