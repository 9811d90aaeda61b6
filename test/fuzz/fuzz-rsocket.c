/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a peer can do to an rsocket: any connection data, words and completions, any bytes in the
 * table that it writes to; any UDP datagram and any message on the UD QP. Whatever comes, no byte
 * outside of the socket's memory is read or written, and the books balance.
 */
#include "driver.h"

#include <string.h>
#include <sys/mman.h>

#include "base/bytes.h"
#include "fuzz-rsocket.h"
#include "rsocket/dgram.h"
#include "rsocket/stream.h"

enum { QUEUE = 16, BUFFER = 4096, IOMAPS = 4, LONGEST = 6000, MOST_COMMANDS = 150 };

static const struct rs_settings small = {.sqsize = QUEUE,
					 .rqsize = QUEUE,
					 .sndbuf = BUFFER,
					 .rcvbuf = BUFFER,
					 .inline_size = 64,
					 .iomap_size = IOMAPS};

struct input {
	const uint8_t *p;
	size_t left;
};

static uint8_t byte(struct input *in)
{
	if (in->left == 0)
		return 0;
	in->left--;
	return *in->p++;
}

static uint32_t number(struct input *in, int bytes)
{
	uint32_t n = 0;

	while (bytes-- > 0)
		n = n << 8 | byte(in);
	return n;
}

static void bytes(struct input *in, uint8_t *out, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = byte(in);
}

static uint8_t memory[LONGEST];

/* ---- streams ---- */

static void check_stream(const struct stream *s)
{
	FUZZ_CHECK(s->r_ready <= BUFFER && s->r_given <= BUFFER && s->r_consumed <= BUFFER);
	FUZZ_CHECK(s->r_ready + s->r_given + s->r_consumed == BUFFER);
	FUZZ_CHECK(s->r_at < BUFFER && s->r_next < BUFFER && s->l_count <= s->l_size);
	FUZZ_CHECK(s->s_used <= BUFFER && s->s_at < BUFFER);
	FUZZ_CHECK(s->data_used <= QUEUE && s->ctrl_used <= STREAM_CTRL + 1);
	FUZZ_CHECK(s->target_at < STREAM_SGL && s->peer_sgl_at < s->peer_sgl.length);
	FUZZ_CHECK(s->peer_iomap.length <= STREAM_IOMAPS);
}

static void call_recv(struct rs *rs, size_t len, int flags)
{
	struct iovec iov[2] = {{memory, len / 3}, {memory + len / 3, len - len / 3}};
	struct sockaddr_storage from;
	socklen_t from_len;
	ssize_t n = rs->ops->recv(rs, iov, 2, flags | MSG_DONTWAIT, &from, &from_len);

	FUZZ_CHECK(n <= (ssize_t)len || (rs->type == SOCK_DGRAM && (flags & MSG_TRUNC)));
	if (n >= 0 && rs->type == SOCK_DGRAM)
		FUZZ_CHECK(from.ss_family == rs->domain);
}

static void call_send(struct rs *rs, size_t len, const struct sockaddr *to, socklen_t to_len)
{
	const struct iovec iov[2] = {{memory, len / 3}, {memory + len / 3, len - len / 3}};
	ssize_t n = rs->ops->send(rs, iov, 2, MSG_DONTWAIT, to, to_len);

	FUZZ_CHECK(n <= (ssize_t)len);
}

static void write_target(struct stream *s, struct input *in)
{
	const size_t at = number(in, 2) % sizeof(*s->target);
	uint8_t piece[16];

	bytes(in, piece, sizeof(piece));
	memcpy((uint8_t *)s->target + at, piece, MIN(sizeof(piece), sizeof(*s->target) - at));
}

/** The address contains nothing local: all of it is the peer's. */
static void map(struct rs *rs, uint8_t which, uint8_t offset)
{
	uint8_t *at = memory + (which & 3) * 1000;

	if (which & 4)
		rs_iounmap(rs, at, 1000);
	else
		rs_iomap(rs, at, 1000, PROT_WRITE, offset);
}

static void stream_command(struct stream *s, struct input *in)
{
	struct rs *rs = &s->rs;
	uint32_t a, b;

	switch (byte(in) % FUZZ_RS_STREAM_COMMANDS) {
	case FUZZ_RS_WORD:
		fake_recv(IBV_WC_SUCCESS, true, number(in, 4), NULL, 0, 0);
		break;
	case FUZZ_RS_DATA:
		fake_recv(IBV_WC_SUCCESS, true, number(in, 2) % (s->r_given + 2), NULL, 0, 0);
		break;
	case FUZZ_RS_CREDIT:
		fake_recv(IBV_WC_SUCCESS, true, 4u << 29 | (uint16_t)(s->sseq + byte(in)), NULL, 0,
			  0);
		break;
	case FUZZ_RS_TARGET:
		write_target(s, in);
		break;
	case FUZZ_RS_BAD_RECV:
		fake_recv(byte(in) % (IBV_WC_GENERAL_ERR + 1), false, 0, NULL, 0, 0);
		break;
	case FUZZ_RS_DONE:
		a = byte(in);
		fake_complete(a, byte(in) % (IBV_WC_GENERAL_ERR + 1));
		break;
	case FUZZ_RS_RECV:
		a = number(in, 2) % LONGEST;
		call_recv(rs, a, byte(in) & (MSG_PEEK | MSG_WAITALL));
		break;
	case FUZZ_RS_SEND:
		call_send(rs, number(in, 2) % LONGEST, NULL, 0);
		break;
	case FUZZ_RS_IOWRITE:
		a = number(in, 2);
		b = number(in, 2) % LONGEST;
		rs_iowrite(rs, memory, b, a, MSG_DONTWAIT);
		break;
	case FUZZ_RS_IOMAP:
		a = byte(in);
		map(rs, (uint8_t)a, byte(in));
		break;
	case FUZZ_RS_SHUTDOWN:
		rs->ops->shutdown(rs, byte(in) % 3);
		break;
	default:
		if (s->state == STREAM_CONNECTED)
			rs->ops->tick(rs);
	}
	rs->ops->ready(rs, POLLIN | POLLOUT);
	check_stream(s);
}

static void run_stream(struct rs *rs, struct input *in)
{
	struct stream *s = stream_of(rs);
	uint8_t data[STREAM_CONN_DATA];
	const size_t len = byte(in) % (STREAM_CONN_DATA + 1);

	bytes(in, data, sizeof(data));
	FUZZ_CHECK(stream_setup(s) == 0);
	if (stream_take_conn_data(s, data, len ? len : sizeof(data)) < 0)
		return;
	s->state = STREAM_CONNECTED;
	s->readable = s->writable = true;
	for (int i = 0; in->left > 0 && i < MOST_COMMANDS; i++)
		stream_command(s, in);
}

/* ---- datagrams ---- */

static void check_dgram(const struct dgram *d)
{
	unsigned peers = 0, slots = 0;
	size_t udp = 0;

	list_for_each (it, &d->peers)
		peers++;
	FUZZ_CHECK(peers == d->by_addr.n && peers <= DGRAM_PEERS);
	list_for_each (it, &d->inbox) {
		const struct dgram_msg *m = list_entry(it, struct dgram_msg, node);

		if (m->qp)
			slots++;
		else
			udp += m->len + sizeof(*m);
	}
	FUZZ_CHECK(udp == d->inbox_udp);
	list_for_each (it, &d->qps) {
		const struct dgram_qp *qp = list_entry(it, struct dgram_qp, node);

		FUZZ_CHECK(qp->free_count <= qp->send_count);
		FUZZ_CHECK(slots <= qp->recv_count * 2);
	}
}

/** A header as it should be: of UDP, or of UD. */
static size_t good_header(struct input *in, bool udp, bool v6, uint8_t *p)
{
	struct sockaddr_storage from;
	const size_t addr = v6 ? 16 : 4;

	fake_addr(byte(in), &from);
	memset(p, 0, 40);
	if (udp) {
		put_be32(p, 0x55555555);
		p[4] = v6 ? 6 : 4;
		p[5] = byte(in);
		p[6] = (uint8_t)(12 + addr);
		put_be32(p + 8, number(in, 3));
		return 12 + addr;
	}
	p[0] = v6 ? 6 : 4;
	p[1] = v6 ? 24 : 8;
	put_be16(p + 2, 7000);
	if (v6)
		memcpy(p + 8, &((struct sockaddr_in6 *)&from)->sin6_addr, 16);
	else
		memcpy(p + 4, &((struct sockaddr_in *)&from)->sin_addr, 4);
	return v6 ? 24 : 8;
}

static void dgram_connect(struct rs *rs, uint8_t which)
{
	struct sockaddr_storage to;
	socklen_t len = fake_addr(which, &to);

	if (which & 0x80)
		to.ss_family = AF_UNSPEC;
	rs->ops->connect(rs, (struct sockaddr *)&to, len);
}

static void dgram_command(struct dgram *d, struct input *in)
{
	const bool v6 = d->rs.domain == AF_INET6;
	struct sockaddr_storage to;
	struct rs *rs = &d->rs;
	const uint8_t command = byte(in);
	uint8_t buf[300] = {0};
	uint8_t a, b;
	socklen_t len;
	size_t n;

	fake_select(command / FUZZ_RS_DGRAM_COMMANDS);
	switch (command % FUZZ_RS_DGRAM_COMMANDS) {
	case FUZZ_RS_UDP:
		a = byte(in);
		b = byte(in);
		n = byte(in);
		bytes(in, buf, n);
		fake_udp(a, b, buf, n);
		break;
	case FUZZ_RS_UDP_GOOD:
		a = byte(in);
		n = good_header(in, true, v6, buf);
		fake_udp(a, a >> 4, buf, n + byte(in));
		break;
	case FUZZ_RS_UD:
		n = byte(in);
		bytes(in, buf, n);
		fake_recv(IBV_WC_SUCCESS, false, 0, buf, n, 7);
		break;
	case FUZZ_RS_UD_GOOD:
		n = good_header(in, false, v6, buf);
		fake_recv(IBV_WC_SUCCESS, false, 0, buf, n + byte(in), number(in, 1));
		break;
	case FUZZ_RS_UD_BAD:
		fake_recv(1 + byte(in) % IBV_WC_GENERAL_ERR, false, 0, buf, byte(in), 7);
		break;
	case FUZZ_RS_UD_DONE:
		a = byte(in);
		fake_complete(a, byte(in) % (IBV_WC_GENERAL_ERR + 1));
		break;
	case FUZZ_RS_UD_RECV:
		a = byte(in);
		call_recv(rs, a, byte(in) & (MSG_PEEK | MSG_TRUNC));
		break;
	case FUZZ_RS_UD_SEND:
		len = fake_addr(byte(in), &to);
		call_send(rs, number(in, 2) % LONGEST, (struct sockaddr *)&to, len);
		break;
	default:
		dgram_connect(rs, byte(in));
	}
	rs->ops->ready(rs, POLLIN | POLLOUT);
	check_dgram(d);
}

/* ---- both ---- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	const uint8_t kind = byte(&in);
	const int domain = kind & FUZZ_RS_V6 ? AF_INET6 : AF_INET;
	struct rs *rs;
	int ret;

	fake_reset(domain == AF_INET6);
	ret = kind & FUZZ_RS_DGRAM ? rs_dgram_new(domain, &rs) : rs_stream_new(domain, &rs);
	FUZZ_CHECK(ret == 0);
	mutex_lock(&rs->lock);
	rs->set = small;
	rs->nonblock = true;
	rs->linger = (struct linger){.l_onoff = 1};
	if (kind & FUZZ_RS_DGRAM) {
		if (kind & FUZZ_RS_CONNECTED)
			dgram_connect(rs, 1);
		for (int i = 0; in.left > 0 && i < MOST_COMMANDS; i++)
			dgram_command(container_of(rs, struct dgram, rs), &in);
	} else {
		run_stream(rs, &in);
	}
	fake_complete(QUEUE * 2, IBV_WC_SUCCESS);
	rs->ops->close(rs);
	return 0;
}
