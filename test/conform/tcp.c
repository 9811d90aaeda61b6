/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The exchange of ibv_*_pingpong's servers: the client's address as text with its terminating zero,
 * then the server's. What the client sends then only ends the connection.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "responder.h"

enum {
	CLIENTS = 64,
	TEXT = sizeof("0000:000000:000000:00000000000000000000000000000000"),
	SIZE = 4096,
	UD_SIZE = 1024,
	UD_QKEY = 0x11111111,
};

static struct {
	int fd;
	int kind; /* enum qp_kind, or TCP_* */
} server[TCP_SERVERS];
static unsigned servers;

static struct client {
	int fd;
	int kind;
	struct peer *peer;	   /* owned, of TCP_PEER */
	struct perftest *perftest; /* owned, of TCP_WRITE_BW and its like */
	char text[TEXT];
	size_t have;
	bool answered;
} client[CLIENTS];
static unsigned clients;

int tcp_open(int kind, uint16_t port)
{
	const int fd = net_listen(port);

	if (fd < 0)
		return fd;
	server[servers].fd = fd;
	server[servers++].kind = kind;
	return 0;
}

unsigned tcp_poll(struct pollfd *p)
{
	unsigned n = 0;

	for (unsigned i = 0; i < servers && clients < CLIENTS; i++)
		p[n++] = (struct pollfd){.fd = server[i].fd, .events = POLLIN};
	for (unsigned i = 0; i < clients; i++)
		p[n++] = (struct pollfd){.fd = client[i].fd, .events = POLLIN};
	return n;
}

static bool read_gid(const char *text, struct rocemu_gid *gid)
{
	for (unsigned i = 0; i < sizeof(gid->raw); i++) {
		unsigned byte;

		if (sscanf(text + 2 * i, "%2x", &byte) != 1)
			return false;
		gid->raw[i] = (uint8_t)byte;
	}
	return true;
}

static void gid_text(char *to)
{
	const struct rocemu_gid gid = net_gid();

	for (unsigned i = 0; i < sizeof(gid.raw); i++)
		snprintf(to + 2 * i, 3, "%02x", gid.raw[i]);
}

static struct qp *connected(const struct client *c)
{
	unsigned lid, qpn, psn;
	char gid_hex[33];
	struct rocemu_gid gid;
	struct qp *qp;

	if (sscanf(c->text, "%4x:%6x:%6x:%32s", &lid, &qpn, &psn, gid_hex) != 4 ||
	    strlen(gid_hex) != 32 || !read_gid(gid_hex, &gid))
		return NULL;
	qp = qp_new((enum qp_kind)c->kind, &gid, qpn);
	if (!qp)
		return NULL;
	qp->resp.epsn = psn;
	qp->req.psn = qp->req.una = qp->req.next = qp->req.end =
		(uint32_t)(net_now() >> 10) & ROCEMU_PSN_MASK;
	if (c->kind == QP_UD) {
		qp->mtu = DEVICE_MTU;
		qp->qkey = UD_QKEY;
	}
	pingpong_start(qp, c->kind == QP_UD ? UD_SIZE : SIZE);
	return qp;
}

/** @return false: the connection has ended. */
static bool answer(struct client *c)
{
	const struct qp *qp = connected(c);
	char text[TEXT], gid[33];

	if (!qp)
		return false;
	gid_text(gid);
	snprintf(text, sizeof(text), "%04x:%06x:%06x:%s", 0, qp->qpn, qp->req.psn, gid);
	c->answered = true;
	return send(c->fd, text, sizeof(text), MSG_NOSIGNAL) == sizeof(text);
}

/** @return false: the connection has ended. */
static bool client_ready(struct client *c)
{
	char rest[TEXT];
	ssize_t n;

	if (c->answered) {
		n = recv(c->fd, rest, sizeof(rest), 0);
		return n < 0 && errno == EAGAIN;
	}
	n = recv(c->fd, c->text + c->have, sizeof(c->text) - c->have, 0);
	if (n <= 0)
		return n < 0 && errno == EAGAIN;
	c->have += (size_t)n;
	c->text[sizeof(c->text) - 1] = '\0';
	return c->have < sizeof(c->text) || answer(c);
}

/** @return false: no memory; the connection is closed. */
static bool begin(struct client *c)
{
	static const unsigned access[TCP_SERVERS] = {[TCP_WRITE_BW] = IBV_ACCESS_REMOTE_WRITE,
						     [TCP_READ_BW] = IBV_ACCESS_REMOTE_READ,
						     [TCP_ATOMIC_BW] = IBV_ACCESS_REMOTE_ATOMIC};

	if (c->kind == TCP_PEER)
		return (c->peer = peer_new(c->fd));
	return !access[c->kind] || (c->perftest = perftest_new(c->fd, access[c->kind]));
}

static void accept_from(unsigned i)
{
	while (clients < CLIENTS) {
		const int fd = accept4(server[i].fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0)
			return;
		client[clients] = (struct client){.fd = fd, .kind = server[i].kind};
		clients += begin(&client[clients]);
	}
}

void tcp_ready(void)
{
	for (unsigned i = 0; i < servers; i++)
		accept_from(i);
	for (unsigned i = clients; i-- > 0;) {
		struct client *c = &client[i];

		if (c->peer	  ? peer_ready(c->peer)
		    : c->perftest ? perftest_ready(c->perftest)
				  : client_ready(c))
			continue;
		if (!c->peer && !c->perftest)
			close(c->fd);
		client[i] = client[--clients];
	}
}
