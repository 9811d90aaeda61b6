/* SPDX-License-Identifier: BSD-2-Clause */
/* See fuzz-rsocket.h. Every byte that is to be sent is read, so that a sanitizer sees them all. */
#include "fuzz-rsocket.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#pragma GCC visibility push(default)
#include <rdma/rdma_cma.h>
#pragma GCC visibility pop

#include "base/util.h"
#include "driver.h"

enum { QUEUE = 256, CQS = 4, GIDS = 4, QPN = 0x4001, UDP_MAX = 512 };

struct posted {
	uint64_t wr_id;
	struct ibv_sge sge;
	bool has_sge;
};

/** A CQ, and the queues of the QP that it belongs to. */
struct fake_cq {
	struct ibv_cq cq;
	struct ibv_qp qp;
	struct posted recv[QUEUE], send[QUEUE];
	unsigned recv_first, recv_count, send_first, send_count;
	struct ibv_wc wc[QUEUE];
	unsigned wc_count;
	unsigned idle_polls;
};

static struct {
	struct fake_cq cqs[CQS];
	unsigned count;
	struct fake_cq *now; /* what is completed, is completed here */
	bool v6;
	uint8_t udp[UDP_MAX];
	size_t udp_len;
	unsigned udp_from, udp_at;
	bool udp_there;
	int fd;
} fake = {.fd = -1};

static struct ibv_context context;
static struct ibv_pd pd = {.context = &context};
static struct ibv_sa_path_rec path;

static volatile uint8_t sink;

static void read_all(const struct ibv_sge *sge, int n)
{
	for (int i = 0; i < n; i++)
		for (uint32_t k = 0; k < sge[i].length; k++)
			sink ^= ((const uint8_t *)(uintptr_t)sge[i].addr)[k];
}

/* ---- queues ---- */

static struct fake_cq *of(struct ibv_cq *cq)
{
	return container_of(cq, struct fake_cq, cq);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_cq *q = of(qp->send_cq);
	struct posted *p = &q->send[(q->send_first + q->send_count) % QUEUE];

	(void)bad;
	FUZZ_CHECK(!wr->next && q->send_count < QUEUE);
	read_all(wr->sg_list, wr->num_sge);
	p->wr_id = wr->wr_id;
	q->send_count++;
	return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_cq *q = of(qp->recv_cq);
	struct posted *p = &q->recv[(q->recv_first + q->recv_count) % QUEUE];

	(void)bad;
	FUZZ_CHECK(!wr->next && q->recv_count < QUEUE && wr->num_sge <= 1);
	*p = (struct posted){.wr_id = wr->wr_id, .has_sge = wr->num_sge == 1};
	if (p->has_sge) {
		p->sge = wr->sg_list[0];
		read_all(&p->sge, 1);
	}
	q->recv_count++;
	return 0;
}

static struct ibv_wc *new_wc(struct fake_cq *q)
{
	FUZZ_CHECK(q->wc_count < QUEUE);
	q->idle_polls = 0;
	memset(&q->wc[q->wc_count], 0, sizeof(q->wc[0]));
	return &q->wc[q->wc_count++];
}

static void complete(struct fake_cq *q, unsigned count, unsigned status)
{
	for (; count > 0 && q->send_count > 0; count--) {
		struct ibv_wc *wc = new_wc(q);

		wc->wr_id = q->send[q->send_first].wr_id;
		wc->status = (enum ibv_wc_status)status;
		wc->opcode = IBV_WC_RDMA_WRITE;
		q->send_first = (q->send_first + 1) % QUEUE;
		q->send_count--;
	}
}

void fake_complete(unsigned count, unsigned status)
{
	complete(fake.now, count, status);
}

bool fake_recv(unsigned status, bool has_imm, uint32_t imm, const void *data, size_t len,
	       uint32_t src_qp)
{
	enum { GRH = 40 };
	struct fake_cq *q = fake.now;
	const struct posted *p = &q->recv[q->recv_first];
	struct ibv_wc *wc;

	if (q->recv_count == 0)
		return false;
	wc = new_wc(q);
	wc->wr_id = p->wr_id;
	wc->status = (enum ibv_wc_status)status;
	wc->opcode = IBV_WC_RECV;
	wc->wc_flags = has_imm ? IBV_WC_WITH_IMM : 0;
	wc->imm_data = htonl(imm);
	wc->src_qp = src_qp;
	if (p->has_sge) {
		len = MIN(len, (size_t)p->sge.length - GRH);
		memcpy((uint8_t *)(uintptr_t)p->sge.addr + GRH, data, len);
		wc->byte_len = (uint32_t)len + GRH;
	}
	q->recv_first = (q->recv_first + 1) % QUEUE;
	q->recv_count--;
	return true;
}

/** A call that waits repeatedly is ended: nothing may hang. */
static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	enum { PATIENCE = 8 };
	struct fake_cq *q = of(cq);
	const unsigned count = MIN((unsigned)n, q->wc_count);

	if (count == 0 && ++q->idle_polls > PATIENCE)
		complete(q, 1, IBV_WC_SUCCESS);
	memcpy(wc, q->wc, count * sizeof(*wc));
	memmove(q->wc, q->wc + count, (q->wc_count - count) * sizeof(*wc));
	q->wc_count -= count;
	return (int)count;
}

void fake_select(unsigned which)
{
	fake.now = &fake.cqs[fake.count ? which % fake.count : 0];
}

static int req_notify(struct ibv_cq *cq, int solicited)
{
	(void)cq;
	(void)solicited;
	return 0;
}

void fake_reset(bool v6)
{
	if (fake.fd < 0)
		fake.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	memset(fake.cqs, 0, sizeof(fake.cqs));
	fake.count = 0;
	fake_select(0);
	fake.udp_there = false;
	fake.v6 = v6;
	context.ops.post_send = post_send;
	context.ops.post_recv = post_recv;
	context.ops.poll_cq = poll_cq;
	context.ops.req_notify_cq = req_notify;
}

/* ---- addresses: four peers, with ports; the first two are also local ---- */

socklen_t fake_addr(unsigned which, struct sockaddr_storage *out)
{
	struct sockaddr_in *in = (struct sockaddr_in *)out;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;
	const uint8_t last = (uint8_t)(1 + which % 4);

	memset(out, 0, sizeof(*out));
	if (fake.v6) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(7000);
		in6->sin6_addr.s6_addr[0] = 0xfd;
		in6->sin6_addr.s6_addr[15] = last;
		return sizeof(*in6);
	}
	in->sin_family = AF_INET;
	in->sin_port = htons(7000);
	in->sin_addr.s_addr = htonl(0x0a000000u | last);
	return sizeof(*in);
}

/* ---- verbs ---- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
	struct ibv_comp_channel *channel = calloc(1, sizeof(*channel));

	FUZZ_CHECK(channel);
	channel->context = c;
	channel->fd = fake.fd;
	return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	free(channel);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct fake_cq *q = &fake.cqs[fake.count];

	(void)cqe;
	(void)vector;
	FUZZ_CHECK(fake.count++ < CQS);
	q->cq = (struct ibv_cq){.context = c, .cq_context = cq_context, .channel = channel};
	return &q->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	(void)cq;
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	(void)channel;
	(void)cq;
	(void)cq_context;
	errno = EAGAIN;
	return -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	(void)cq;
	(void)n;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *p, void *addr, size_t length, int access)
{
	struct ibv_mr *mr = calloc(1, sizeof(*mr));

	(void)access;
	FUZZ_CHECK(mr);
	*mr = (struct ibv_mr){.context = &context, .pd = p, .addr = addr, .length = length};
	return mr;
}

/* What the macro calls where the compiler cannot see that the access is constant. */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *p, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	(void)iova;
	return ibv_reg_mr(p, addr, length, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	free(mr);
	return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *p, struct ibv_ah_attr *attr)
{
	struct ibv_ah *ah = calloc(1, sizeof(*ah));

	(void)attr;
	FUZZ_CHECK(ah);
	ah->pd = p;
	return ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	free(ah);
	return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	struct ibv_port_attr *a = (struct ibv_port_attr *)attr;

	(void)c;
	(void)port;
	a->active_mtu = IBV_MTU_256;
	a->gid_tbl_len = GIDS;
	return 0;
}

int _ibv_query_gid_ex(struct ibv_context *c, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	struct sockaddr_storage a;

	(void)c;
	(void)flags;
	(void)size;
	*entry = (struct ibv_gid_entry){
		.gid_index = index, .port_num = port, .gid_type = IBV_GID_TYPE_ROCE_V2};
	fake_addr(index, &a);
	if (fake.v6) {
		memcpy(entry->gid.raw, &((struct sockaddr_in6 *)&a)->sin6_addr, 16);
	} else {
		entry->gid.raw[10] = entry->gid.raw[11] = 0xff;
		memcpy(entry->gid.raw + 12, &((struct sockaddr_in *)&a)->sin_addr, 4);
	}
	return 0;
}

/* ---- rdma_cm ---- */

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct rdma_event_channel *c = calloc(1, sizeof(*c));

	FUZZ_CHECK(c);
	c->fd = fake.fd;
	return c;
}

void rdma_destroy_event_channel(struct rdma_event_channel *c)
{
	free(c);
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *user,
		   enum rdma_port_space ps)
{
	struct rdma_cm_id *id = calloc(1, sizeof(*id));

	FUZZ_CHECK(id);
	*id = (struct rdma_cm_id){.verbs = &context,
				  .channel = channel,
				  .context = user,
				  .pd = &pd,
				  .ps = ps,
				  .port_num = 1,
				  .route = {.path_rec = &path}};
	*out = id;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	free(id);
	return 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *p, struct ibv_qp_init_attr *attr)
{
	struct fake_cq *q = of(attr->send_cq);

	(void)p;
	q->qp = (struct ibv_qp){.context = &context,
				.qp_num = QPN + (uint32_t)(q - fake.cqs),
				.send_cq = attr->send_cq,
				.recv_cq = attr->recv_cq};
	id->qp = &q->qp;
	return 0;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	id->qp = NULL;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
		      int timeout_ms)
{
	(void)from;
	(void)to;
	(void)timeout_ms;
	fake_addr(0, &id->route.addr.src_storage);
	return 0;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	(void)channel;
	(void)event;
	errno = EAGAIN;
	return -1;
}

/* What a connection that stands never calls; C before C23 has no parameters without a name. */
#define U __attribute__((unused))
#define NEVER(name, ...)          \
	int name(__VA_ARGS__)     \
	{                         \
		errno = ENOTCONN; \
		return -1;        \
	}
NEVER(rdma_accept, U struct rdma_cm_id *a, U struct rdma_conn_param *b)
NEVER(rdma_ack_cm_event, U struct rdma_cm_event *a)
NEVER(rdma_connect, U struct rdma_cm_id *a, U struct rdma_conn_param *b)
NEVER(rdma_disconnect, U struct rdma_cm_id *a)
NEVER(rdma_listen, U struct rdma_cm_id *a, U int b)
NEVER(rdma_migrate_id, U struct rdma_cm_id *a, U struct rdma_event_channel *b)
NEVER(rdma_reject, U struct rdma_cm_id *a, U const void *b, U uint8_t c)
NEVER(rdma_resolve_route, U struct rdma_cm_id *a, U int b)
NEVER(rdma_set_option, U struct rdma_cm_id *a, U int b, U int c, U void *d, U size_t e)

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	memcpy(&id->route.addr.src_storage, addr,
	       fake.v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
	return 0;
}

/* ---- UDP ---- */

void fake_udp(unsigned from, unsigned at, const void *data, size_t len)
{
	fake.udp_from = from;
	fake.udp_at = at;
	fake.udp_len = MIN(len, (size_t)UDP_MAX);
	memcpy(fake.udp, data, fake.udp_len);
	fake.udp_there = true;
}

static void put_control(struct msghdr *msg)
{
	struct sockaddr_storage at;
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);

	fake_addr(fake.udp_at % 2, &at);
	FUZZ_CHECK(c);
	if (fake.v6) {
		struct in6_pktinfo info = {.ipi6_addr = ((struct sockaddr_in6 *)&at)->sin6_addr};

		*c = (struct cmsghdr){.cmsg_level = IPPROTO_IPV6,
				      .cmsg_type = IPV6_PKTINFO,
				      .cmsg_len = CMSG_LEN(sizeof(info))};
		memcpy(CMSG_DATA(c), &info, sizeof(info));
		msg->msg_controllen = CMSG_SPACE(sizeof(info));
	} else {
		struct in_pktinfo info = {.ipi_addr = ((struct sockaddr_in *)&at)->sin_addr};

		*c = (struct cmsghdr){.cmsg_level = IPPROTO_IP,
				      .cmsg_type = IP_PKTINFO,
				      .cmsg_len = CMSG_LEN(sizeof(info))};
		memcpy(CMSG_DATA(c), &info, sizeof(info));
		msg->msg_controllen = CMSG_SPACE(sizeof(info));
	}
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	struct sockaddr_storage from;

	(void)fd;
	(void)flags;
	if (!fake.udp_there) {
		errno = EAGAIN;
		return -1;
	}
	fake.udp_there = false;
	msg->msg_namelen = fake_addr(fake.udp_from, &from);
	memcpy(msg->msg_name, &from, msg->msg_namelen);
	memcpy(msg->msg_iov[0].iov_base, fake.udp, fake.udp_len);
	put_control(msg);
	return (ssize_t)fake.udp_len;
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	ssize_t len = 0;

	(void)fd;
	(void)flags;
	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		for (size_t k = 0; k < msg->msg_iov[i].iov_len; k++)
			sink ^= ((const uint8_t *)msg->msg_iov[i].iov_base)[k];
		len += (ssize_t)msg->msg_iov[i].iov_len;
	}
	return len;
}

int getsockname(int fd, struct sockaddr *restrict addr, socklen_t *restrict len)
{
	struct sockaddr_storage a;

	(void)fd;
	*len = fake_addr(0, &a);
	memcpy(addr, &a, *len);
	return 0;
}

int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	(void)fd;
	(void)addr;
	(void)len;
	return 0;
}

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	(void)epfd;
	(void)op;
	(void)fd;
	(void)event;
	return 0;
}
