/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Clients of connection management for the agent's tests: processes that are driven one call at a
 * time; and "the wire", a plain UDP socket that plays another host's connection manager.
 */
#ifndef TEST_AGENT_CM_PEER_H
#define TEST_AGENT_CM_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <rocemu/cm.h>

#include "agent/client-gsi.h"
#include "peer.h"

enum { PATIENCE_MS = 20000 };

struct gsi_peer {
	struct peer process;
	uint16_t number;
	char text[AGENT_TEXT_MAX]; /* of the last call */
};

/** A message with its addresses. */
struct gsi_mail {
	struct rocemu_gid src, dst;
	uint16_t sport;
	uint8_t tclass, hop_limit;
	struct rocemu_cm_msg m;
	bool echo;	    /* to send: the agent returns it */
	struct gsi_mad mad; /* as received, or as made by mail_seal() */
	uint8_t bytes[GSI_PACKET_LEN];
};

/** Fork a process, uid 0: as we are, and have it join, with success. */
struct gsi_peer gsi_peer_start(void);
/** As gsi_peer_start(), and it has opened an address. */
struct gsi_peer gsi_peer_start_at(const struct rocemu_gid *addr);
/** As gsi_peer_start(), for a user; *r is what joining returned. */
struct gsi_peer gsi_peer_start_as(uid_t uid, int *r);
/** SIGKILL it and reap it. */
void gsi_peer_kill(struct gsi_peer *p);
/** Have it close its connection and end. */
void gsi_peer_leave(struct gsi_peer *p);

int gsi_peer_open(struct gsi_peer *p, const struct rocemu_gid *addr);
int gsi_peer_bind(struct gsi_peer *p, struct agent_gsi_bind *b, uint32_t *key);
int gsi_peer_listen(struct gsi_peer *p, uint32_t key);
int gsi_peer_unbind(struct gsi_peer *p, uint32_t key);
/** Bind and listen; with success. @return the key. */
uint32_t gsi_peer_listen_on(struct gsi_peer *p, uint64_t service_id, const struct rocemu_gid *addr);
int gsi_peer_send(struct gsi_peer *p, const struct gsi_mail *mail);
/** Have mail->mad sent as it is. */
int gsi_peer_send_mad(struct gsi_peer *p, const struct gsi_mail *mail);
int gsi_peer_set_exit(struct gsi_peer *p, uint32_t comm_id, const struct gsi_mail *mail,
		      uint8_t cm_timeout, uint8_t retries);
int gsi_peer_clear_exit(struct gsi_peer *p, uint32_t comm_id);
enum { GSI_PEER_UNREACHABLE = 1000, GSI_PEER_LOST_PORT = 2000 };
/** Wait for a MAD. @return 1, or what agent_gsi_recv() did; 0: none came in 20 s;
 * GSI_PEER_UNREACHABLE + errno: a request of its own did not arrive; GSI_PEER_LOST_PORT:
 * agent_gsi_join() could not have a port again. */
int gsi_peer_recv(struct gsi_peer *p, struct gsi_mail *mail);
/** Is one there now? */
int gsi_peer_recv_now(struct gsi_peer *p, struct gsi_mail *mail);
/** The same in two steps, for what another process must do in between. */
void gsi_peer_send_recv_now(struct gsi_peer *p);
int gsi_peer_reply(struct gsi_peer *p, struct gsi_mail *mail);
/** Call from a child that it forks. */
int gsi_peer_fork_and_call(struct gsi_peer *p);
/** Make it fork a child that calls agent_gsi_forget() and keeps running. */
int gsi_peer_fork_and_forget(struct gsi_peer *p);

/** Bind a UDP socket to port 4791 of an address that no agent has. */
int wire_open(const struct rocemu_gid *addr);
/** Send a message to QP 1 of mail->dst from the wire at mail->src. */
void wire_send(int fd, const struct gsi_mail *mail);
void wire_send_bytes(int fd, const struct rocemu_gid *dst, const uint8_t *data, size_t len);
/** Wait for a message and check all there is to its packet. */
void wire_recv(int fd, const struct rocemu_gid *addr, struct gsi_mail *mail);
/** Wait for a packet of a MAD's length, whatever it is. */
void wire_recv_bytes(int fd, uint8_t packet[static GSI_PACKET_LEN]);
/** Nothing is there. */
void wire_assert_silent(int fd);

/** Fill in mail->mad and mail->bytes from mail->m. */
void mail_seal(struct gsi_mail *mail);

/** The agent's counter. */
uint64_t gsi_counter(enum agent_gsi_counter which);
/** Frames that wait for the client of that number. */
uint32_t gsi_queued(uint16_t number);
/** Wait until a counter has at least that value. */
void gsi_wait_counter(enum agent_gsi_counter which, uint64_t value);

/* Messages; IDs as their sender sees them. */
struct gsi_mail mail_req(const struct rocemu_gid *src, const struct rocemu_gid *dst, uint32_t id,
			 uint64_t service_id);
struct gsi_mail mail_sidr_req(const struct rocemu_gid *src, const struct rocemu_gid *dst,
			      uint32_t id, uint64_t service_id);
/** Any message that has a local and a remote ID. */
struct gsi_mail mail_ids(const struct rocemu_gid *src, const struct rocemu_gid *dst,
			 enum rocemu_cm_attr attr, uint32_t local_id, uint32_t remote_id);

#endif
