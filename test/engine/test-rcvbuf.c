/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests which sockets are requested, when, and how much may be sent meanwhile; real sockets as
 * receivers.
 */
#include "engine/rcvbuf.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"
#include "wire/bth.h"

enum { UD_SEND_ONLY = 0x64, RC_SEND_ONLY = 0x04 };

static struct rcvbuf p;

static void start(void)
{
	rcvbuf_fini(&p);
	p = (struct rcvbuf){0};
}

/* Send one packet to a slot at the address 10.0.0.host. */
static bool send_to(uint8_t opcode, uint16_t slot, uint8_t host, uint32_t len, rocemu_ns_t now)
{
	const struct rocemu_path path = {.dgid = {.raw = {[10] = 0xff, 0xff, 10, 0, 0, host}}};
	struct rocemu_tx tx = {.path = &path, .payload_len = len};
	struct rocemu_tx *pkt[] = {&tx};

	tx.hdr[0] = opcode;
	put_be24(tx.hdr + BTH_DQPN, (uint32_t)slot << ROCEMU_QPN_INDEX_BITS | 7);
	return rcvbuf_sending(&p, 3, now, pkt, 1);
}

static bool send_ud(uint16_t slot, uint32_t len, rocemu_ns_t now)
{
	return send_to(UD_SEND_ONLY, slot, 1, len, now);
}

static int udp_socket(uint16_t *port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	*port = ntohs(a.sin_port);
	return fd;
}

TEST(rcvbuf, small_messages_to_many__no_query)
{
	struct rcvbuf_addr addr;

	start();
	for (rocemu_ns_t now = 1; now < 100; now++)
		for (uint16_t slot = 1; slot < 100; slot++)
			assert_false(send_ud(slot, 8, now));
	assert_false(rcvbuf_next_query(&p, &addr));
	assert_true(rcvbuf_room(&p, 100) == UINT64_MAX);
	/* After a while without any the first burst is small again. */
	assert_int_equal(rcvbuf_room(&p, 100000000), RCVBUF_FIRST);
}

TEST(rcvbuf, reliable_or_to_a_group__no_query)
{
	const struct rocemu_path path = {.dgid = {.raw = {[10] = 0xff, 0xff, 239, 0, 0, 1}}};
	struct rocemu_tx tx = {.path = &path, .hdr = {UD_SEND_ONLY}, .payload_len = 4096};
	struct rocemu_tx *pkt[] = {&tx};

	start();
	for (unsigned i = 0; i < 100; i++) {
		assert_false(send_to(RC_SEND_ONLY, 5, 1, 4096, 1));
		assert_false(rcvbuf_sending(&p, 0, 1, pkt, 1));
	}
}

TEST(rcvbuf, stream__one_query_and_limited_until_the_answer)
{
	struct rcvbuf_addr addr;
	uint32_t sent = 0;
	unsigned asked = 0;

	start();
	while (rcvbuf_room(&p, 1) > 0 && sent < 2 * RCVBUF_FIRST) {
		asked += send_ud(5, 4000, 1);
		sent += 4000;
	}
	assert_int_equal(asked, 1);
	assert_in_range(sent, RCVBUF_FIRST - 8192, RCVBUF_FIRST + 8192);
	assert_true(rcvbuf_next_query(&p, &addr));
	assert_int_equal(addr.slot, 5);
	assert_int_equal(addr.scope_id, 3);
	assert_int_equal(addr.gid.raw[15], 1);
	assert_false(rcvbuf_next_query(&p, &addr));
	/*
	 * Others wait as well: the endpoint has one limit only. A stopped agent delays sending for
	 * a moment.
	 */
	assert_int_equal(rcvbuf_room(&p, 2), 0);
	send_ud(5, 4000, RCVBUF_TIMEOUT_NS + 1);
	assert_true(rcvbuf_room(&p, RCVBUF_TIMEOUT_NS + 1) == UINT64_MAX);
	/* Not on this host. */
	rcvbuf_set(&p, &addr, -1);
	for (unsigned i = 0; i < 100; i++)
		assert_false(send_ud(5, 4000, 3));
	assert_true(rcvbuf_room(&p, 3) == UINT64_MAX);
}

TEST(rcvbuf, receiver_on_this_host__its_buffer_counts)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	static char data[1400];
	struct rcvbuf_addr addr;
	uint64_t empty, fuller;
	uint16_t port;
	int fd = udp_socket(&port), out = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	start();
	for (unsigned i = 0; i < 10; i++)
		send_ud(5, 4000, 1);
	assert_true(rcvbuf_next_query(&p, &addr));
	rcvbuf_set(&p, &addr, dup(fd));
	empty = rcvbuf_room(&p, 1);
	assert_true(empty > 0 && empty < UINT64_MAX);
	to.sin_port = htons(port);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(
			sendto(out, data, sizeof(data), 0, (struct sockaddr *)&to, sizeof(to)),
			sizeof(data));
	fuller = rcvbuf_room(&p, 1);
	assert_true(fuller < empty);
	/* Not sent to for a while: it does not limit the sender. */
	assert_int_equal(rcvbuf_room(&p, 100000000), RCVBUF_FIRST);
	close(fd);
	close(out);
	start();
}

TEST(rcvbuf, receiver_that_stopped__does_not_limit_the_sender)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	static char data[1400];
	struct rcvbuf_addr addr;
	rocemu_ns_t now = 1;
	uint16_t port;
	int fd = udp_socket(&port), out = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	start();
	for (unsigned i = 0; i < 10; i++)
		send_ud(5, 4000, now);
	assert_true(rcvbuf_next_query(&p, &addr));
	rcvbuf_set(&p, &addr, dup(fd));
	to.sin_port = htons(port);
	while (rcvbuf_room(&p, now) > 0)
		assert_int_equal(
			sendto(out, data, sizeof(data), 0, (struct sockaddr *)&to, sizeof(to)),
			sizeof(data));
	/* Sent to again and again, as soon as it does not limit the sender for lack of use. */
	while (now <= RCVBUF_STILL_NS) {
		assert_int_equal(rcvbuf_room(&p, now), 0);
		now += RCVBUF_TIMEOUT_NS;
		send_ud(5, 4000, now);
	}
	now += RCVBUF_TIMEOUT_NS;
	send_ud(5, 4000, now);
	assert_true(rcvbuf_room(&p, now) == UINT64_MAX);
	/* It goes on. */
	assert_int_equal(recv(fd, data, sizeof(data), 0), sizeof(data));
	while (rcvbuf_room(&p, now) == UINT64_MAX)
		assert_int_equal(recv(fd, data, sizeof(data), MSG_DONTWAIT), sizeof(data));
	close(fd);
	close(out);
	start();
}

TEST(rcvbuf, more_streams_than_sockets__oldest_gives_its_up)
{
	struct rcvbuf_addr addr;
	uint16_t port;
	int fd = udp_socket(&port);

	start();
	for (uint16_t slot = 1; slot < 200; slot++) {
		for (unsigned i = 0; i < 10; i++)
			send_ud(slot, 4000, slot);
		assert_true(rcvbuf_next_query(&p, &addr));
		assert_int_equal(addr.slot, slot);
		rcvbuf_set(&p, &addr, dup(fd));
		assert_in_range(p.nsockets, 1, RCVBUF_SOCKETS);
		assert_int_equal(p.nwaiting, 0);
	}
	/* An answer for a dropped receiver is closed: nothing leaks. */
	addr.slot = 999;
	rcvbuf_set(&p, &addr, dup(fd));
	start();
	close(fd);
	/* All copies are closed: the next descriptors are the lowest again. */
	assert_int_equal(udp_socket(&port), fd);
	close(fd);
}

TEST(rcvbuf, agent_does_not_answer__the_list_of_those_that_wait_is_bounded)
{
	struct rcvbuf_addr addr;
	unsigned wanted = 0;

	start();
	for (uint16_t slot = 1; slot < 500; slot++)
		for (unsigned i = 0; i < 10; i++)
			send_ud(slot, 4000, slot);
	while (rcvbuf_next_query(&p, &addr))
		wanted++;
	assert_in_range(wanted, 1, RCVBUF_WAITING);
	assert_in_range(p.nwaiting, 1, RCVBUF_WAITING);
}
