/* SPDX-License-Identifier: BSD-2-Clause */
/* Clients and packets of connection management that do what they may not. */
#include "test.h"

#include "agent/gsi.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/gsi-mad.h"
#include "agent/launch.h"
#include "base/bytes.h"
#include "gsi-peer.h"
#include "netns.h"
#include "peer.h"
#include "user.h"

#define SERVICE rocemu_cm_service_id(ROCEMU_PS_TCP, 7471)

TEST(cm, what_a_client_may_not_send__not_sent)
{
	struct rocemu_gid at = gid_v4(127, 0, 0, 1), two = gid_v4(127, 0, 0, 2),
			  far = gid_v4(127, 0, 0, 9);
	struct gsi_mail m, got;
	struct gsi_peer a, b;
	int fd;

	env_enter();
	a = gsi_peer_start_at(&at);
	b = gsi_peer_start_at(&two);
	fd = wire_open(&far);
	/* An address that only the other one opened. */
	m = mail_req(&two, &far, agent_comm_id(a.number, 1), SERVICE);
	assert_int_equal(gsi_peer_send(&a, &m), 0);
	/* The other one's communication ID. */
	m = mail_req(&at, &far, agent_comm_id(b.number, 1), SERVICE);
	assert_int_equal(gsi_peer_send(&a, &m), 0);
	/* To another address family. */
	m = mail_req(&at, &(struct rocemu_gid){.raw = {[15] = 1}}, agent_comm_id(a.number, 1),
		     SERVICE);
	assert_int_equal(gsi_peer_send(&a, &m), 0);
	/* No MAD; one that becomes the other one's by bits that are inverted on purpose. */
	m = mail_req(&at, &far, agent_comm_id(a.number, 1), SERVICE);
	mail_seal(&m);
	m.mad.mad[0] ^= 1;
	assert_int_equal(gsi_peer_send_mad(&a, &m), 0);
	mail_seal(&m);
	m.mad.flips[m.mad.nflips++] =
		GSI_FLIP_SEALED | (8 * (GSI_HDR_LEN + ROCEMU_MAD_HDR_LEN) + 9);
	assert_int_equal(gsi_peer_send_mad(&a, &m), 0);
	/* After all of them one that it may. */
	m = mail_req(&at, &far, agent_comm_id(a.number, 7), SERVICE);
	assert_int_equal(gsi_peer_send(&a, &m), 0);
	wire_recv(fd, &far, &got);
	assert_int_equal(got.m.req.local_comm_id, agent_comm_id(a.number, 7));
	wire_assert_silent(fd);
	assert_int_equal(gsi_counter(AGENT_GSI_COUNT_tx_refused), 5);
	close(fd);
	gsi_peer_leave(&a);
	gsi_peer_leave(&b);
	env_leave();
}

/* From here on: what is wrong is never answered, and the agent lives. */
static void expect_still_answers(int fd, const struct rocemu_gid *far, const struct rocemu_gid *at)
{
	struct gsi_mail m = mail_req(far, at, 0xfe11ce, SERVICE), got;

	wire_send(fd, &m);
	wire_recv(fd, far, &got);
	assert_int_equal(got.m.attr_id, ROCEMU_CM_REJ);
	assert_int_equal(got.m.rej.remote_comm_id, 0xfe11ce);
	wire_assert_silent(fd);
}

TEST(cm, malformed__never_answered)
{
	struct rocemu_gid at = gid_v4(127, 0, 0, 1), far = gid_v4(127, 0, 0, 9);
	static const struct {
		uint8_t at, value;
	} wrong[] = {{0, 0x65}, {1, 0x51}, {3, 1},  {12, 0}, {19, 2},
		     {20, 2},	{21, 3},   {22, 1}, {23, 2}, {37, 0x0f}};
	uint8_t longer[4 * GSI_PACKET_LEN] = {0};
	struct gsi_peer a;
	struct gsi_mail m;
	int fd;

	env_enter();
	a = gsi_peer_start_at(&at);
	fd = wire_open(&far);
	m = mail_req(&far, &at, 5, SERVICE);
	m.sport = AGENT_PORT;
	mail_seal(&m);
	for (size_t n = 8; n < sizeof(m.bytes); n++)
		wire_send_bytes(fd, &at, m.bytes, n);
	expect_still_answers(fd, &far, &at);
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		mail_seal(&m);
		if (wrong[i].at < GSI_HDR_LEN)
			m.mad.hdr[wrong[i].at] = wrong[i].value;
		else
			m.mad.mad[wrong[i].at - GSI_HDR_LEN] = wrong[i].value;
		gsi_packet_encode(&m.mad, m.bytes);
		wire_send_bytes(fd, &at, m.bytes, sizeof(m.bytes));
	}
	/* The ICRC itself; then one that is too long. */
	mail_seal(&m);
	m.bytes[GSI_PACKET_LEN - 1] ^= 0x80;
	wire_send_bytes(fd, &at, m.bytes, sizeof(m.bytes));
	expect_still_answers(fd, &far, &at);
	mail_seal(&m);
	memcpy(longer, m.bytes, sizeof(m.bytes));
	wire_send_bytes(fd, &at, longer, sizeof(m.bytes) + 4);
	wire_send_bytes(fd, &at, longer, sizeof(longer));
	expect_still_answers(fd, &far, &at);
	assert_int_equal(gsi_counter(AGENT_GSI_COUNT_rx_icrc), 1);
	assert_int_equal(gsi_counter(AGENT_GSI_COUNT_rx_key), 2);
	assert_int_equal(gsi_counter(AGENT_GSI_COUNT_no_listener), 3);
	close(fd);
	gsi_peer_leave(&a);
	env_leave();
}

/* IBTA CA17-3, CA17-8, CA17-24. Fragments of a UDP socket have no DF, so their ICRC is wrong, too.
 */
TEST(cm, ip_options_and_fragments__dropped_before_the_ICRC)
{
	const struct rocemu_gid at = gid_v4(127, 0, 0, 1), far = gid_v4(127, 0, 0, 9);
	const struct gsi_mail m = mail_req(&far, &at, 5, SERVICE);
	static const uint8_t nops[4] = {1, 1, 1, 0};
	const int may_fragment = IP_PMTUDISC_DONT;
	struct gsi_peer a;
	int fd;

	env_enter();
	netns_ip("link set lo mtu 200");
	a = gsi_peer_start_at(&at);
	fd = wire_open(&far);
	assert_int_equal(
		setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &may_fragment, sizeof(may_fragment)),
		0);
	wire_send(fd, &m);
	gsi_wait_counter(AGENT_GSI_COUNT_rx_form, 1);
	netns_ip("link set lo mtu 65536");
	close(fd);
	fd = wire_open(&far);
	assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_OPTIONS, nops, sizeof(nops)), 0);
	wire_send(fd, &m);
	gsi_wait_counter(AGENT_GSI_COUNT_rx_form, 2);
	assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_OPTIONS, NULL, 0), 0);
	expect_still_answers(fd, &far, &at);
	assert_int_equal(gsi_counter(AGENT_GSI_COUNT_rx_icrc), 0);
	close(fd);
	gsi_peer_leave(&a);
	env_leave();
}

TEST(cm, frames_that_are_none__counted_and_nothing_else)
{
	struct rocemu_gid at = gid_v4(127, 0, 0, 1);
	struct agent_msg m = {.type = AGENT_HELLO, .u.hello = {AGENT_GSI}}, answer, refusal;
	uint8_t junk[2 * sizeof(struct gsi_frame)];
	struct agent_instance instance;
	struct gsi_peer a;
	int fd;

	env_enter();
	a = gsi_peer_start_at(&at);
	assert_int_equal(agent_instance_init(&instance, false), 0);
	fd = agent_connect(&instance, PATIENCE_MS);
	assert_true(fd >= 0);
	assert_int_equal(agent_msg_send(fd, &m, 0), 0);
	assert_int_equal(agent_msg_recv(fd, &answer, 0), 0);
	assert_int_equal(answer.type, AGENT_WELCOME);
	assert_int_equal(answer.nfds, 2);
	memset(junk, 0x55, sizeof(junk));
	for (size_t n = 1; n <= sizeof(junk); n++)
		assert_int_equal(send(answer.fds[0], junk, n, MSG_NOSIGNAL), n);
	gsi_wait_counter(AGENT_GSI_COUNT_tx_refused, sizeof(junk));
	/* An unknown key; then requests that a client of connection management must not send. */
	m = (struct agent_msg){.type = AGENT_GSI_LISTEN, .u.gsi_bind.key = 1};
	assert_int_equal(agent_msg_send(fd, &m, 0), 0);
	assert_int_equal(agent_msg_recv(fd, &refusal, 0), 0);
	assert_int_equal(refusal.type, AGENT_ERROR);
	m = (struct agent_msg){.type = AGENT_GSI_DONE};
	assert_int_equal(agent_msg_send(fd, &m, 0), 0);
	assert_int_equal(agent_msg_recv(fd, &refusal, 0), -ECONNRESET);
	agent_msg_close_fds(&answer);
	close(fd);
	gsi_peer_leave(&a);
	env_leave();
}

TEST(cm, number_without_its_token__refused)
{
	struct rocemu_gid at = gid_v4(127, 0, 0, 1);
	struct agent_msg m = {.type = AGENT_REJOIN, .u.rejoin = {AGENT_GSI, 0, 1}}, answer;
	struct agent_instance instance;
	struct gsi_mail got;
	struct gsi_peer a;
	int fd;

	env_enter();
	a = gsi_peer_start_at(&at);
	assert_int_equal(agent_instance_init(&instance, false), 0);
	fd = agent_connect(&instance, PATIENCE_MS);
	m.u.rejoin.place = a.number;
	assert_int_equal(agent_msg_send(fd, &m, 0), 0);
	assert_int_equal(agent_msg_recv(fd, &answer, 0), 0);
	assert_int_equal(answer.type, AGENT_ERROR);
	assert_int_equal(answer.u.error.err, EBADMSG);
	close(fd);
	assert_int_equal(gsi_peer_recv_now(&a, &got), 0);
	gsi_peer_leave(&a);
	env_leave();
}

TEST(cm, another_user__refused)
{
	struct rocemu_gid at = gid_v4(127, 0, 0, 1);
	struct agent_instance instance;
	struct agent_msg answer;
	struct gsi_peer a;
	pid_t pid;
	int status;

	user_need(65534, NULL);
	env_enter();
	a = gsi_peer_start_at(&at);
	assert_int_equal(agent_instance_init(&instance, false), 0);
	pid = fork();
	if (pid == 0) {
		int fd;

		if (user_become(65534))
			_exit(9);
		fd = agent_connect(&instance, PATIENCE_MS);
		if (fd < 0 || agent_msg_recv(fd, &answer, 0))
			_exit(8);
		_exit(answer.type == AGENT_ERROR && answer.u.error.err == EPERM ? 0 : 7);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	gsi_peer_leave(&a);
	env_leave();
}
