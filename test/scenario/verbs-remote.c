/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * End b in a process of its own, by a TCP connection: a struct verbs_call and the bytes that follow
 * it, then a struct verbs_answer and the bytes that follow that. Both are the same build. What does
 * not fit is refused, and the connection ends.
 */
#include "verbs-end.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/util.h"

static int sock = -1;

static bool send_all(const void *data, size_t len)
{
	for (const char *p = data; len;) {
		ssize_t n = send(sock, p, len, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

static bool recv_all(void *data, size_t len)
{
	for (char *p = data; len;) {
		ssize_t n = recv(sock, p, len, 0);

		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

static bool set_socket(void)
{
	struct timeval guard = {.tv_sec = VERBS_GUARD_S + 30};
	int one = 1;

	return setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &guard, sizeof(guard)) == 0 &&
	       setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0;
}

/* ---- the process that carries scenarios out ---- */

bool scenario_verbs_connect(const char *peer)
{
	const char *colon = strrchr(peer, ':');
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *ai = NULL;
	char host[256] = "";
	int rc;

	if (!colon || (size_t)(colon - peer) >= sizeof(host)) {
		fprintf(stderr, "--peer %s: HOST:PORT is expected\n", peer);
		return false;
	}
	memcpy(host, peer, (size_t)(colon - peer));
	rc = getaddrinfo(host, colon + 1, &hints, &ai);
	if (rc) {
		fprintf(stderr, "--peer %s: %s\n", peer, gai_strerror(rc));
		return false;
	}
	sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	rc = sock < 0 || connect(sock, ai->ai_addr, ai->ai_addrlen) || !set_socket();
	if (rc)
		fprintf(stderr, "--peer %s: %s\n", peer, strerror(errno));
	freeaddrinfo(ai);
	return !rc;
}

bool verbs_remote_there(void)
{
	return sock >= 0;
}

bool verbs_remote_do(struct verbs_call *c, void *data, struct verbs_answer *a, char *text)
{
	const bool read = c->what == VERBS_READ;
	const uint64_t room = read ? c->len : VERBS_TEXT - 1;

	c->follows = c->what == VERBS_WRITE ? c->len
		     : c->what == VERBS_SEND || c->what == VERBS_RECV
			     ? sizeof(struct scenario_request) * c->number
			     : 0;
	if (!send_all(c, sizeof(*c)) || (c->follows && !send_all(data, c->follows)) ||
	    !recv_all(a, sizeof(*a)))
		return false;
	if (a->magic != VERBS_MAGIC || a->follows > room || (read && a->follows != c->len))
		return false;
	if (!read)
		text[a->follows] = 0;
	return recv_all(read ? data : text, a->follows);
}

/* ---- the process that has end b ---- */

static bool accept_one(const char *port)
{
	struct addrinfo hints = {.ai_family = AF_INET,
				 .ai_socktype = SOCK_STREAM,
				 .ai_flags = AI_PASSIVE},
			*ai = NULL;
	int rc = getaddrinfo(NULL, port, &hints, &ai), one = 1, s = -1;

	if (!rc)
		s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s >= 0 && setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
	    bind(s, ai->ai_addr, ai->ai_addrlen) == 0 && listen(s, 1) == 0)
		sock = accept(s, NULL, NULL);
	if (sock < 0)
		fprintf(stderr, "--listen %s: %s\n", port, rc ? gai_strerror(rc) : strerror(errno));
	if (s >= 0)
		close(s);
	if (ai)
		freeaddrinfo(ai);
	return sock >= 0 && set_socket();
}

/** Does it make sense, and how many bytes does it take? */
static bool valid(const struct verbs_call *c, const struct verbs_end *e, uint64_t *bytes)
{
	const bool posts = c->what == VERBS_SEND || c->what == VERBS_RECV;
	const bool copies = c->what == VERBS_READ || c->what == VERBS_WRITE;

	*bytes = copies ? c->len : c->follows;
	if (c->magic != VERBS_MAGIC || c->area >= SCENARIO_AREAS || c->index >= SCENARIO_ENDS)
		return false;
	if (posts)
		return c->number >= 1 && c->number <= VERBS_LIST &&
		       c->follows == c->number * sizeof(struct scenario_request);
	if (copies)
		return c->len <= e->setup.area &&
		       c->follows == (c->what == VERBS_WRITE ? c->len : 0);
	return !c->follows;
}

static bool serve_one(struct verbs_end *e)
{
	struct verbs_answer a = {0};
	struct verbs_call c;
	uint64_t bytes = 0;
	void *data = NULL;
	bool ok;

	if (!recv_all(&c, sizeof(c)) || !valid(&c, e, &bytes))
		return false;
	data = malloc(bytes ? bytes : 1);
	ok = data && recv_all(data, c.follows);
	if (ok) {
		verbs_end_do(e, &c, data, &a);
		a.follows = c.what == VERBS_READ ? c.len : e->text_len;
		ok = send_all(&a, sizeof(a)) &&
		     send_all(c.what == VERBS_READ ? data : e->text, a.follows);
	}
	free(data);
	return ok;
}

int scenario_verbs_listen(const char *port)
{
	static struct verbs_end e;

	if (!verbs_end_open(&e) || !accept_one(port))
		return 1;
	while (serve_one(&e))
		;
	close(sock);
	ibv_close_device(e.ctx);
	/* The last call ends what was made, and every failure is the other process's to report. */
	return e.pd ? 1 : 0;
}
