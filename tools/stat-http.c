/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rocemu stat --prometheus: HTTP on the loopback address, where any user can connect. Each client
 * has a bounded time for its request, of bounded size, and for taking the answer; none waits for
 * another. Whatever else comes gets an error, and the connection is closed.
 */
#include "stat-show.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"

#include "tool.h"

enum {
	REQUEST_MAX = 4096,
	CLIENT_MS = 2000,
	BACKLOG = 64,
	CLIENTS_MAX = 64, /* one more: the oldest is closed */
	AGAIN_MS = 100,	  /* no descriptors, no memory: try later */
};

struct client {
	int fd;
	int64_t end; /* monotonic, in ms */
	char request[REQUEST_MAX];
	size_t got;
	char *answer; /* owned; NULL: the request is not complete */
	size_t len, sent;
};

struct http {
	int fd;
	struct client *client[CLIENTS_MAX]; /* oldest first */
	unsigned n;
};

/* ---- requests ---- */

static bool is_get(const char *request, const char *path)
{
	const size_t len = strlen(path);

	return !strncmp(request, "GET ", 4) && !strncmp(request + 4, path, len) &&
	       (request[4 + len] == ' ' || request[4 + len] == '?');
}

/** An address, or localhost; with or without a port. */
static bool is_here(const char *host, size_t len)
{
	const bool v6 = len && *host == '[';
	const size_t name = v6 ? strcspn(host, "]") : strcspn(host, ":\r\n \t");
	struct in6_addr addr;
	char text[64];

	if (name >= len + !v6 || name >= sizeof(text))
		return false;
	memcpy(text, host + v6, name - v6);
	text[name - v6] = 0;
	host += name + v6;
	len -= name + v6;
	if (len && (*host != ':' || strspn(host + 1, "0123456789") != len - 1))
		return false;
	return inet_pton(v6 ? AF_INET6 : AF_INET, text, &addr) == 1 ||
	       (!v6 && !strcasecmp(text, "localhost"));
}

/*
 * A page in a browser may have its own name resolve to 127.0.0.1 and read what is served here as
 * its own site's. The browser then sends that name as Host. Clients that are none may send no Host.
 */
static bool host_is_here(const char *request)
{
	for (const char *line = strchr(request, '\n'); line; line = strchr(line, '\n')) {
		size_t len;

		line++;
		if (strncasecmp(line, "Host:", 5) != 0)
			continue;
		line += 5 + strspn(line + 5, " \t");
		len = strcspn(line, "\r\n");
		while (len && (line[len - 1] == ' ' || line[len - 1] == '\t'))
			len--;
		if (!is_here(line, len))
			return false;
	}
	return true;
}

static char *answer(const char *status, const char *body, size_t body_len, size_t *len)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, len);

	if (!f)
		return NULL;
	fprintf(f,
		"HTTP/1.0 %s\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: %zu\r\n"
		"Connection: close\r\n\r\n",
		status, body_len);
	fwrite(body, 1, body_len, f);
	if (fclose(f) == 0)
		return text;
	free(text);
	return NULL;
}

static char *answer_metrics(size_t *answer_len)
{
	struct stat_list l;
	char *text = NULL, *a;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	if (f && stat_read(&l, 0) == 0) {
		stat_print_metrics(f, &l);
		stat_list_free(&l);
	}
	if (f && fclose(f) == 0 && len)
		a = answer("200 OK", text, len, answer_len);
	else
		a = answer("503 Service Unavailable", "", 0, answer_len);
	free(text);
	return a;
}

static char *answer_request(const char *request, bool complete, size_t *len)
{
	static const char home[] = "rocemu: see /metrics\n";
	static const char elsewhere[] = "rocemu: Host is neither localhost nor an address\n";

	if (!complete)
		return answer("400 Bad Request", "", 0, len);
	if (!host_is_here(request))
		return answer("403 Forbidden", elsewhere, sizeof(elsewhere) - 1, len);
	if (is_get(request, "/metrics"))
		return answer_metrics(len);
	if (is_get(request, "/"))
		return answer("200 OK", home, sizeof(home) - 1, len);
	return answer("404 Not Found", "", 0, len);
}

/* ---- clients ---- */

/** Is the request whole, or will it never be? *good: it is one. */
static bool request_ends(const struct client *c, bool *good)
{
	const bool whole = strstr(c->request, "\r\n\r\n") || strstr(c->request, "\n\n");
	const bool zeros = strlen(c->request) != c->got;

	*good = whole && !zeros;
	return whole || zeros || c->got == REQUEST_MAX - 1;
}

/** @return false: there is nothing more to do for it. */
static bool read_client(struct client *c)
{
	const ssize_t n = recv(c->fd, c->request + c->got, REQUEST_MAX - 1 - c->got, MSG_DONTWAIT);
	bool good;

	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EINTR);
	c->got += (size_t)n;
	c->request[c->got] = 0;
	if (!request_ends(c, &good))
		return true;
	c->answer = answer_request(c->request, good, &c->len);
	c->end = (int64_t)monotonic_ms() + CLIENT_MS;
	return c->answer != NULL;
}

static bool write_client(struct client *c)
{
	const ssize_t n =
		send(c->fd, c->answer + c->sent, c->len - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	c->sent += (size_t)n;
	return c->sent < c->len;
}

static bool serve(struct client *c)
{
	if (!c->answer && !read_client(c))
		return false;
	return !c->answer || write_client(c);
}

static void drop(struct http *h, unsigned i)
{
	struct client *c = h->client[i];

	close(c->fd);
	free(c->answer);
	free(c);
	h->n--;
	memmove(h->client + i, h->client + i + 1, (h->n - i) * sizeof(*h->client));
}

static void accept_client(struct http *h)
{
	const int fd = accept4(h->fd, NULL, NULL, SOCK_CLOEXEC);
	struct client *c = fd < 0 ? NULL : calloc(1, sizeof(*c));

	if (!c) {
		if (fd >= 0)
			close(fd);
		poll(NULL, 0, AGAIN_MS);
		return;
	}
	if (h->n == CLIENTS_MAX)
		drop(h, 0);
	c->fd = fd;
	c->end = (int64_t)monotonic_ms() + CLIENT_MS;
	h->client[h->n++] = c;
}

/** One round of poll(): the clients first, since accepting changes their places. */
static void serve_round(struct http *h)
{
	const int64_t now = (int64_t)monotonic_ms();
	struct pollfd p[CLIENTS_MAX + 1];
	int64_t left = CLIENT_MS;
	const unsigned n = h->n;

	for (unsigned i = 0; i < n; i++) {
		p[i] = (struct pollfd){.fd = h->client[i]->fd,
				       .events = h->client[i]->answer ? POLLOUT : POLLIN};
		left = MIN(left, MAX(h->client[i]->end - now, (int64_t)0));
	}
	p[n] = (struct pollfd){.fd = h->fd, .events = POLLIN};
	if (poll(p, n + 1, n ? (int)left : -1) < 0)
		return;
	for (unsigned i = n; i-- > 0;)
		if ((p[i].revents && !serve(h->client[i])) ||
		    h->client[i]->end <= (int64_t)monotonic_ms())
			drop(h, i);
	if (p[n].revents)
		accept_client(h);
}

int stat_serve(const char *self, unsigned port)
{
	const struct sockaddr_in at = {.sin_family = AF_INET,
				       .sin_port = htons((uint16_t)port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct http h = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
	const int on = 1;

	if (h.fd < 0 || setsockopt(h.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(h.fd, (const struct sockaddr *)&at, sizeof(at)) < 0 || listen(h.fd, BACKLOG) < 0) {
		fprintf(stderr, "%s: 127.0.0.1:%u: %s\n", self, port, strerror(errno));
		return TOOL_FAILED;
	}
	for (;;)
		serve_round(&h);
}
