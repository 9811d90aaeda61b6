/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transmit sockets of a lane. The receive sockets are bound to port 4791, but a RoCEv2 packet's
 * source port is its flow's entropy (0xc000-0xffff), and the ICRC covers it. So each (address,
 * source port) gets a socket of its own: unconnected and don't-fragment, so that the IPv4
 * identification is 0, blocking, so that a full queue pushes back, and dropping all input. At most
 * TXSOCK_PER_ADDRESS per address; flows beyond share them.
 *
 * Peers attribute packets from that port to this flow. Any user may send from any address of the
 * machine, as long as the port is free at some address (IP_PKTINFO chooses the source). So a second
 * socket holds the port at the wildcard address: then no other user can bind it.
 *
 * Owner: the lane; to be used with its lock held.
 */
#ifndef ENGINE_TXSOCK_H
#define ENGINE_TXSOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rocemu/endpoint.h>

enum { TXSOCK_PER_ADDRESS = 16 };

struct txsock {
	int fd;
	int guard;		   /* holds the port at all other addresses; -1: there is none */
	uint16_t want;		   /* the port it was opened for */
	uint16_t port;		   /* the one it got */
	uint8_t tclass, hop_limit; /* the socket's defaults; others take control messages */
	uint16_t segment;	   /* its UDP_SEGMENT; 0: a message is one datagram */
	uint16_t segment_wanted;   /* the one that messages lately needed in its place */
	uint8_t segment_score;	   /* how many did, less those for which segment was right */
	uint8_t max_segments;	   /* of a burst, since longer ones were refused; 1: no bursts */
	bool no_labels;		   /* IPv6 flow labels were refused here */
};

/** The sockets of one address. */
struct txsock_set {
	struct rocemu_gid gid;
	uint32_t scope_id; /* for link-local addresses, else 0 */
	unsigned ifindex;  /* of the interface that multicast leaves by; 0: the kernel's choice */
	unsigned count;
	struct txsock sock[TXSOCK_PER_ADDRESS];
};

void txsock_set_init(struct txsock_set *set, const struct rocemu_gid *gid, uint32_t scope_id,
		     unsigned ifindex);
/** Close the sockets. */
void txsock_set_fini(struct txsock_set *set);

/**
 * The socket for a path whose sgid is the set's: the one for its port, else a new one (on the port
 * or the next one free), else, when the set is full, one of the others. Its port is the path's
 * actual source port.
 * @return NULL: none could be opened; *err is a negative errno then.
 */
struct txsock *txsock_find(struct txsock_set *set, const struct rocemu_path *path, int *err);

/**
 * A message of len bytes is to be sent in segments of gso_size bytes; 0: as one datagram.
 * @return true: it needs a control message UDP_SEGMENT with gso_size; false: it is sent so without
 * one, which costs a twentieth less of a small message's latency.
 */
bool txsock_needs_segment(struct txsock *s, uint16_t gso_size, size_t len);
/**
 * Messages were sent, and the next ones are not built yet: make the segment size that most of them
 * need the socket's own.
 */
void txsock_messages_sent(struct txsock *s);
/** A message was refused. @return true: the socket had a segment size, and has none now: try again.
 */
bool txsock_drop_segment(struct txsock *s);

#endif
