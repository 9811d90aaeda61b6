/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The servers ib_write_bw, ib_read_bw and ib_atomic_bw of perftest: each answers what the client
 * tells by as many bytes, and its region is there until the connection ends.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "responder.h"

enum { TOLD = 108, BUFFER_LEN = 65536, MTU_AT = 3 };

/* What the client sends: version, cycle buffer, cache line, MTU, address, address once more. */
static const size_t steps[] = {16, 4, 4, 2, TOLD, TOLD};

struct perftest {
	int fd;
	unsigned access;
	unsigned step;
	size_t have;
	char text[TOLD + 1];
	uint32_t mtu;
	struct qp *qp; /* borrowed; qpn shows whether it is still the same */
	uint32_t qpn;
	struct region region;
};

struct perftest *perftest_new(int fd, unsigned access)
{
	struct perftest *p = calloc(1, sizeof(*p));

	if (!p) {
		close(fd);
		return NULL;
	}
	p->fd = fd;
	p->access = access;
	return p;
}

static void perftest_free(struct perftest *p)
{
	if (p->qp && p->qp->used && p->qp->qpn == p->qpn)
		qp_destroy(p->qp);
	close(p->fd);
	free(p);
}

static void ignore_receive(struct qp *qp, const struct receive *r, uint32_t len,
			   const struct rocemu_packet *p)
{
	(void)qp, (void)r, (void)len, (void)p;
}

static void ignore_request(struct qp *qp, const struct wr *wr)
{
	(void)qp, (void)wr;
}

static void ignore_end(struct qp *qp, bool recv, uint64_t id, enum ibv_wc_status status)
{
	(void)qp, (void)recv, (void)id, (void)status;
}

static void ignore_event(struct qp *qp, enum ibv_event_type event)
{
	(void)qp, (void)event;
}

/** Of "LID:READS:QPN:PSN:RKEY:ADDRESS:" and 16 bytes with colons between them. */
static bool read_address(const char *text, unsigned *qpn, unsigned *psn, struct rocemu_gid *gid)
{
	int at = 0;

	if (sscanf(text, "%*x:%*x:%6x:%6x:%*x:%*x%n", qpn, psn, &at) != 2 || !at)
		return false;
	for (unsigned i = 0; i < sizeof(gid->raw); i++, at += 3) {
		unsigned byte;

		if (sscanf(text + at, ":%2x", &byte) != 1)
			return false;
		gid->raw[i] = (uint8_t)byte;
	}
	return true;
}

static bool make_qp(struct perftest *p)
{
	struct rocemu_gid gid;
	unsigned qpn, psn;
	struct qp *qp;

	if (!read_address(p->text, &qpn, &psn, &gid))
		return false;
	qp = p->qp = qp_new(QP_RC, &gid, qpn);
	if (!qp)
		return false;
	p->qpn = qp->qpn;
	p->region = (struct region){.key = qp->qpn << 8,
				    .va = (uintptr_t)qp->buffer,
				    .len = BUFFER_LEN,
				    .access = p->access,
				    .at = qp->buffer};
	qp->region = &p->region;
	qp->regions = 1;
	qp->access = p->access;
	qp->mtu = p->mtu;
	qp->resp.epsn = psn;
	qp->resp.depth = 1;
	qp->app = (struct app){ignore_receive, ignore_request, ignore_end, ignore_event};
	return true;
}

/** The server's address in the place of the client's. */
static void tell_address(struct perftest *p)
{
	const struct rocemu_gid gid = net_gid();
	int n = snprintf(p->text, sizeof(p->text), "%04x:%04x:%06x:%06x:%08x:%016llx", 0, 1,
			 p->qp->qpn, 0, p->region.key, (unsigned long long)p->region.va);

	for (unsigned i = 0; i < sizeof(gid.raw); i++)
		n += snprintf(p->text + n, sizeof(p->text) - (size_t)n, ":%02x", gid.raw[i]);
	snprintf(p->text + n, sizeof(p->text) - (size_t)n, ":%08x:", 0);
}

/** A step's bytes are there: answer. @return false: the client is wrong, or gone. */
static bool answer(struct perftest *p)
{
	if (p->step == MTU_AT) {
		if (p->text[0] < '1' || p->text[0] > '5')
			return false;
		p->mtu = 128u << (p->text[0] - '0');
	} else if (steps[p->step] == TOLD) {
		if (!p->qp && !make_qp(p))
			return false;
		tell_address(p);
	}
	p->have = 0;
	return send(p->fd, p->text, steps[p->step++], MSG_NOSIGNAL) > 0;
}

bool perftest_ready(struct perftest *p)
{
	const size_t len = p->step < ARRAY_LEN(steps) ? steps[p->step] : sizeof(p->text) - 1;
	const ssize_t n = recv(p->fd, p->text + p->have, len - p->have, 0);
	bool good = n > 0 || (n < 0 && errno == EAGAIN);

	p->have += n > 0 ? (size_t)n : 0;
	if (good && p->have == len)
		good = p->step < ARRAY_LEN(steps) && answer(p);
	if (!good)
		perftest_free(p);
	return good;
}
