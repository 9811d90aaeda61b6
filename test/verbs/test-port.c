/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the interface and its addresses do while a device is open, on lo and on a veth pair of the
 * test's own namespace. In processes of their own: test/prog/cases_port.py.
 */
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "dev.h"

enum { PATIENCE_MS = 20000 };

/* Where the interface's first address is. */
#define FIRST "0:10.1.1.1 1:10.1.1.1 3:10.1.1.1"

static void ip(const char *command)
{
	char line[200];

	snprintf(line, sizeof(line), "ip %s", command);
	assert_int_equal(system(line), 0);
}

static void need_ip(void)
{
	dev_namespace();
	if (system("ip link set lo up") != 0)
		skip(); /* no ip, or no right to change interfaces */
}

/** The next event must be this one. */
static void expect_event(struct ibv_context *ctx, enum ibv_event_type type)
{
	struct pollfd pfd = {.fd = ctx->async_fd, .events = POLLIN};
	struct ibv_async_event ev;

	if (poll(&pfd, 1, PATIENCE_MS) != 1)
		fail_msg("no %s", ibv_event_type_str(type));
	assert_int_equal(ibv_get_async_event(ctx, &ev), 0);
	assert_string_equal(ibv_event_type_str(ev.event_type), ibv_event_type_str(type));
	assert_int_equal(ev.element.port_num, 1);
	ibv_ack_async_event(&ev);
}

static void expect_no_event(struct ibv_context *ctx)
{
	struct pollfd pfd = {.fd = ctx->async_fd, .events = POLLIN};

	assert_int_equal(poll(&pfd, 1, 0), 0);
}

/** The GID table as text, IPv4 only: "0:127.0.0.1 2:10.1.1.1". */
static const char *table(struct ibv_context *ctx)
{
	static char text[512];
	struct ibv_gid_entry e[64];
	ssize_t n = ibv_query_gid_table(ctx, e, 64, 0);
	char addr[INET_ADDRSTRLEN];
	size_t at = 0;

	assert_true(n >= 0);
	text[0] = 0;
	for (ssize_t i = 0; i < n; i++) {
		if (e[i].gid.raw[10] != 0xff || e[i].gid.raw[0])
			continue;
		inet_ntop(AF_INET, e[i].gid.raw + 12, addr, sizeof(addr));
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%u:%s", at ? " " : "",
				       e[i].gid_index, addr);
	}
	return text;
}

static struct ibv_port_attr port(struct ibv_context *ctx)
{
	struct ibv_port_attr a;

	assert_int_equal(ibv_query_port(ctx, 1, &a), 0);
	return a;
}

static struct ibv_context *open_veth(void)
{
	struct ibv_context *ctx;

	need_ip();
	ip("link add p0 type veth peer name p1");
	/* No IPv6: its addresses come and go when they like. */
	ip("link set p0 addrgenmode none");
	ip("link set p1 addrgenmode none");
	ip("link set p0 up");
	ip("link set p1 up");
	ip("address add 10.1.1.1/24 dev p0");
	ip("address add 10.1.1.2/24 dev p0");
	setenv("ROCEMU_DEVICES", "v=p0", 1);
	ctx = dev_open_named("v");
	unsetenv("ROCEMU_DEVICES");
	/* The kernel may report the carrier late. */
	if (port(ctx).state != IBV_PORT_ACTIVE)
		expect_event(ctx, IBV_EVENT_PORT_ACTIVE);
	return ctx;
}

static void close_veth(struct ibv_context *ctx)
{
	assert_int_equal(ibv_close_device(ctx), 0);
	ip("link delete p0");
}

/** The names of the devices that are listed: "rocemu_lo rocemu_p0". */
static const char *listed(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	static char text[256];
	size_t at = 0;

	assert_non_null(list);
	text[0] = 0;
	for (unsigned i = 0; list[i]; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", at ? " " : "",
				       ibv_get_device_name(list[i]));
	ibv_free_device_list(list);
	return text;
}

TEST(device_list, loopback__only_where_no_other_interface_runs_with_an_address)
{
	struct ibv_context *ctx;

	need_ip();
	assert_string_equal(listed(), "rocemu_lo");
	ctx = open_veth();
	assert_string_equal(listed(), "rocemu_p0");
	setenv("ROCEMU_DEVICES", "lo", 1);
	assert_string_equal(listed(), "rocemu_lo");
	setenv("ROCEMU_DEVICES", "p0,lo", 1);
	assert_string_equal(listed(), "rocemu_p0 rocemu_lo");
	unsetenv("ROCEMU_DEVICES");
	ip("link set p0 down");
	expect_event(ctx, IBV_EVENT_PORT_ERR);
	assert_string_equal(listed(), "rocemu_p0 rocemu_lo");
	ip("address flush dev p0");
	assert_string_equal(listed(), "rocemu_lo");
	close_veth(ctx);
}

TEST(gid_change, addresses_come_and_go__table_follows_with_holes)
{
	struct ibv_context *ctx = open_veth();
	const int length = port(ctx).gid_tbl_len;
	struct ibv_gid_entry e;
	union ibv_gid gid;

	assert_string_equal(table(ctx), FIRST " 5:10.1.1.2");
	ip("address add 10.1.1.3/24 dev p0");
	expect_event(ctx, IBV_EVENT_GID_CHANGE);
	assert_string_equal(table(ctx), FIRST " 5:10.1.1.2 7:10.1.1.3");
	assert_int_equal(port(ctx).gid_tbl_len, length);
	ip("address del 10.1.1.2/24 dev p0");
	expect_event(ctx, IBV_EVENT_GID_CHANGE);
	assert_string_equal(table(ctx), FIRST " 7:10.1.1.3");
	/* An empty entry reads as zeros, or as no data. */
	assert_int_equal(port(ctx).gid_tbl_len, length);
	assert_int_equal(ibv_query_gid(ctx, 1, 5, &gid), 0);
	assert_true(gid.global.subnet_prefix == 0 && gid.global.interface_id == 0);
	assert_int_equal(ibv_query_gid_ex(ctx, 1, 5, &e, 0), ENODATA);
	/* Beyond the table there is nothing to be empty. */
	assert_int_equal(ibv_query_gid_ex(ctx, 1, (uint32_t)length, &e, 0), EINVAL);
	assert_int_equal(ibv_query_gid(ctx, 1, length, &gid), -1);
	ip("address add 10.1.1.4/24 dev p0");
	expect_event(ctx, IBV_EVENT_GID_CHANGE);
	assert_string_equal(table(ctx), FIRST " 5:10.1.1.4 7:10.1.1.3");
	expect_no_event(ctx);
	close_veth(ctx);
}

TEST(gid_change, duplicate_detection_ends__index_that_waited)
{
	const union ibv_gid late = {.raw = {0xfd, [15] = 5}};
	struct ibv_context *ctx = open_veth();
	struct ibv_gid_entry e;

	assert_int_equal(ibv_close_device(ctx), 0);
	ip("address add fd00::5/64 dev p0");
	/* Listed while the address is tentative, if that takes long enough. */
	setenv("ROCEMU_DEVICES", "v=p0", 1);
	ctx = dev_open_named("v");
	unsetenv("ROCEMU_DEVICES");
	while (ibv_query_gid_ex(ctx, 1, 1, &e, 0) == ENODATA)
		expect_event(ctx, IBV_EVENT_GID_CHANGE);
	assert_int_equal(e.gid_index, 1);
	assert_memory_equal(e.gid.raw, late.raw, sizeof(late.raw));
	assert_string_equal(table(ctx), "0:10.1.1.1 3:10.1.1.1 5:10.1.1.2");
	close_veth(ctx);
}

TEST(gid_change, address_of_another_interface__no_event)
{
	struct ibv_context *ctx = open_veth();

	ip("address add 10.2.2.2/24 dev p1");
	ip("address add 10.1.1.3/24 dev p0");
	expect_event(ctx, IBV_EVENT_GID_CHANGE);
	assert_string_equal(table(ctx), FIRST " 5:10.1.1.2 7:10.1.1.3");
	expect_no_event(ctx);
	close_veth(ctx);
}

TEST(link, down_and_up__port_err_and_active)
{
	struct ibv_context *ctx = open_veth();

	ip("link set p0 down");
	expect_event(ctx, IBV_EVENT_PORT_ERR);
	assert_int_equal(port(ctx).state, IBV_PORT_DOWN);
	ip("link set p0 up");
	expect_event(ctx, IBV_EVENT_PORT_ACTIVE);
	assert_int_equal(port(ctx).state, IBV_PORT_ACTIVE);
	/* The other end's carrier is this end's link. */
	ip("link set p1 down");
	expect_event(ctx, IBV_EVENT_PORT_ERR);
	ip("link set p1 up");
	expect_event(ctx, IBV_EVENT_PORT_ACTIVE);
	expect_no_event(ctx);
	close_veth(ctx);
}

TEST(link, mtu__active_mtu_follows)
{
	struct ibv_context *ctx = open_veth();

	assert_int_equal(port(ctx).active_mtu, IBV_MTU_1024);
	ip("link set p0 mtu 9000");
	/* There is no event for it; this one comes after. */
	ip("address add 10.1.1.3/24 dev p0");
	expect_event(ctx, IBV_EVENT_GID_CHANGE);
	assert_int_equal(port(ctx).active_mtu, IBV_MTU_4096);
	ip("link set p0 mtu 600");
	ip("address add 10.1.1.4/24 dev p0");
	expect_event(ctx, IBV_EVENT_GID_CHANGE);
	assert_int_equal(port(ctx).active_mtu, IBV_MTU_512);
	close_veth(ctx);
}

TEST(link, mtu_smaller_now__path_mtu_refused)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	const int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	const int rtr =
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	struct ibv_qp *qp;
	struct dev d;

	need_ip();
	dev_open(&d);
	qp = dev_qp(&d, IBV_QPT_UC, 0);
	assert_int_equal(ibv_modify_qp(qp, &a, init), 0);
	ip("link set lo mtu 3000");
	ip("address add 10.3.3.3/32 dev lo");
	expect_event(d.ctx, IBV_EVENT_GID_CHANGE);
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
				 .path_mtu = IBV_MTU_4096,
				 .ah_attr = {.is_global = 1, .port_num = 1}};
	assert_int_equal(ibv_query_gid(d.ctx, 1, 0, &a.ah_attr.grh.dgid), 0);
	assert_int_equal(ibv_modify_qp(qp, &a, rtr), EINVAL);
	ip("link set lo mtu 65536");
	ip("address del 10.3.3.3/32 dev lo");
	expect_event(d.ctx, IBV_EVENT_GID_CHANGE);
	assert_int_equal(ibv_modify_qp(qp, &a, rtr), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	dev_close(&d);
}

TEST(link, interface_removed__device_fatal_once)
{
	struct ibv_context *ctx = open_veth(), *other;

	ip("link delete p0");
	/* The link, each address or both at once, at last the interface. */
	for (bool fatal = false; !fatal;) {
		struct ibv_async_event ev;

		assert_int_equal(ibv_get_async_event(ctx, &ev), 0);
		assert_true(ev.event_type == IBV_EVENT_GID_CHANGE ||
			    ev.event_type == IBV_EVENT_PORT_ERR ||
			    ev.event_type == IBV_EVENT_DEVICE_FATAL);
		fatal = ev.event_type == IBV_EVENT_DEVICE_FATAL;
		ibv_ack_async_event(&ev);
	}
	assert_int_equal(port(ctx).state, IBV_PORT_DOWN);
	assert_string_equal(table(ctx), "");
	/* Another of the same name is another device. */
	other = open_veth();
	assert_string_equal(table(other), FIRST " 5:10.1.1.2");
	assert_int_equal(port(ctx).state, IBV_PORT_DOWN);
	expect_no_event(ctx);
	assert_int_equal(ibv_close_device(ctx), 0);
	close_veth(other);
}

TEST(link, interface_removed__receives_are_flushed_and_their_sleeper_wakes)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_context *ctx = open_veth();
	struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 4, NULL, channel, 0), *which;
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_qp_init_attr init = {.send_cq = cq,
					.recv_cq = cq,
					.cap = {.max_send_wr = 1, .max_recv_wr = 1},
					.qp_type = IBV_QPT_RC};
	struct ibv_recv_wr wr = {.wr_id = 7}, *bad;
	struct ibv_qp *qp, *idle;
	struct pollfd pfd;
	void *context;
	struct ibv_wc wc;

	assert_true(channel && cq && pd);
	qp = ibv_create_qp(pd, &init);
	idle = ibv_create_qp(pd, &init);
	assert_true(qp && idle);
	assert_int_equal(
		ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	ip("link delete p0");
	pfd = (struct pollfd){.fd = channel->fd, .events = POLLIN};
	assert_int_equal(poll(&pfd, 1, PATIENCE_MS), 1);
	assert_int_equal(ibv_get_cq_event(channel, &which, &context), 0);
	ibv_ack_cq_events(which, 1);
	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_ERR);
	/* One in RESET has nothing to flush. */
	assert_int_equal(ibv_query_qp(idle, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RESET);
	assert_int_equal(ibv_destroy_qp(qp) || ibv_destroy_qp(idle), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(ctx), 0);
}

TEST(link, several_contexts__each_gets_the_event)
{
	struct ibv_context *a = open_veth(), *b;

	setenv("ROCEMU_DEVICES", "v=p0", 1);
	b = dev_open_named("v");
	unsetenv("ROCEMU_DEVICES");
	ip("link set p0 down");
	expect_event(a, IBV_EVENT_PORT_ERR);
	expect_event(b, IBV_EVENT_PORT_ERR);
	assert_int_equal(ibv_close_device(a), 0);
	ip("link set p0 up");
	expect_event(b, IBV_EVENT_PORT_ACTIVE);
	close_veth(b);
}

TEST(device_of_one_address, others_come__not_its_table)
{
	struct ibv_context *ctx;

	close_veth(open_veth());
	ip("link add p0 type veth peer name p1");
	ip("link set p0 up");
	ip("address add 10.1.1.1/24 dev p0");
	setenv("ROCEMU_DEVICES", "a=10.1.1.1", 1);
	ctx = dev_open_named("a");
	unsetenv("ROCEMU_DEVICES");
	ip("address add 10.1.1.9/32 dev p0");
	ip("address del 10.1.1.1/24 dev p0");
	expect_event(ctx, IBV_EVENT_GID_CHANGE);
	assert_string_equal(table(ctx), "");
	ip("address add 10.1.1.1/24 dev p0");
	expect_event(ctx, IBV_EVENT_GID_CHANGE);
	assert_string_equal(table(ctx), FIRST);
	close_veth(ctx);
}

/* ---- traffic ---- */

static void write_ok(struct dev *d, struct ibv_qp *qp)
{
	struct ibv_sge sge = dev_sge(d, 0, 3000);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	wr.wr.rdma.rkey = d->mr->rkey;
	wr.wr.rdma.remote_addr = (uintptr_t)d->mem + 8192;
	for (unsigned i = 0; i < 3000; i++)
		d->mem[i]++;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	assert_int_equal(dev_poll(d->cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(d->mem, d->mem + 8192, 3000);
}

static enum ibv_wc_status write_status(struct dev *d, struct ibv_qp *qp)
{
	struct ibv_sge sge = dev_sge(d, 0, 8);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;

	wr.wr.rdma.rkey = d->mr->rkey;
	wr.wr.rdma.remote_addr = (uintptr_t)d->mem + 8192;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	return dev_poll(d->cq).status;
}

static uint8_t index_of(struct ibv_context *ctx, const char *address)
{
	union ibv_gid gid, want = {.raw = {[10] = 0xff, [11] = 0xff}};

	assert_int_equal(inet_pton(AF_INET, address, want.raw + 12), 1);
	for (uint8_t i = 0; ibv_query_gid(ctx, 1, i, &gid) == 0; i++)
		if (!memcmp(&gid, &want, sizeof(gid)))
			return i;
	fail_msg("no %s in the table", address);
	return 0;
}

TEST(traffic, address_added__used_at_once_and_removed_without_harm_to_others)
{
	struct ibv_qp *a, *b, *c, *e;
	struct dev d;

	need_ip();
	dev_open(&d);
	a = dev_qp(&d, IBV_QPT_RC, 0);
	b = dev_qp(&d, IBV_QPT_RC, 0);
	dev_connect(a, b);
	write_ok(&d, a);
	ip("address add 10.3.3.3/32 dev lo");
	expect_event(d.ctx, IBV_EVENT_GID_CHANGE);
	c = dev_qp(&d, IBV_QPT_RC, 0);
	e = dev_qp(&d, IBV_QPT_RC, 0);
	dev_connect_on(c, e, index_of(d.ctx, "10.3.3.3"));
	for (unsigned i = 0; i < 20; i++) {
		write_ok(&d, c);
		write_ok(&d, a);
	}
	ip("address del 10.3.3.3/32 dev lo");
	expect_event(d.ctx, IBV_EVENT_GID_CHANGE);
	write_ok(&d, a);
	/* Nothing comes back any more, as on hardware. */
	assert_int_equal(write_status(&d, c), IBV_WC_RETRY_EXC_ERR);
	write_ok(&d, a);
	/* It comes back: its index too, and new QPs work. */
	ip("address add 10.3.3.3/32 dev lo");
	expect_event(d.ctx, IBV_EVENT_GID_CHANGE);
	assert_int_equal(ibv_destroy_qp(c), 0);
	assert_int_equal(ibv_destroy_qp(e), 0);
	c = dev_qp(&d, IBV_QPT_RC, 0);
	e = dev_qp(&d, IBV_QPT_RC, 0);
	dev_connect_on(c, e, index_of(d.ctx, "10.3.3.3"));
	write_ok(&d, c);
	ip("address del 10.3.3.3/32 dev lo");
	expect_event(d.ctx, IBV_EVENT_GID_CHANGE);
	assert_int_equal(ibv_destroy_qp(a), 0);
	assert_int_equal(ibv_destroy_qp(b), 0);
	assert_int_equal(ibv_destroy_qp(c), 0);
	assert_int_equal(ibv_destroy_qp(e), 0);
	dev_close(&d);
}

/* Under ThreadSanitizer: addresses change while packets flow and the table is read. */
/** The sockets of this process that receive RoCE packets. */
static unsigned sockets(void)
{
	enum { FDS = 1024, ROCE_PORT = 4791 };
	unsigned n = 0;

	for (int fd = 0; fd < FDS; fd++) {
		struct sockaddr_in6 sa = {0}; /* the port is where IPv4 has it */
		socklen_t len = sizeof(sa);

		if (getsockname(fd, (struct sockaddr *)&sa, &len) == 0 &&
		    (sa.sin6_family == AF_INET || sa.sin6_family == AF_INET6))
			n += ntohs(sa.sin6_port) == ROCE_PORT;
	}
	return n;
}

static void expect_sockets(unsigned n)
{
	const time_t end = time(NULL) + PATIENCE_MS / 1000;

	/* The lane's thread closes them. */
	while (sockets() != n)
		if (time(NULL) > end)
			fail_msg("%u sockets, not %u", sockets(), n);
		else
			sched_yield();
}

/* 127.0.0.1 is at 0 and 3: QPs on either share its socket, which ends with the address. */
TEST(traffic, one_address_at_two_indices__one_socket_and_both_work_again_when_it_returns)
{
	static const uint8_t at[] = {0, 3};
	struct ibv_qp *qp[2][2];
	struct dev d;

	need_ip();
	dev_open(&d);
	for (unsigned turn = 0; turn < 2; turn++) {
		for (unsigned i = 0; i < 2; i++) {
			qp[i][0] = dev_qp(&d, IBV_QPT_RC, 0);
			qp[i][1] = dev_qp(&d, IBV_QPT_RC, 0);
			dev_connect_on(qp[i][0], qp[i][1], at[i]);
			write_ok(&d, qp[i][0]);
		}
		write_ok(&d, qp[0][0]);
		expect_sockets(2); /* 127.0.0.1 and ::1 */
		ip("address del 127.0.0.1/8 dev lo");
		expect_event(d.ctx, IBV_EVENT_GID_CHANGE);
		expect_sockets(1);
		ip("address add 127.0.0.1/8 dev lo");
		expect_event(d.ctx, IBV_EVENT_GID_CHANGE);
		expect_sockets(2);
		for (unsigned i = 0; i < 2; i++) {
			assert_int_equal(ibv_destroy_qp(qp[i][0]), 0);
			assert_int_equal(ibv_destroy_qp(qp[i][1]), 0);
		}
	}
	dev_close(&d);
}

TEST(traffic, addresses_change_all_the_time__goes_on)
{
	struct ibv_qp *a, *b;
	struct dev d;

	need_ip();
	dev_open(&d);
	a = dev_qp(&d, IBV_QPT_RC, 0);
	b = dev_qp(&d, IBV_QPT_RC, 0);
	dev_connect(a, b);
	for (unsigned i = 0; i < 10; i++) {
		ip("address add 10.3.3.3/32 dev lo");
		for (unsigned k = 0; k < 20; k++)
			write_ok(&d, a);
		ip("address del 10.3.3.3/32 dev lo");
		assert_true(index_of(d.ctx, "127.0.0.1") == 0);
	}
	assert_int_equal(ibv_destroy_qp(a), 0);
	assert_int_equal(ibv_destroy_qp(b), 0);
	dev_close(&d);
}
