/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ipv6.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "netns.h"
#include "test.h"

enum { GUARD_MS = 60000 };

void bench_namespace(void)
{
	netns_enter_once();
	unsetenv("ROCEMU_DEVICES");
}

void bench_ip(const char *command)
{
	bench_namespace();
	netns_ip(command);
}

bool bench_runs(const char *name)
{
	struct ifreq ifr = {0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", name);
	assert_int_equal(ioctl(fd, SIOCGIFFLAGS, &ifr), 0);
	close(fd);
	return ifr.ifr_flags & IFF_RUNNING;
}

void bench_veth(void)
{
	bench_namespace();
	/* A test that failed may have left it: the next one has its own result. */
	if (if_nametoindex("p0"))
		bench_ip("link delete p0");
	bench_ip("link add p0 type veth peer name p1");
	/* No IPv6: its addresses come and go when they like. */
	bench_ip("link set p0 addrgenmode none");
	bench_ip("link set p1 addrgenmode none");
	bench_ip("link set p0 up");
	bench_ip("link set p1 up");
	bench_ip("address add 10.1.1.1/24 dev p0");
	bench_ip("address add 10.1.1.2/24 dev p0");
	bench_ip("neighbour add 10.1.1.9 lladdr 02:00:00:00:00:09 dev p0 nud permanent");
	/* The kernel may report the carrier a moment after both ends are up. */
	while (!bench_runs("p0"))
		sched_yield();
}

struct sockaddr *bench_addr(const char *text, uint16_t port)
{
	static _Thread_local struct sockaddr_storage ring[4];
	static _Thread_local unsigned next;
	struct sockaddr_storage *ss = &ring[next++ % 4];
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ss;
	struct sockaddr_in *in = (struct sockaddr_in *)ss;

	memset(ss, 0, sizeof(*ss));
	if (strchr(text, ':')) {
		const char *scope = strchr(text, '%');
		char plain[INET6_ADDRSTRLEN];

		snprintf(plain, sizeof(plain), "%.*s", (int)strcspn(text, "%"), text);
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		in6->sin6_scope_id = scope ? if_nametoindex(scope + 1) : 0;
		assert_int_equal(inet_pton(AF_INET6, plain, &in6->sin6_addr), 1);
	} else {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		assert_int_equal(inet_pton(AF_INET, text, &in->sin_addr), 1);
	}
	return (struct sockaddr *)ss;
}

struct sockaddr *bench_gid(const char *text, uint64_t service_id, uint64_t mask)
{
	struct sockaddr_storage *ss = (struct sockaddr_storage *)(void *)bench_addr(text, 0);
	struct sockaddr_ib ib = {
		.sib_family = AF_IB,
		.sib_pkey = htons(0xffff),
		.sib_sid = htobe64(service_id),
		.sib_sid_mask = htobe64(mask),
	};

	if (ss->ss_family == AF_INET6) {
		memcpy(&ib.sib_addr, &((struct sockaddr_in6 *)ss)->sin6_addr, 16);
	} else {
		ib.sib_addr.sib_addr16[5] = 0xffff;
		memcpy(&ib.sib_addr.sib_addr8[12], &((struct sockaddr_in *)ss)->sin_addr, 4);
	}
	memset(ss, 0, sizeof(*ss));
	memcpy(ss, &ib, sizeof(ib));
	return (struct sockaddr *)ss;
}

void bench_link_local(const char *text)
{
	struct in6_ifreq req = {.ifr6_ifindex = (int)if_nametoindex("lo"), .ifr6_prefixlen = 64};
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		skip(); /* no IPv6 here */
	assert_int_equal(inet_pton(AF_INET6, text, &req.ifr6_addr), 1);
	if (ioctl(fd, SIOCSIFADDR, &req))
		assert_int_equal(errno, EEXIST);
	close(fd);
}

struct rdma_event_channel *bench_channel(void)
{
	struct rdma_event_channel *ch;

	bench_namespace();
	ch = rdma_create_event_channel();
	assert_non_null(ch);
	return ch;
}

struct rdma_cm_event *bench_event(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};
	struct rdma_cm_event *ev;

	if (poll(&p, 1, GUARD_MS) != 1)
		fail_msg("no %s came", rdma_event_str(type));
	assert_int_equal(rdma_get_cm_event(ch, &ev), 0);
	if (ev->event != type)
		fail_msg("%s (%d) came, not %s", rdma_event_str(ev->event), ev->status,
			 rdma_event_str(type));
	return ev;
}

int bench_expect(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev = bench_event(ch, type);
	int status = ev->status;

	assert_int_equal(rdma_ack_cm_event(ev), 0);
	return status;
}

void bench_no_event(struct rdma_event_channel *ch)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};

	assert_int_equal(poll(&p, 1, 0), 0);
}

struct rdma_cm_id *bench_listener(struct rdma_event_channel *ch, const char *addr,
				  enum rdma_port_space ps, int backlog)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(ch, &id, NULL, ps), 0);
	assert_int_equal(rdma_bind_addr(id, bench_addr(addr, 0)), 0);
	assert_int_not_equal(rdma_get_src_port(id), 0);
	assert_int_equal(rdma_listen(id, backlog), 0);
	return id;
}

struct rdma_cm_id *bench_client(struct rdma_event_channel *ch, const char *addr,
				const struct rdma_cm_id *listener)
{
	/* It only reads. */
	uint16_t port = ntohs(rdma_get_src_port((struct rdma_cm_id *)(uintptr_t)listener));
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(ch, &id, NULL, listener->ps), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, bench_addr(addr, port), 1000), 0);
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
	return id;
}

void bench_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = id->qp_type,
		.sq_sig_all = 1,
	};

	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
}

void bench_connect(struct bench *b, const char *addr)
{
	struct rdma_conn_param param = {
		.responder_resources = 1, .initiator_depth = 1, .retry_count = 7};
	struct rdma_cm_event *ev;

	memset(b, 0, sizeof(*b));
	b->cch = bench_channel();
	b->sch = bench_channel();
	b->listener = bench_listener(b->sch, addr, RDMA_PS_TCP, 0);
	b->client = bench_client(b->cch, addr, b->listener);
	bench_qp(b->client);
	assert_int_equal(rdma_connect(b->client, &param), 0);
	ev = bench_event(b->sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	b->server = ev->id;
	assert_ptr_equal(ev->listen_id, b->listener);
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	bench_qp(b->server);
	assert_int_equal(rdma_accept(b->server, &param), 0);
	assert_int_equal(bench_expect(b->cch, RDMA_CM_EVENT_ESTABLISHED), 0);
	assert_int_equal(bench_expect(b->sch, RDMA_CM_EVENT_ESTABLISHED), 0);
}

static void destroy(struct rdma_cm_id *id)
{
	if (!id)
		return;
	if (id->qp)
		rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
}

void bench_end(struct bench *b)
{
	destroy(b->client);
	destroy(b->server);
	destroy(b->listener);
	rdma_destroy_event_channel(b->cch);
	rdma_destroy_event_channel(b->sch);
}
