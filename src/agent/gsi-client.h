/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent's side of a client of connection management: its number, its second socket with the
 * queue behind it, and its bindings and exit MADs. A client that does not read costs at most a full
 * queue: further frames are dropped and counted, and no other client waits.
 */
#ifndef AGENT_GSI_CLIENT_H
#define AGENT_GSI_CLIENT_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/gsi-frame.h"
#include "base/list.h"
#include "base/share.h"

struct gsi;
struct client;

/* Frames behind what the socket's buffer holds; of one source half as many. */
enum { GSI_QUEUE_MAX = 4096 };

struct gsi_client {
	struct gsi *gsi;     /* borrowed */
	struct client *conn; /* borrowed: closing it ends the member */
	uint16_t number;
	int fd;		      /* owned: the agent's end of the second socket */
	ev_io reader, writer; /* the writer runs while something is queued */
	struct list queue;    /* of queued frames, oldest first */
	unsigned queued;
	struct share shares;   /* of the queue, by source */
	struct list ports;     /* of gsi_port.of_client */
	struct list exit_mads; /* of gsi_exit_mad.node */
	unsigned nports, nexits, naddrs;
	uint64_t delivered, dropped;
};

/** May a new client get the number? False while exit MADs with it are being sent. */
bool gsi_number_is_free(const struct gsi *gsi, unsigned number);

/**
 * Make a member of a connection. *client_fd: the client's end of the second socket, the caller's.
 * @return 0, -ENOMEM, -EMFILE, ...
 */
int gsi_client_new(struct gsi *gsi, struct client *conn, uint16_t number, int *client_fd);

/** Watch its socket again. */
void gsi_client_watch(struct gsi_client *m);

/** Read the frames that the client sent before its end. */
void gsi_client_drain(struct gsi_client *m);
/** For gsi_end_client(). */
void gsi_client_free(struct gsi_client *m);

/** Send it a MAD: GSI_FRAME_MAD or GSI_FRAME_SENT. */
void gsi_client_deliver(struct gsi_client *m, enum gsi_frame_type type, const struct gsi_mad *mad);
/** Notify it that its request did not reach its destination. */
void gsi_client_unreachable(struct gsi_client *m, uint32_t comm_id, int error);

#endif
