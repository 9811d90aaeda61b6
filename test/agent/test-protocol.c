/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/protocol.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/gsi-frame.h"
#include "base/bytes.h"
#include "test.h"

static int round_trip(const struct agent_msg *in, struct agent_msg *out)
{
	uint8_t buf[AGENT_MSG_MAX];
	size_t len = agent_msg_encode(in, buf);

	memset(out, 0xa5, sizeof(*out));
	out->nfds = in->nfds;
	return agent_msg_decode(buf, len, out);
}

TEST(protocol, each_message__decodes_to_what_was_encoded)
{
	struct agent_msg in = {.type = AGENT_HELLO}, out;

	assert_int_equal(round_trip(&in, &out), 0);
	assert_int_equal(out.type, AGENT_HELLO);

	in = (struct agent_msg){.type = AGENT_REJOIN, .u.rejoin = {AGENT_LANE, 1023, 1ull << 63}};
	assert_int_equal(round_trip(&in, &out), 0);
	assert_int_equal(out.u.rejoin.place, 1023);
	assert_true(out.u.rejoin.nonce == 1ull << 63);

	in = (struct agent_msg){.type = AGENT_WELCOME, .u.welcome = {AGENT_LANE, 1023, 16383}};
	assert_int_equal(round_trip(&in, &out), 0);
	assert_int_equal(out.u.welcome.place, 1023);
	assert_int_equal(out.u.welcome.first_index, 16383);

	in = (struct agent_msg){.type = AGENT_SOCKET,
				.u.socket = {{.raw = {1, [15] = 2}}, 0x12345678, 0}};
	assert_int_equal(round_trip(&in, &out), 0);
	assert_memory_equal(&out.u.socket.addr, &in.u.socket.addr, 16);
	assert_int_equal(out.u.socket.scope_id, 0x12345678);

	in.type = AGENT_PEER;
	in.u.socket.slot = 1023;
	assert_int_equal(round_trip(&in, &out), 0);
	assert_int_equal(out.u.socket.slot, 1023);
	in.u.socket.slot = 1024;
	assert_int_equal(round_trip(&in, &out), -EBADMSG);

	agent_msg_set_error(&in, ENOSPC, "%s", "no more");
	assert_int_equal(round_trip(&in, &out), 0);
	assert_int_equal(out.u.error.err, ENOSPC);
	assert_string_equal(out.u.error.text, "no more");
}

TEST(protocol, status_file__all_found_and_any_other_length_refused)
{
	struct {
		struct agent_status_head head;
		struct agent_addr_info addrs[1];
		struct agent_gsi_client_info gsi_clients[2];
		struct agent_gsi_listener_info listeners[3];
		struct agent_client_info clients[4];
	} file = {.head = {.naddrs = 1,
			   .ngsi_clients = 2,
			   .nlisteners = 3,
			   .nclients = 4,
			   .holder = 5}};
	const size_t len = offsetof(__typeof__(file), clients) + sizeof(file.clients);
	struct agent_status st = {.data = &file};

	file.addrs[0].dropped = 8;
	file.gsi_clients[1].dropped = 9;
	file.listeners[2].number = 11;
	file.clients[3].slot = 12;
	assert_int_equal(agent_status_parse(&st, len), 0);
	assert_int_equal(st.agent.holder, 5);
	assert_int_equal(st.addrs[0].dropped, 8);
	assert_int_equal(st.gsi_clients[1].dropped, 9);
	assert_int_equal(st.listeners[2].number, 11);
	assert_int_equal(st.clients[3].slot, 12);
	for (size_t n = 0; n < sizeof(file); n++)
		assert_int_equal(agent_status_parse(&st, n), n == len ? 0 : -EPROTO);
	/* A length of 2^32 more. */
	file.head.nlisteners = 3 + (1u << 29);
	assert_int_equal(agent_status_parse(&st, len), -EPROTO);
}

TEST(protocol, wrong_length_type_version_or_fds__refused)
{
	struct agent_msg in = {.type = AGENT_SOCKET}, out = {.nfds = 0};
	uint8_t buf[AGENT_MSG_MAX + 1] = {0};
	size_t len = agent_msg_encode(&in, buf);
	struct agent_msg_header h;

	memcpy(&h, buf, sizeof(h));
	assert_int_equal(agent_msg_decode(buf, len, &out), 0);
	for (size_t n = 0; n < len; n++)
		assert_int_equal(agent_msg_decode(buf, n, &out), -EBADMSG);
	assert_int_equal(agent_msg_decode(buf, len + 1, &out), -EBADMSG);
	out.nfds = 1;
	assert_int_equal(agent_msg_decode(buf, len, &out), -EBADMSG);
	out.nfds = 0;
	h.type = 99;
	memcpy(buf, &h, sizeof(h));
	assert_int_equal(agent_msg_decode(buf, len, &out), -EBADMSG);
	h.version = AGENT_VERSION + 1;
	memcpy(buf, &h, sizeof(h));
	assert_int_equal(agent_msg_decode(buf, len, &out), -EPROTO);
	buf[0] ^= 1;
	assert_int_equal(agent_msg_decode(buf, len, &out), -EBADMSG);
}

TEST(protocol, error_of_another_version__still_read)
{
	struct agent_msg in, out = {.nfds = 0};
	uint8_t buf[AGENT_MSG_MAX];
	struct agent_msg_header h;
	size_t len;

	agent_msg_set_error(&in, EPROTO, "too old");
	len = agent_msg_encode(&in, buf);
	memcpy(&h, buf, sizeof(h));
	h.version = 77;
	memcpy(buf, &h, sizeof(h));
	assert_int_equal(agent_msg_decode(buf, len, &out), 0);
	assert_string_equal(out.u.error.text, "too old");
}

TEST(protocol, values_out_of_range__refused)
{
	struct agent_msg in = {.type = AGENT_WELCOME, .u.welcome = {AGENT_LANE, 1024, 0}}, out;

	assert_int_equal(round_trip(&in, &out), -EBADMSG);
	in.u.welcome.place = 0;
	assert_int_equal(round_trip(&in, &out), -EBADMSG);
	in.u.welcome.place = 1;
	in.u.welcome.first_index = 16384;
	assert_int_equal(round_trip(&in, &out), -EBADMSG);
	in.u.welcome.first_index = 0;
	assert_int_equal(round_trip(&in, &out), 0);
	/* A lane has no second socket, a GSI client always has. */
	in.nfds = 2;
	assert_int_equal(round_trip(&in, &out), -EBADMSG);
	in.u.welcome.kind = AGENT_GSI;
	assert_int_equal(round_trip(&in, &out), 0);
	in.nfds = 0;
	assert_int_equal(round_trip(&in, &out), -EBADMSG);
	in = (struct agent_msg){.type = AGENT_HELLO, .u.hello = {AGENT_KIND_COUNT}};
	assert_int_equal(round_trip(&in, &out), -EBADMSG);
	in = (struct agent_msg){.type = AGENT_REJOIN, .u.rejoin = {AGENT_KIND_COUNT, 1, 1}};
	assert_int_equal(round_trip(&in, &out), -EBADMSG);
	in.u.rejoin.kind = AGENT_GSI;
	in.u.rejoin.place = 1024;
	assert_int_equal(round_trip(&in, &out), -EBADMSG);
	in.u.rejoin.place = 0;
	assert_int_equal(round_trip(&in, &out), -EBADMSG);
	in = (struct agent_msg){.type = AGENT_ERROR, .u.error = {.err = 0}};
	assert_int_equal(round_trip(&in, &out), -EBADMSG);
}

TEST(protocol, error_text_with_control_characters__cleaned)
{
	struct agent_msg in, out;

	agent_msg_set_error(&in, EPERM, "a\033[2Jb\nc");
	assert_int_equal(round_trip(&in, &out), 0);
	assert_string_equal(out.u.error.text, "a?[2Jb?c");
}

TEST(protocol, too_many_descriptors_received__refused_and_closed)
{
	struct agent_msg m = {.type = AGENT_WELCOME, .nfds = 2, .u.welcome = {AGENT_GSI, 1, 1}},
			 out;
	int pair[2], probe, after;
	uint8_t buf[AGENT_MSG_MAX];
	union {
		struct cmsghdr align;
		uint8_t buf[CMSG_SPACE(8 * sizeof(int))];
	} control = {0};
	struct iovec iov = {.iov_base = buf};
	struct msghdr mh = {.msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control.buf,
			    .msg_controllen = sizeof(control.buf)};
	struct cmsghdr *cm = CMSG_FIRSTHDR(&mh);

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	iov.iov_len = agent_msg_encode(&m, buf);
	cm->cmsg_level = SOL_SOCKET;
	cm->cmsg_type = SCM_RIGHTS;
	cm->cmsg_len = CMSG_LEN(8 * sizeof(int));
	for (unsigned i = 0; i < 8; i++)
		memcpy(CMSG_DATA(cm) + i * sizeof(int), &pair[0], sizeof(int));
	probe = dup(0);
	close(probe);
	assert_true(sendmsg(pair[0], &mh, 0) > 0);
	assert_int_equal(agent_msg_recv(pair[1], &out, 0), -EBADMSG);
	assert_int_equal(out.nfds, 0);
	after = dup(0);
	assert_int_equal(after, probe); /* the lowest free descriptor is the same: none leaked */
	close(after);
	/* Two, as many as fit, arrive. */
	m.fds[0] = m.fds[1] = pair[0];
	assert_int_equal(agent_msg_send(pair[0], &m, 0), 0);
	assert_int_equal(agent_msg_recv(pair[1], &out, 0), 0);
	assert_int_equal(out.nfds, 2);
	agent_msg_close_fds(&out);
	close(pair[0]);
	assert_int_equal(agent_msg_recv(pair[1], &out, 0), -ECONNRESET);
	close(pair[1]);
}

TEST(protocol, instance_names__differ_by_user_name_and_suffix)
{
	struct agent_instance a = {.uid = 1}, b = {.uid = 1, .name = "x"}, c = {.system = true};
	struct sockaddr_un sa, sb;
	socklen_t len = agent_instance_addr(&a, "", &sa);

	assert_int_equal(sa.sun_path[0], 0);
	assert_memory_equal(sa.sun_path + 1, "rocemu-agent-v4:1:", 18);
	assert_int_equal(len, offsetof(struct sockaddr_un, sun_path) + 19);
	assert_int_not_equal(agent_instance_addr(&b, "", &sb), len);
	agent_instance_addr(&c, "+0123456789abcdef", &sb);
	assert_string_equal(sb.sun_path + 1, "rocemu-agent-v4:system:+0123456789abcdef");
}

/* The separator of a suffix cannot be in a name. */
TEST(protocol, instance_name_with_a_separator__refused)
{
	static const char *const names[] = {"a+b", "a:b", "+", ":", "a b", "a/b"};
	struct agent_instance r;

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		setenv("ROCEMU_AGENT_NAME", names[i], 1);
		assert_int_equal(agent_instance_init(&r, false), -EINVAL);
	}
	setenv("ROCEMU_AGENT_NAME", "a-b_c.D9", 1);
	assert_int_equal(agent_instance_init(&r, false), 0);
	unsetenv("ROCEMU_AGENT_NAME");
}

TEST(protocol, connection_management__decodes_to_what_was_encoded)
{
	struct agent_gsi_bind bind = {0x1061d2f, {.raw = {1, [15] = 2}}, 3, AGENT_GSI_AFONLY};
	struct agent_msg in, out;

	in = (struct agent_msg){.type = AGENT_GSI_BIND, .u.gsi_bind = {bind, 7, 0}};
	assert_int_equal(round_trip(&in, &out), 0);
	assert_int_equal(out.u.gsi_bind.key, 7);
	assert_int_equal(out.u.gsi_bind.bind.service_id, bind.service_id);
	assert_memory_equal(out.u.gsi_bind.bind.addr.raw, bind.addr.raw, 16);
	assert_int_equal(out.u.gsi_bind.bind.scope_id, 3);
	assert_int_equal(out.u.gsi_bind.bind.flags, AGENT_GSI_AFONLY);
	in.u.gsi_bind.bind.flags = 4;
	assert_int_equal(round_trip(&in, &out), -EBADMSG);

	in = (struct agent_msg){.type = AGENT_GSI_DONE, .u.gsi_done.value = 1ull << 60};
	assert_int_equal(round_trip(&in, &out), 0);
	assert_true(out.u.gsi_done.value == 1ull << 60);
}

TEST(protocol, frames__whole_and_within_bounds_or_refused)
{
	const struct gsi_frame good = {.magic = GSI_FRAME_MAGIC, .type = GSI_FRAME_EXIT_SET};
	struct gsi_frame f = good;

	assert_true(gsi_frame_ok(&f, sizeof(f)));
	assert_false(gsi_frame_ok(&f, sizeof(f) - 1));
	assert_false(gsi_frame_ok(&f, sizeof(f) + 1));
	assert_false(gsi_frame_ok(&f, 0));
#define REFUSED(field, value) \
	(f = good, f.field = (value), assert_false(gsi_frame_ok(&f, sizeof(f))))
	REFUSED(magic, 0x526f4301);
	REFUSED(type, 0);
	REFUSED(type, GSI_FRAME_EXIT_CLEAR + 1);
	REFUSED(cm_timeout, 32);
	REFUSED(retries, 16);
	REFUSED(m.nflips, GSI_FLIPS_MAX + 1);
}
