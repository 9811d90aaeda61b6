/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mapped buffers of a stream: the peer writes into them by an offset. A mapping is announced in the
 * peer's iomap table, up to the number of entries that the peer allows (option RDMA_IOMAPSIZE).
 */
#include <sys/mman.h>

#include "base/why.h"
#include "rsocket/stream.h"

static int64_t find_free(const struct stream *s)
{
	for (unsigned i = 0; i < s->peer_iomap.length; i++)
		if (!s->mapped[i].mr)
			return i;
	return -ENOSPC;
}

static bool overlaps(const struct stream *s, uint64_t offset, size_t len)
{
	for (unsigned i = 0; i < STREAM_IOMAPS; i++) {
		const struct stream_mapped *m = &s->mapped[i];

		if (m->mr && offset < m->offset + m->mr->length && m->offset < offset + len)
			return true;
	}
	return false;
}

/** Wait until one more control message can be sent. */
static int wait_for_ctrl(struct stream *s)
{
	while (s->state == STREAM_CONNECTED && s->ctrl_used >= STREAM_CTRL) {
		int ret = rs_wait(&s->rs, 0, 0, 1);

		if (ret < 0 && ret != -EAGAIN)
			return ret;
		stream_progress(s);
	}
	return s->state == STREAM_CONNECTED ? 0 : -ENOTCONN;
}

static int show(struct stream *s, unsigned index, bool gone)
{
	const struct stream_mapped *m = &s->mapped[index];
	const struct stream_iomap map = {
		.offset = m->offset,
		.sge = {.addr = (uintptr_t)m->mr->addr,
			.key = m->mr->rkey,
			.length = gone ? 0 : (uint32_t)m->mr->length},
	};
	int ret = wait_for_ctrl(s);

	return ret < 0 ? ret : stream_post_iomap(s, index, &map);
}

static int no_stream(const struct rs *rs)
{
	return REFUSE(
		-EOPNOTSUPP, (unsigned)rs->fd,
		"rsocket %d is a datagram socket: only streams have mapped memory: use SOCK_STREAM",
		rs->fd);
}

int64_t rs_iomap(struct rs *rs, void *buf, size_t len, int prot, int64_t offset)
{
	struct stream *s = stream_of(rs);
	struct stream_mapped *m;
	int64_t index;
	int ret;

	if (!rs_is_stream(rs))
		return no_stream(rs);
	if (s->state != STREAM_CONNECTED)
		return -ENOTCONN;
	if (!buf || len == 0 || len > UINT32_MAX || (prot != PROT_WRITE && prot != PROT_NONE))
		return REFUSE(-EINVAL, (unsigned)rs->fd,
			      "riomap: buf is %p, len %zu, prot 0x%x: len must be 1 to 2^32 - 1, "
			      "prot PROT_WRITE or PROT_NONE: change them",
			      buf, len, (unsigned)prot);
	if (offset == -1)
		offset = (int64_t)(uintptr_t)buf;
	if (offset < 0 || overlaps(s, (uint64_t)offset, len))
		return REFUSE(-EINVAL, (unsigned)rs->fd,
			      "riomap: offset is %lld, len %zu: it must not be negative, and "
			      "mappings must not overlap: choose another, or -1",
			      (long long)offset, len);
	index = find_free(s);
	if (index < 0)
		return index;
	m = &s->mapped[index];
	m->offset = (uint64_t)offset;
	m->mr = ibv_reg_mr(s->id->pd, buf, len,
			   prot == PROT_WRITE ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
					      : 0);
	if (!m->mr)
		return -errno;
	ret = prot == PROT_WRITE ? show(s, (unsigned)index, false) : 0;
	if (ret < 0) {
		ibv_dereg_mr(m->mr);
		m->mr = NULL;
		return ret;
	}
	m->shown = prot == PROT_WRITE;
	return offset;
}

int rs_iounmap(struct rs *rs, void *buf, size_t len)
{
	struct stream *s = stream_of(rs);

	if (!rs_is_stream(rs))
		return no_stream(rs);
	for (unsigned i = 0; i < STREAM_IOMAPS; i++) {
		struct stream_mapped *m = &s->mapped[i];

		if (!m->mr || m->mr->addr != buf || m->mr->length != len)
			continue;
		if (m->shown && s->state == STREAM_CONNECTED)
			show(s, i, true); /* a peer that is gone needs no message */
		ibv_dereg_mr(m->mr);
		*m = (struct stream_mapped){0};
		return 0;
	}
	return REFUSE(
		-EINVAL, (unsigned)rs->fd,
		"riounmap: buf is %p, len %zu: no mapping has both: pass the values of riomap()",
		buf, len);
}

/** The peer's mapping that has the offset. */
static bool find_target(const struct stream *s, uint64_t offset, struct stream_sge *at)
{
	for (unsigned i = 0; i < MIN(s->rs.set.iomap_size, (uint32_t)STREAM_IOMAPS); i++) {
		const struct stream_iomap *map = &s->target->iomap[i];

		if (offset < map->offset || offset - map->offset >= map->sge.length)
			continue;
		*at = map->sge;
		at->addr += offset - map->offset;
		at->length -= (uint32_t)(offset - map->offset);
		return true;
	}
	return false;
}

ssize_t rs_iowrite(struct rs *rs, const void *buf, size_t len, int64_t offset, int flags)
{
	struct stream *s = stream_of(rs);
	const uint8_t *data = buf;
	struct stream_sge at;
	size_t done = 0;
	ssize_t ret;

	if (!rs_is_stream(rs))
		return no_stream(rs);
	while (done < len) {
		stream_progress(s);
		if (s->state != STREAM_CONNECTED || !s->writable)
			return done ? (ssize_t)done : -ENOTCONN;
		if (!stream_can_send(s)) {
			ret = rs_wait(rs, POLLOUT, flags, -1);
			if (ret < 0)
				return done ? (ssize_t)done : ret;
			continue;
		}
		if (offset < 0 || !find_target(s, (uint64_t)offset + done, &at))
			return done ? (ssize_t)done
				    : REFUSE(-EINVAL, (unsigned)rs->fd,
					     "riowrite: offset is %lld: the peer has no mapping "
					     "there: it has to call riomap() before",
					     (long long)offset);
		ret = stream_post_write(s, data + done, MIN(len - done, (size_t)at.length), at.addr,
					at.key);
		if (ret < 0)
			return done ? (ssize_t)done : ret;
		done += (size_t)ret;
	}
	return (ssize_t)done;
}
