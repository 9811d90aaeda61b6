/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transmit sockets of a lane. The receive sockets are bound to port 4791, but a RoCEv2 packet's
 * source port is its flow's entropy (0xc000-0xffff), and the ICRC covers it. So each (address,
 * source port) gets a socket of its own: don't-fragment, so that the IPv4 identification is 0,
 * blocking, so that a full queue pushes back, and dropping all input. At most TXSOCK_PER_ADDRESS
 * per address; flows beyond share them.
 *
 * A socket whose messages mostly go to one peer is connected to it; messages to others have a
 * destination address. By IPv6, any peer. By IPv4, a connected socket's packets have
 * identifications that count (ipid.h). The ICRC covers them, and a receiver without an expectation
 * checks 16 bits instead of 25 (transport/drive.c). So the peer is the socket's own address only:
 * what goes there does not leave the memory of this machine. And only a socket connects all of
 * whose first messages went there, because receivers hold a sender to the identifications that it
 * had.
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

#include "netdev/addr.h"

enum { TXSOCK_PER_ADDRESS = 16 };

struct txsock_peer {
	struct rocemu_gid gid;
	uint32_t flow_label; /* of IPv6 */
};

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
	uint8_t peer_score;	   /* messages to peer_wanted, less those to peer */
	bool no_labels;		   /* IPv6 flow labels were refused here */
	bool connected;
	bool no_connect;	 /* that was refused here, or, by IPv4, is over */
	bool counts;		 /* the identifications of its packets count: connected by IPv4 */
	uint16_t next_id;	 /* of the next message's first packet then */
	struct txsock_peer peer; /* it is connected to this one */
	struct txsock_peer peer_wanted; /* messages lately went to this one instead */
};

/** Sockets of one address. */
struct txsock_set {
	struct rocemu_gid gid;
	uint32_t scope_id;  /* for link-local addresses, else 0 */
	unsigned ifindex;   /* of the interface that multicast leaves by; 0: the kernel's choice */
	bool own_interface; /* unicast leaves by it, too, where the kernel allows it */
	bool no_count;	    /* identifications must not count: packets that are ready are sent */
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
 * A message is to be sent to a path's destination. @return true: the socket is connected to it, and
 * the message needs no address. Then the kernel keeps the route, a tenth of a small message's time.
 */
bool txsock_is_connected(const struct txsock_set *set, struct txsock *s,
			 const struct rocemu_path *path);
/** The address of a path's destination. @return its length. */
socklen_t txsock_address(const struct txsock_set *set, const struct txsock *s,
			 const struct rocemu_path *path, union addr *to);
/**
 * The IPv4 identification of the first packet of the nth next message, n from 0. The others of its
 * burst count on from there.
 */
static inline uint16_t txsock_id(const struct txsock *s, unsigned n)
{
	return s->counts ? (uint16_t)(s->next_id + n) : 0;
}
/**
 * n messages were sent, and the next ones are not built yet: make the segment size and the
 * destination that most of them need the socket's own.
 */
void txsock_messages_sent(const struct txsock_set *set, struct txsock *s, unsigned n);
/**
 * The identifications of the next messages are to be 0, or it is not certain how far the kernel has
 * counted: an IPv4 socket gives up its peer.
 */
void txsock_stop_counting(struct txsock *s);
/**
 * A message was refused: the socket gives up its segment size and its peer, since they may be the
 * reason. A connected socket returns each of the peer's ICMP errors in place of sending a message.
 * @return true: it had one of them: try again.
 */
bool txsock_make_plain(struct txsock *s);

#endif
