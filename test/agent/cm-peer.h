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

#include "agent/client-cm.h"
#include "peer.h"

enum { PATIENCE_MS = 20000 };

struct cm_peer {
	struct peer process;
	uint16_t number;
	uint16_t sport;		   /* of the last address opened */
	char text[AGENT_TEXT_MAX]; /* of the last call */
};

/** A message with its addresses. */
struct cm_mail {
	struct rocemu_gid src, dst;
	uint16_t sport;
	uint8_t tclass, hop_limit;
	struct rocemu_cm_msg m;
	uint8_t bytes[AGENT_CM_DGRAM_LEN];
};

/** Fork a process, uid 0: as we are, and have it join, with success. */
struct cm_peer cm_peer_start(void);
/** As cm_peer_start(), and it has opened an address. */
struct cm_peer cm_peer_start_at(const struct rocemu_gid *addr);
/** As cm_peer_start(), for a user; *r is what joining returned. */
struct cm_peer cm_peer_start_as(uid_t uid, int *r);
/** SIGKILL it and reap it. */
void cm_peer_kill(struct cm_peer *p);
/** Have it close its connection and end. */
void cm_peer_leave(struct cm_peer *p);

int cm_peer_open(struct cm_peer *p, const struct rocemu_gid *addr);
int cm_peer_bind(struct cm_peer *p, struct agent_cm_bind *b, uint32_t *key);
int cm_peer_listen(struct cm_peer *p, uint32_t key);
int cm_peer_unbind(struct cm_peer *p, uint32_t key);
/** Bind and listen; with success. @return the key. */
uint32_t cm_peer_listen_on(struct cm_peer *p, uint64_t service_id, const struct rocemu_gid *addr);
int cm_peer_send(struct cm_peer *p, const struct cm_mail *mail);
/** Have the bytes sent as they are. */
int cm_peer_send_bytes(struct cm_peer *p, const struct cm_mail *mail);
int cm_peer_will(struct cm_peer *p, uint32_t comm_id, const struct cm_mail *mail,
		 uint8_t cm_timeout, uint8_t retries);
int cm_peer_will_clear(struct cm_peer *p, uint32_t comm_id);
enum { CM_PEER_UNREACHED = 1000 };
/** Wait for a datagram. @return 1, or what cm_client_recv() did; 0: none came in 20 s;
 * CM_PEER_UNREACHED + errno: a request of its own did not arrive. */
int cm_peer_recv(struct cm_peer *p, struct cm_mail *mail);
/** Is one there now? */
int cm_peer_recv_now(struct cm_peer *p, struct cm_mail *mail);
/** The same in two steps, for what another process must do in between. */
void cm_peer_send_recv_now(struct cm_peer *p);
int cm_peer_reply(struct cm_peer *p, struct cm_mail *mail);
/** Call from a child that it forks. */
int cm_peer_fork_and_call(struct cm_peer *p);
/** Have it fork a child that forgets and lives on, holding nothing. */
int cm_peer_fork_and_forget(struct cm_peer *p);

/** Bind a UDP socket to port 4791 of an address that no agent has. */
int wire_open(const struct rocemu_gid *addr);
/** Send a message to QP 1 of mail->dst from the wire at mail->src. */
void wire_send(int fd, const struct cm_mail *mail);
void wire_send_bytes(int fd, const struct rocemu_gid *dst, const uint8_t *data, size_t len);
/** Wait for a message and check all there is to its packet. */
void wire_recv(int fd, const struct rocemu_gid *addr, struct cm_mail *mail);
/** Nothing is there. */
void wire_assert_silent(int fd);

/** Put the packet of mail->m into mail->bytes. */
void mail_seal(struct cm_mail *mail);

/** The agent's counter. */
uint64_t cm_counter(enum agent_cm_counter which);
/** Frames that wait for the client of that number. */
uint32_t cm_queued(uint16_t number);
/** Wait until a counter has at least that value. */
void cm_wait_counter(enum agent_cm_counter which, uint64_t value);

/* Messages; IDs as their sender sees them. */
struct cm_mail mail_req(const struct rocemu_gid *src, const struct rocemu_gid *dst, uint32_t id,
			uint64_t service_id);
struct cm_mail mail_sidr_req(const struct rocemu_gid *src, const struct rocemu_gid *dst,
			     uint32_t id, uint64_t service_id);
/** Any message that has a local and a remote ID. */
struct cm_mail mail_ids(const struct rocemu_gid *src, const struct rocemu_gid *dst,
			enum rocemu_cm_attr attr, uint32_t local_id, uint32_t remote_id);

#endif
