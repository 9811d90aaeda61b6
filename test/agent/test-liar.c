/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests the client's side against an agent whose answers are well-formed and wrong, or that grants
 * all requests.
 */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/client-gsi.h"
#include "agent/client.h"
#include "agent/launch.h"
#include "base/rng.h"
#include "peer.h"

enum { NUMBER = 7 };

struct liar {
	struct peer process;
	int before; /* descriptors of this process */
};

/* The first answers; from then on all requests are granted. */
static struct agent_msg script[4];
static unsigned scripted;
static int listener;

/*
 * With the expected descriptors: a file, or, for a client of connection management, the socket of
 * its frames.
 */
static void answer(int conn, const struct agent_msg *says, int frames)
{
	struct agent_msg m = *says;
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	for (unsigned i = 0; i < m.nfds; i++)
		m.fds[i] = null;
	if (m.type == AGENT_WELCOME && m.u.welcome.kind == AGENT_GSI)
		m.fds[0] = frames;
	agent_msg_send(conn, &m, 0);
	close(null);
}

static void lie(int ctl)
{
	struct agent_msg done = {.type = AGENT_GSI_DONE}, asked;
	uint8_t frame[1024];
	struct pollfd pfd[2];
	int frames[2];

	(void)ctl;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, frames))
		_exit(3);
	pfd[0] = (struct pollfd){.fd = accept(listener, NULL, NULL), .events = POLLIN};
	pfd[1] = (struct pollfd){.fd = frames[1], .events = POLLIN};
	for (unsigned n = 0; poll(pfd, 2, -1) > 0;) {
		if (pfd[1].revents && read(frames[1], frame, sizeof(frame)) <= 0)
			_exit(4);
		if (!pfd[0].revents)
			continue;
		if (agent_msg_recv(pfd[0].fd, &asked, 0))
			_exit(0); /* the client has had enough */
		agent_msg_close_fds(&asked);
		answer(pfd[0].fd, n < scripted ? &script[n] : &done, frames[0]);
		n++;
	}
}

static struct liar start(unsigned n, ...)
{
	struct agent_instance instance;
	struct liar l;
	va_list ap;

	env_enter();
	va_start(ap, n);
	for (scripted = 0; scripted < n; scripted++)
		script[scripted] = va_arg(ap, struct agent_msg);
	va_end(ap);
	assert_int_equal(agent_instance_init(&instance, false), 0);
	listener = agent_listen(&instance);
	assert_true(listener >= 0);
	fcntl(listener, F_SETFL, fcntl(listener, F_GETFL) & ~O_NONBLOCK);
	l.process = peer_spawn(0, lie);
	close(listener);
	l.before = count_fds(getpid());
	return l;
}

/* The client has closed its connection, and nothing that came with the answers is left. */
static void end(struct liar *l)
{
	int status;

	assert_int_equal(count_fds(getpid()), l->before);
	assert_int_equal(waitpid(l->process.pid, &status, 0), l->process.pid);
	assert_int_equal(status, 0);
	close(l->process.ctl);
}

static const struct agent_msg welcome = {
	.type = AGENT_WELCOME, .nfds = 1, .u.welcome = {AGENT_LANE, 3, 9}};
static const struct agent_msg socket_is = {.type = AGENT_SOCKET_IS, .nfds = 1};
static const struct agent_msg gsi_welcome = {
	.type = AGENT_WELCOME, .nfds = 2, .u.welcome = {AGENT_GSI, NUMBER, 0}};

TEST(liar, hello_answered_with_something_else__eproto_and_nothing_is_kept)
{
	struct liar l = start(1, socket_is);
	struct agent_client *c;
	char text[AGENT_TEXT_MAX];

	assert_int_equal(agent_client_new(&c, text, sizeof(text)), -EPROTO);
	assert_non_null(strstr(text, "is invalid"));
	end(&l);
}

TEST(liar, socket_answered_with_something_else__eproto_and_nothing_is_kept)
{
	struct rocemu_gid at = gid_v4(127, 0, 0, 1);
	struct liar l = start(2, welcome, welcome);
	struct agent_client *c;
	char text[AGENT_TEXT_MAX];

	assert_int_equal(agent_client_new(&c, text, sizeof(text)), 0);
	assert_string_equal(text, "");
	assert_int_equal(agent_client_socket(c, &at, 0, text, sizeof(text)), -EPROTO);
	assert_non_null(strstr(text, "is invalid"));
	agent_client_free(c);
	end(&l);
}

TEST(liar_cm, hello_answered_with_something_else__eproto_and_nothing_is_kept)
{
	const struct agent_msg done = {.type = AGENT_GSI_DONE};
	struct liar l = start(1, done);
	struct agent_gsi *c;
	char text[AGENT_TEXT_MAX];

	assert_int_equal(agent_gsi_new(&c, text), -EPROTO);
	assert_non_null(strstr(text, "is invalid"));
	end(&l);
}

/* A first welcome has to bring a token. */
TEST(liar_cm, welcome_without_token__eproto_and_nothing_is_kept)
{
	struct agent_msg m = gsi_welcome;
	struct agent_gsi *c;
	char text[AGENT_TEXT_MAX];
	struct liar l;

	m.nfds = 1;
	l = start(1, m);
	assert_int_equal(agent_gsi_new(&c, text), -EPROTO);
	assert_non_null(strstr(text, "is invalid"));
	end(&l);
}

TEST(liar_cm, request_answered_with_something_else__eproto_and_nothing_is_kept)
{
	struct rocemu_gid at = gid_v4(127, 0, 0, 1);
	struct liar l = start(2, gsi_welcome, gsi_welcome);
	struct agent_gsi *c;
	char text[AGENT_TEXT_MAX];

	assert_int_equal(agent_gsi_new(&c, text), 0);
	assert_string_equal(text, "");
	assert_int_equal(agent_gsi_number(c), NUMBER);
	assert_int_equal(agent_gsi_open(c, &at, 0, text), -EPROTO);
	assert_non_null(strstr(text, "is invalid"));
	agent_gsi_free(c);
	end(&l);
}

TEST(client_cm, key_that_is_none__enoent)
{
	struct liar l = start(1, gsi_welcome);
	struct agent_gsi_bind bind = {.service_id = 1};
	struct agent_gsi *c;
	char text[AGENT_TEXT_MAX];
	uint32_t key;

	assert_int_equal(agent_gsi_new(&c, text), 0);
	assert_int_equal(agent_gsi_bind(c, &bind, &key, text), 0);
	assert_int_equal(agent_gsi_listen(c, key + 1, text), -ENOENT);
	assert_int_equal(agent_gsi_unbind(c, key + 1), -ENOENT);
	assert_int_equal(agent_gsi_listen(c, key, text), 0);
	assert_int_equal(agent_gsi_unbind(c, key), 0);
	assert_int_equal(agent_gsi_unbind(c, key), -ENOENT);
	agent_gsi_free(c);
	end(&l);
}

TEST(client_cm, bindings_as_many_as_may_be__one_more_enobufs_until_one_goes)
{
	struct liar l = start(1, gsi_welcome);
	struct agent_gsi_bind bind = {0};
	struct agent_gsi *c;
	char text[AGENT_TEXT_MAX];
	uint32_t key, first;

	assert_int_equal(agent_gsi_new(&c, text), 0);
	assert_int_equal(agent_gsi_bind(c, &bind, &first, text), 0);
	for (unsigned i = 1; i < AGENT_GSI_BINDS_MAX; i++)
		assert_int_equal(agent_gsi_bind(c, &bind, &key, text), 0);
	assert_int_equal(agent_gsi_bind(c, &bind, &key, text), -ENOBUFS);
	assert_int_equal(agent_gsi_unbind(c, first), 0);
	assert_int_equal(agent_gsi_bind(c, &bind, &key, text), 0);
	assert_int_not_equal(key, first);
	agent_gsi_free(c);
	end(&l);
}

TEST(client_cm, exit_mads_as_many_as_may_be__one_more_enobufs_until_one_goes)
{
	const struct agent_exit_mad exit_mad = {.retries = 1};
	struct liar l = start(1, gsi_welcome);
	struct agent_gsi *c;
	char text[AGENT_TEXT_MAX];

	assert_int_equal(agent_gsi_new(&c, text), 0);
	assert_int_equal(agent_gsi_exit_set(c, agent_comm_id(NUMBER + 1, 0), &exit_mad), -EINVAL);
	for (unsigned i = 0; i < AGENT_GSI_EXITS_MAX; i++)
		assert_int_equal(agent_gsi_exit_set(c, agent_comm_id(NUMBER, i), &exit_mad), 0);
	assert_int_equal(
		agent_gsi_exit_set(c, agent_comm_id(NUMBER, AGENT_GSI_EXITS_MAX), &exit_mad),
		-ENOBUFS);
	/* In an earlier one's place there is always room. */
	assert_int_equal(agent_gsi_exit_set(c, agent_comm_id(NUMBER, 5), &exit_mad), 0);
	assert_int_equal(agent_gsi_exit_clear(c, agent_comm_id(NUMBER, 6)), 0);
	assert_int_equal(
		agent_gsi_exit_set(c, agent_comm_id(NUMBER, AGENT_GSI_EXITS_MAX), &exit_mad), 0);
	agent_gsi_free(c);
	end(&l);
}

/* ---- answers at random ---- */

static void answer_at_random(int ctl)
{
	struct agent_msg asked, m;
	uint8_t *body = (uint8_t *)&m.u;
	struct rng rng;
	int fd;

	(void)ctl;
	rng_init(&rng, 7);
	while ((fd = accept(listener, NULL, NULL)) >= 0) {
		while (agent_msg_recv(fd, &asked, 0) == 0) {
			agent_msg_close_fds(&asked);
			m.type = asked.type == AGENT_HELLO && rng_chance(&rng, 0.7)
					 ? AGENT_WELCOME
					 : (enum agent_msg_type)(1 +
								 rng_below(&rng, AGENT_GSI_DONE));
			for (size_t i = 0; i < sizeof(m.u); i++)
				body[i] = (uint8_t)(rng_chance(&rng, 0.5) ? 0 : rng_below(&rng, 3));
			m.nfds = rng_below(&rng, AGENT_MSG_FDS + 1);
			if (m.type == AGENT_WELCOME && rng_chance(&rng, 0.7)) {
				m.u.welcome.kind = asked.u.hello.kind;
				m.u.welcome.place = 1;
				m.nfds = 1 + (asked.u.hello.kind == AGENT_GSI);
			}
			for (unsigned i = 0; i < m.nfds; i++)
				m.fds[i] = fd;
			if (agent_msg_send(fd, &m, 0))
				break;
		}
		close(fd);
	}
	_exit(0);
}

TEST(liar, answers_at_random__errors_and_nothing_is_kept)
{
	struct rocemu_gid at = gid_v4(127, 0, 0, 1);
	struct agent_instance instance;
	struct agent_client *c;
	struct agent_status *st;
	char text[AGENT_TEXT_MAX];
	struct peer process;
	unsigned joined = 0, gave = 0;
	int before, fd;

	env_enter();
	assert_int_equal(agent_instance_init(&instance, false), 0);
	listener = agent_listen(&instance);
	assert_true(listener >= 0);
	fcntl(listener, F_SETFL, fcntl(listener, F_GETFL) & ~O_NONBLOCK);
	process = peer_spawn(0, answer_at_random);
	close(listener);
	before = count_fds(getpid());
	for (unsigned i = 0; i < 400; i++) {
		if (agent_client_status(false, &st, text, sizeof(text)) == 0)
			agent_status_free(st);
		if (agent_client_new(&c, text, sizeof(text)))
			continue;
		joined++;
		fd = agent_client_socket(c, &at, 0, text, sizeof(text));
		if (fd >= 0) {
			gave++;
			close(fd);
		}
		agent_client_free(c);
	}
	assert_in_range(joined, 1, 399);
	assert_in_range(gave, 1, joined - 1);
	assert_int_equal(count_fds(getpid()), before);
	peer_kill(&process);
}
