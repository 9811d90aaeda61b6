/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each type of event that <rdma/rdma_cma.h> has, triggered between two processes, with the status
 * in docs/connections.md; the last test fails if one was never seen. The other process ("peer") is
 * this program again; it has a listener and executes one command at a time.
 */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

enum { TYPES = RDMA_CM_EVENT_TIMEWAIT_EXIT + 1, GUARD_MS = 60000 };

/* ---- the peer ---- */

enum job {
	LISTEN,	    /* value: port space, text: address. Answer: port */
	ACCEPT,	    /* take a CONNECT_REQUEST, accept it */
	REJECT,	    /* or refuse it */
	EXPECT,	    /* value: event type. Answer: its status */
	DISCONNECT, /* the ID of the last CONNECT_REQUEST */
	FORGET,	    /* destroy that ID */
	CLOSE,	    /* the listener */
};

struct order {
	enum job job;
	int value;
	char text[40];
};

static struct {
	struct rdma_event_channel *ch;
	struct rdma_cm_id *listener, *id;
} at_peer;

/* Nothing of cmocka's in the peer: it is no test. */
static int next_of_type(int type)
{
	struct pollfd p = {.fd = at_peer.ch->fd, .events = POLLIN};
	struct rdma_cm_event *ev;
	int status;

	if (poll(&p, 1, GUARD_MS) != 1 || rdma_get_cm_event(at_peer.ch, &ev))
		return INT32_MIN;
	status = (int)ev->event == type ? ev->status : INT32_MIN;
	if (status == INT32_MIN)
		fprintf(stderr, "peer: %s came, not %s\n", rdma_event_str(ev->event),
			rdma_event_str((enum rdma_cm_event_type)type));
	if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		at_peer.id = ev->id;
	rdma_ack_cm_event(ev);
	return status;
}

static int listen_at(int ps, const char *address)
{
	if (!at_peer.ch)
		at_peer.ch = rdma_create_event_channel();
	if (!at_peer.ch ||
	    rdma_create_id(at_peer.ch, &at_peer.listener, NULL, (enum rdma_port_space)ps) ||
	    rdma_bind_addr(at_peer.listener, bench_addr(address, 0)) ||
	    rdma_listen(at_peer.listener, 0))
		return INT32_MIN;
	return ntohs(rdma_get_src_port(at_peer.listener));
}

static int accept_one(void)
{
	struct rdma_conn_param param = {.qp_num = 0x456};

	return next_of_type(RDMA_CM_EVENT_CONNECT_REQUEST) ? INT32_MIN
							   : rdma_accept(at_peer.id, &param);
}

static int reject_one(void)
{
	return next_of_type(RDMA_CM_EVENT_CONNECT_REQUEST) ? INT32_MIN
							   : rdma_reject(at_peer.id, NULL, 0);
}

static int do_job(const struct order *o)
{
	switch (o->job) {
	case LISTEN:
		return listen_at(o->value, o->text);
	case ACCEPT:
		return accept_one();
	case REJECT:
		return reject_one();
	case EXPECT:
		return next_of_type(o->value);
	case DISCONNECT:
		return rdma_disconnect(at_peer.id);
	case FORGET:
		return rdma_destroy_id(at_peer.id);
	case CLOSE:
		return rdma_destroy_id(at_peer.listener);
	}
	return INT32_MIN;
}

static void run_peer(int fd)
{
	struct order o;
	int answer;

	while (read(fd, &o, sizeof(o)) == sizeof(o)) {
		answer = do_job(&o);
		if (write(fd, &answer, sizeof(answer)) != sizeof(answer))
			break;
	}
	_exit(0);
}

#define PEER_FD "ROCEMU_TEST_PEER_FD"

/* Before main(), which would run the tests. */
__attribute__((constructor)) static void be_peer(void)
{
	const char *fd = getenv(PEER_FD);

	if (fd)
		run_peer(atoi(fd));
}

/* ---- this process's end of it ---- */

static bool seen[TYPES];
static int peer_fd = -1;

static void start_peer(void)
{
	char number[16];
	int fds[2];
	pid_t pid;

	if (peer_fd >= 0)
		return;
	bench_namespace();
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
	fcntl(fds[0], F_SETFD, FD_CLOEXEC);
	snprintf(number, sizeof(number), "%d", fds[1]);
	setenv(PEER_FD, number, 1);
	pid = fork();
	if (pid == 0) {
		execl("/proc/self/exe", "peer", (char *)NULL);
		_exit(1);
	}
	assert_true(pid > 0);
	unsetenv(PEER_FD);
	close(fds[1]);
	peer_fd = fds[0]; /* it ends with this process */
}

static void begin(enum job job, int value, const char *text)
{
	struct order o = {.job = job, .value = value};

	start_peer();
	snprintf(o.text, sizeof(o.text), "%s", text);
	assert_int_equal(write(peer_fd, &o, sizeof(o)), sizeof(o));
}

static int end(void)
{
	struct pollfd p = {.fd = peer_fd, .events = POLLIN};
	int answer;

	if (poll(&p, 1, 2 * GUARD_MS) != 1)
		fail_msg("the peer hangs");
	assert_int_equal(read(peer_fd, &answer, sizeof(answer)), sizeof(answer));
	assert_int_not_equal(answer, INT32_MIN);
	return answer;
}

static int tell(enum job job, int value, const char *text)
{
	begin(job, value, text);
	return end();
}

/* The next event here, or at the peer. @return its status. */
static int here(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	seen[type] = true;
	return bench_expect(ch, type);
}

static int there(enum rdma_cm_event_type type)
{
	seen[type] = true;
	return tell(EXPECT, (int)type, "");
}

/* An ID on the way to the peer, which listens now. */
static struct rdma_cm_id *client_of(struct rdma_event_channel **ch, const char *address,
				    enum rdma_port_space ps)
{
	const int port = tell(LISTEN, (int)ps, address);
	struct rdma_cm_id *id;

	*ch = bench_channel();
	assert_int_equal(rdma_create_id(*ch, &id, NULL, ps), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, bench_addr(address, (uint16_t)port), 1000), 0);
	assert_int_equal(here(*ch, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	assert_int_equal(here(*ch, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
	return id;
}

static void finish(struct rdma_event_channel *ch, struct rdma_cm_id *id)
{
	assert_int_equal(tell(FORGET, 0, ""), 0);
	assert_int_equal(tell(CLOSE, 0, ""), 0);
	if (id->qp)
		rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

/* A connection with QPs that programs move themselves. */
static struct rdma_cm_id *connected(struct rdma_event_channel **ch, const char *address)
{
	struct rdma_cm_id *id = client_of(ch, address, RDMA_PS_TCP);
	struct rdma_conn_param param = {.qp_num = 0x123};
	uint8_t timeout = 8; /* a millisecond: for how long TIMEWAIT is */

	assert_int_equal(
		rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1), 0);
	assert_int_equal(rdma_connect(id, &param), 0);
	assert_int_equal(tell(ACCEPT, 0, ""), 0);
	seen[RDMA_CM_EVENT_CONNECT_REQUEST] = true;
	assert_int_equal(here(*ch, RDMA_CM_EVENT_CONNECT_RESPONSE), 0);
	assert_int_equal(rdma_establish(id), 0);
	assert_int_equal(there(RDMA_CM_EVENT_ESTABLISHED), 0);
	return id;
}

/* ---- the types ---- */

TEST(events, connection_and_its_end__requests_answers_disconnects_and_timewait)
{
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id = connected(&ch, "127.0.0.1");

	assert_int_equal(rdma_disconnect(id), 0);
	assert_int_equal(there(RDMA_CM_EVENT_DISCONNECTED), 0);
	assert_int_equal(tell(DISCONNECT, 0, ""), 0);
	assert_int_equal(here(ch, RDMA_CM_EVENT_DISCONNECTED), 0);
	assert_int_equal(here(ch, RDMA_CM_EVENT_TIMEWAIT_EXIT), 0);
	assert_int_equal(there(RDMA_CM_EVENT_TIMEWAIT_EXIT), 0);
	finish(ch, id);
}

TEST(events, refused__rejected_with_the_reason)
{
	struct rdma_conn_param param = {.qp_num = 0x123};
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id = client_of(&ch, "127.0.0.1", RDMA_PS_TCP);

	assert_int_equal(rdma_connect(id, &param), 0);
	assert_int_equal(tell(REJECT, 0, ""), 0);
	assert_int_equal(here(ch, RDMA_CM_EVENT_REJECTED), 28); /* consumer */
	finish(ch, id);
}

TEST(events, qp_that_cannot_be_moved__connect_error_and_the_peer_is_told)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id = client_of(&ch, "127.0.0.1", RDMA_PS_TCP);

	bench_qp(id);
	assert_int_equal(rdma_connect(id, NULL), 0);
	assert_int_equal(ibv_modify_qp(id->qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(tell(ACCEPT, 0, ""), 0);
	assert_int_equal(here(ch, RDMA_CM_EVENT_CONNECT_ERROR), -EINVAL);
	assert_int_equal(there(RDMA_CM_EVENT_REJECTED), 28);
	finish(ch, id);
}

TEST(events, datagram_service_refused__unreachable)
{
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id = client_of(&ch, "127.0.0.1", RDMA_PS_UDP);

	assert_int_equal(rdma_connect(id, NULL), 0);
	assert_int_equal(tell(REJECT, 0, ""), 0);
	assert_int_equal(here(ch, RDMA_CM_EVENT_UNREACHABLE), 2); /* SIDR: rejected */
	finish(ch, id);
}

TEST(events, datagram_service__established_at_the_client)
{
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id = client_of(&ch, "::1", RDMA_PS_UDP);

	assert_int_equal(rdma_connect(id, NULL), 0);
	assert_int_equal(tell(ACCEPT, 0, ""), 0);
	assert_int_equal(here(ch, RDMA_CM_EVENT_ESTABLISHED), 0);
	finish(ch, id);
}

TEST(events, group_joined_and_one_that_cannot_be__multicast_join_and_error)
{
	struct rdma_event_channel *ch;
	struct rlimit files, none;
	struct rdma_cm_id *id;
	int free_fd;

	start_peer();
	ch = bench_channel();
	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(rdma_bind_addr(id, bench_addr("127.0.0.1", 0)), 0);
	bench_qp(id);
	assert_int_equal(rdma_join_multicast(id, bench_addr("239.1.2.3", 0), NULL), 0);
	assert_int_equal(here(ch, RDMA_CM_EVENT_MULTICAST_JOIN), 0);
	assert_int_equal(rdma_join_multicast(id, bench_addr("239.1.2.4", 0), NULL), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	/* Up to the first that is free. */
	free_fd = dup(peer_fd);
	close(free_fd);
	none = (struct rlimit){.rlim_cur = (rlim_t)free_fd, .rlim_max = files.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	/* The kernel's membership takes a socket. */
	assert_int_equal(here(ch, RDMA_CM_EVENT_MULTICAST_ERROR), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
	assert_int_equal(rdma_leave_multicast(id, bench_addr("239.1.2.4", 0)), 0);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

TEST(events, source_that_is_no_device__addr_error)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_id *id;

	bench_veth();
	setenv("ROCEMU_DEVICES", "lo", 1);
	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, bench_addr("10.1.1.9", 7), 1), 0);
	assert_int_equal(here(ch, RDMA_CM_EVENT_ADDR_ERROR), -ENODEV);
	unsetenv("ROCEMU_DEVICES");
	/* It may be tried again. */
	assert_int_equal(rdma_resolve_addr(id, NULL, bench_addr("10.1.1.9", 7), 1), 0);
	assert_int_equal(here(ch, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
	bench_ip("link delete p0");
}

TEST(events, way_lost_after_the_address__route_error)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_id *id;

	bench_veth();
	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, bench_addr("10.1.1.9", 7), 1), 0);
	assert_int_equal(here(ch, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	bench_ip("link set p0 down");
	assert_int_equal(rdma_resolve_route(id, 1), 0);
	assert_int_equal(here(ch, RDMA_CM_EVENT_ROUTE_ERROR), -ENETUNREACH);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
	bench_ip("link delete p0");
}

TEST(events, interface_replaced_by_one_of_its_name__address_resolved_each_time)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_id *id;

	for (unsigned i = 0; i < 10; i++) {
		bench_veth();
		assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
		assert_int_equal(rdma_resolve_addr(id, NULL, bench_addr("10.1.1.9", 7), 1), 0);
		assert_int_equal(here(ch, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
		assert_int_equal(rdma_destroy_id(id), 0);
	}
	rdma_destroy_event_channel(ch);
	bench_ip("link delete p0");
}

TEST(events, address_and_then_interface_removed__addr_change_and_device_removal_at_both)
{
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id;

	start_peer();
	bench_veth();
	id = connected(&ch, "10.1.1.1");
	bench_ip("address del 10.1.1.1/24 dev p0");
	assert_int_equal(here(ch, RDMA_CM_EVENT_ADDR_CHANGE), 0);
	/* The listener's and the connection's. */
	assert_int_equal(there(RDMA_CM_EVENT_ADDR_CHANGE), 0);
	assert_int_equal(there(RDMA_CM_EVENT_ADDR_CHANGE), 0);
	bench_ip("link delete p0");
	assert_int_equal(here(ch, RDMA_CM_EVENT_DISCONNECTED), -ENODEV);
	assert_int_equal(here(ch, RDMA_CM_EVENT_DEVICE_REMOVAL), 0);
	/* The listener's first, which is the older one. */
	assert_int_equal(there(RDMA_CM_EVENT_DEVICE_REMOVAL), 0);
	assert_int_equal(there(RDMA_CM_EVENT_DISCONNECTED), -ENODEV);
	assert_int_equal(there(RDMA_CM_EVENT_DEVICE_REMOVAL), 0);
	assert_int_equal(rdma_disconnect(id), 0);
	finish(ch, id);
}

/* The last test: test_register() keeps their order. */
TEST(events, all_types__each_was_seen)
{
	bench_ip("link set lo up"); /* or some were skipped */
	for (int i = 0; i < TYPES; i++)
		if (!seen[i])
			fail_msg("%s was never seen", rdma_event_str((enum rdma_cm_event_type)i));
}
