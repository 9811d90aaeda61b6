/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rocemu stat --prometheus: the text exposition format, over HTTP on the loopback address. One
 * request at a time, of bounded size and time; whatever else comes gets an error, and the
 * connection is closed.
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
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#include "tool.h"

enum { REQUEST_MAX = 4096, CLIENT_MS = 2000, BACKLOG = 8 };

/* ---- the text ---- */

/* Which value of a QP or a lane a metric has. */
struct metric {
	const char *name, *type, *help;
	size_t offset; /* of a uint64_t, in struct rocemu_qp_report or struct stat_lane */
	double unit;
};

static const struct metric qp_metrics[] = {
#define X(name_, text)                                  \
	{"rocemu_qp_" #name_ "_total", "counter", text, \
	 offsetof(struct rocemu_qp_report, stats.name_), 1},
	ROCEMU_QP_STATS(X)
#undef X
		{"rocemu_qp_window_bytes", "gauge", "congestion window of the peer",
		 offsetof(struct rocemu_qp_report, window), 1},
	{"rocemu_qp_inflight_bytes", "gauge", "bytes in flight",
	 offsetof(struct rocemu_qp_report, inflight), 1},
	{"rocemu_qp_rtt_seconds", "gauge", "smoothed round-trip time",
	 offsetof(struct rocemu_qp_report, srtt_ns), 1e-9},
};

static const struct metric lane_metrics[] = {
#define X(name_, text)                                      \
	{"rocemu_device_" #name_ "_total", "counter", text, \
	 offsetof(struct stat_lane, counts.ep.name_), 1},
	ROCEMU_STATS(X)
#undef X
		{"rocemu_device_socket_drops_total", "counter",
		 "datagrams that the kernel dropped for lack of socket buffer",
		 offsetof(struct stat_lane, counts.lane.rx_sock_drops), 1},
	{"rocemu_device_tx_errors_total", "counter",
	 "datagrams that the kernel refused, or that found a ring full",
	 offsetof(struct stat_lane, counts.lane.tx_errors), 1},
};

static void print_label(FILE *f, const char *name, const char *value)
{
	fprintf(f, "%s=\"", name);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			fputc('\\', f);
		fputc(*value >= ' ' && *value <= '~' ? *value : '?', f);
	}
	fputc('"', f);
}

static void print_sample(FILE *f, const struct metric *m, const struct stat_process *p,
			 const struct stat_lane *l, const struct rocemu_qp_report *q)
{
	uint64_t value;

	memcpy(&value, (q ? (const char *)q : (const char *)l) + m->offset, sizeof(value));
	fprintf(f, "%s{pid=\"%d\",", m->name, (int)p->pid);
	print_label(f, "comm", p->comm);
	fputc(',', f);
	print_label(f, "device", l->device);
	fprintf(f, ",slot=\"%u\"", l->slot);
	if (q)
		fprintf(f, ",qpn=\"%u\"", q->qpn);
	if (m->unit < 1)
		fprintf(f, "} %.9f\n", (double)value * m->unit);
	else
		fprintf(f, "} %" PRIu64 "\n", value);
}

static void print_metric(FILE *f, const struct stat_list *l, const struct metric *m, bool of_qps)
{
	fprintf(f, "# HELP %s %s\n# TYPE %s %s\n", m->name, m->help, m->name, m->type);
	for (unsigned i = 0; i < l->n; i++) {
		const struct stat_process *p = &l->process[i];
		const struct stat_lane *lane = NULL;

		while (p->answer && (lane = stat_lane_next(p->answer, lane))) {
			if (!of_qps && !lane->busy)
				print_sample(f, m, p, lane, NULL);
			for (unsigned k = 0; of_qps && k < lane->nqps; k++)
				print_sample(f, m, p, lane, &stat_qps(lane)[k]);
		}
	}
}

void stat_print_metrics(FILE *f, const struct stat_list *l)
{
	fputs("# HELP rocemu_process_answers 1: the query of the process succeeded\n"
	      "# TYPE rocemu_process_answers gauge\n",
	      f);
	for (unsigned i = 0; i < l->n; i++) {
		fprintf(f, "rocemu_process_answers{pid=\"%d\",", (int)l->process[i].pid);
		print_label(f, "comm", l->process[i].comm);
		fprintf(f, "} %d\n", !*l->process[i].problem);
	}
	for (unsigned i = 0; i < sizeof(lane_metrics) / sizeof(*lane_metrics); i++)
		print_metric(f, l, &lane_metrics[i], false);
	for (unsigned i = 0; i < sizeof(qp_metrics) / sizeof(*qp_metrics); i++)
		print_metric(f, l, &qp_metrics[i], true);
}

/* ---- HTTP ---- */

static bool wait_for(int fd, short events, int64_t end)
{
	struct pollfd p = {.fd = fd, .events = events};
	const int64_t left = end - (int64_t)monotonic_ms();

	return left > 0 && poll(&p, 1, (int)left) == 1;
}

/** The request's head, ended by a 0. @return false: it does not come, or is too long. */
static bool read_request(int fd, char text[static REQUEST_MAX], int64_t end)
{
	size_t len = 0;

	while (len < REQUEST_MAX - 1 && wait_for(fd, POLLIN, end)) {
		const ssize_t n = recv(fd, text + len, REQUEST_MAX - 1 - len, 0);

		if (n <= 0)
			return false;
		len += (size_t)n;
		text[len] = 0;
		if (strstr(text, "\r\n\r\n") || strstr(text, "\n\n"))
			return strlen(text) == len;
	}
	return false;
}

static void send_all(int fd, const char *text, size_t len, int64_t end)
{
	while (len && wait_for(fd, POLLOUT, end)) {
		const ssize_t n = send(fd, text, len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno != EAGAIN)
			return;
		text += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
}

static void answer(int fd, const char *status, const char *body, size_t len, int64_t end)
{
	char head[256];
	const int n = snprintf(
		head, sizeof(head),
		"HTTP/1.0 %s\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: %zu\r\n"
		"Connection: close\r\n\r\n",
		status, len);

	send_all(fd, head, (size_t)n, end);
	send_all(fd, body, len, end);
}

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

static void serve_metrics(int fd, int64_t end)
{
	struct stat_list l;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	if (f && stat_read(&l, 0) == 0) {
		stat_print_metrics(f, &l);
		stat_list_free(&l);
	}
	if (f && fclose(f) == 0 && len)
		answer(fd, "200 OK", text, len, end + CLIENT_MS);
	else
		answer(fd, "503 Service Unavailable", "", 0, end);
	free(text);
}

static void serve(int fd)
{
	static const char home[] = "rocemu: see /metrics\n";
	static const char elsewhere[] = "rocemu: Host is neither localhost nor an address\n";
	const int64_t end = (int64_t)monotonic_ms() + CLIENT_MS;
	char request[REQUEST_MAX];

	if (!read_request(fd, request, end))
		answer(fd, "400 Bad Request", "", 0, end);
	else if (!host_is_here(request))
		answer(fd, "403 Forbidden", elsewhere, sizeof(elsewhere) - 1, end);
	else if (is_get(request, "/metrics"))
		serve_metrics(fd, end);
	else if (is_get(request, "/"))
		answer(fd, "200 OK", home, sizeof(home) - 1, end);
	else
		answer(fd, "404 Not Found", "", 0, end);
}

int stat_serve(const char *self, unsigned port)
{
	const struct sockaddr_in at = {.sin_family = AF_INET,
				       .sin_port = htons((uint16_t)port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, BACKLOG) < 0) {
		fprintf(stderr, "%s: 127.0.0.1:%u: %s\n", self, port, strerror(errno));
		return TOOL_FAILED;
	}
	for (;;) {
		const int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

		if (client < 0) {
			poll(NULL, 0, 100); /* no descriptors, no memory: try later */
			continue;
		}
		serve(client);
		close(client);
	}
}
