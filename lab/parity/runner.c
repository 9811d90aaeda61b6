/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One run of one scenario: a process of its own, with a limit of time, whose output is kept. The
 * worker's side is at the end.
 *
 * Output goes to files without names, not to pipes: an agent that a worker's library starts would
 * hold a pipe open.
 */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memfile.h"
#include "parity.h"

const char *const run_names[RUNS] = {"A", "B", "A>B", "B>A"};

enum { TEXT_MAX = 1 << 20 };

/* ---- the parent ---- */

static void become_worker(const struct runner *r, const struct target *req,
			  const struct target *rsp, const char *scenario, int out, int err,
			  const char *capture)
{
	char req_gid[16], rsp_gid[16];

	if (r->drop_in && !(req->system && rsp->system))
		setenv("LD_LIBRARY_PATH", r->drop_in, 1);
	if (*capture)
		setenv("ROCEMU_PCAP", capture, 1);
	snprintf(req_gid, sizeof(req_gid), "%d", req->gid_index);
	snprintf(rsp_gid, sizeof(rsp_gid), "%d", rsp->gid_index);
	if (dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0)
		_exit(127);
	execl(r->self, r->self, "--worker", req->name, req_gid, rsp->name, rsp_gid, scenario,
	      (char *)NULL);
	_exit(127);
}

/** Wait for the end of pid, or end it. @return false: it had to be ended. */
static bool wait_for(pid_t pid, unsigned timeout_ms, int *status)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	bool in_time = fd >= 0 && poll(&p, 1, (int)timeout_ms) > 0;

	if (!in_time)
		kill(pid, SIGKILL);
	if (fd >= 0)
		close(fd);
	while (waitpid(pid, status, 0) < 0 && errno == EINTR)
		;
	return in_time;
}

static char *read_all(int fd)
{
	off_t len = lseek(fd, 0, SEEK_END);
	char *text;
	ssize_t n;

	if (len < 0 || len > TEXT_MAX)
		len = len < 0 ? 0 : TEXT_MAX;
	text = malloc((size_t)len + 1);
	if (!text)
		abort();
	n = pread(fd, text, (size_t)len, 0);
	text[n > 0 ? n : 0] = 0;
	return text;
}

static enum outcome outcome_of(bool in_time, int status)
{
	if (!in_time)
		return OUT_HANG;
	if (!WIFEXITED(status))
		return OUT_CRASH;
	switch (WEXITSTATUS(status)) {
	case RUN_OK:
		return OUT_OK;
	case RUN_UNSUPPORTED:
		return OUT_UNSUPPORTED;
	case RUN_BROKEN:
		return OUT_BROKEN;
	case RUN_NO_DEVICE:
		return OUT_NO_DEVICE;
	default:
		return OUT_CRASH;
	}
}

/** The error, appended to the output so far. */
static char *append_reason(char *text, const char *errors, enum outcome o, int status)
{
	char *all = NULL, how[64] = "";
	int n;

	if (o == OUT_HANG)
		snprintf(how, sizeof(how), "did not end in time");
	else if (o == OUT_CRASH && WIFSIGNALED(status))
		snprintf(how, sizeof(how), "killed by signal %d", WTERMSIG(status));
	else if (o == OUT_CRASH)
		snprintf(how, sizeof(how), "exit code %d", WEXITSTATUS(status));
	n = asprintf(&all, "%s%s%s%s", text, how, *how ? "\n" : "", errors);
	if (n < 0)
		abort();
	free(text);
	return all;
}

void transcript_free(struct transcript *t)
{
	free(t->text);
	free(t->packets);
}

/** Memory as a file, which ends with its processes. @return its descriptor, -1: there is none. */
static int make_capture(const struct runner *r, char path[static 32])
{
	const int fd = r->captures ? memfile_or_temporary("capture", 0) : -1;

	*path = 0;
	if (fd < 0)
		return -1;
	snprintf(path, 32, "/proc/self/fd/%d", fd);
	if (access(path, W_OK) < 0)
		*path = 0;
	return fd;
}

struct transcript runner_run(const struct runner *r, const struct target *req,
			     const struct target *rsp, const char *scenario)
{
	const int out = memfile_or_temporary("transcript", 0);
	const int err = memfile_or_temporary("errors", 0);
	int status = 0;
	struct transcript t = {.outcome = OUT_BROKEN};
	char *errors, path[32];
	const int capture = make_capture(r, path);
	bool in_time;
	pid_t pid;

	fflush(NULL);
	pid = out < 0 || err < 0 ? -1 : fork();
	if (pid < 0) {
		t.text = strdup(strerror(errno));
		return t;
	}
	if (pid == 0)
		become_worker(r, req, rsp, scenario, out, err, path);
	in_time = wait_for(pid, r->timeout_ms, &status);
	t.outcome = outcome_of(in_time, status);
	t.text = read_all(out);
	errors = read_all(err);
	if (t.outcome != OUT_OK && t.outcome != OUT_UNSUPPORTED && t.outcome != OUT_NO_DEVICE)
		t.text = append_reason(t.text, errors, t.outcome, status);
	free(errors);
	if (*path)
		t.packets = packets_read(path);
	if (capture >= 0)
		close(capture);
	close(out);
	close(err);
	return t;
}

/* ---- the worker ---- */

/** An emulated device captures what it has sent, maybe after its peer has had the answer: what
 * takes its lock, as making a CQ does, comes after both. */
static void settle(struct end *e)
{
	struct ibv_cq *cq = e->ctx ? ibv_create_cq(e->ctx, 1, NULL, NULL, 0) : NULL;

	if (cq)
		ibv_destroy_cq(cq);
}

int worker_main(int argc, char **argv)
{
	const struct scenario *s;
	struct pair p = {0};

	if (argc != 7) {
		fputs("--worker is for this program's own use\n", stderr);
		return RUN_BROKEN;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	end_open(&p.req, "req", argv[2], atoi(argv[3]));
	end_open(&p.rsp, "rsp", argv[4], atoi(argv[5]));
	if (!strcmp(argv[6], "probe"))
		return RUN_OK;
	s = registry_find(argv[6]);
	if (!s)
		broken("no scenario %s", argv[6]);
	s->run(&p, s->arg);
	settle(&p.req);
	settle(&p.rsp);
	return RUN_OK;
}
