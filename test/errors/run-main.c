/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * errors-run: the errors table's rows between two devices, by whatever libibverbs the program
 * finds: the system's, or the drop-in under `rocemu run`. A row is a process, so that one that
 * crashes is a difference as any other. Where an end is emulated, the NAK is looked up in its
 * capture.
 *
 * Prints the differences of a row, then "ok ROW", "differs ROW" or "skipped ROW: why". Exit code 0
 * all as wanted, 1 some differ, 2 usage, 3 the devices cannot be used.
 */
#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "errors.h"

enum { JOBS_MAX = 16, ROW_GUARD_S = 300 };

static const char usage[] =
	"usage: errors-run --req DEVICE --rsp DEVICE [options]\n"
	"  --req, --rsp    the requester's and the responder's device (may be the same)\n"
	"  --only PATTERN  rows whose name matches (* and ?)\n"
	"  --jobs N        rows at a time (default: 1)\n"
	"  --settle MS     how long nothing more may come before a row's end is seen (default: 0)\n"
	"  --patience MS   how long the completions that are wanted may take (default: 30000)\n"
	"  --events MS     and after them the events (default: 30000)\n"
	"  --list          print names and what they are of, and stop\n";

static const char *only = "*";
static unsigned jobs = 1;

/* A row under way, in a process of its own. */
struct job {
	const struct err_row *row;
	pid_t pid;
	FILE *out; /* owned: what it prints */
	int code;  /* exit code; -signal */
	bool ended;
};

/* ---- in the row's process ---- */

static bool same_nak(const struct err_row *row, const char *capture)
{
	char got[16], want[16];
	int nak;

	/* Nothing is sent; the row is of queues and states, not of answers; or no end is emulated.
	 */
	if (row->err || row->body || access(capture, R_OK))
		return true;
	nak = err_nak_in_capture(capture);
	if (nak == row->want.nak)
		return true;
	snprintf(got, sizeof(got), nak > 0 ? "%#x" : nak ? "unreadable" : "-", (unsigned)nak);
	snprintf(want, sizeof(want), row->want.nak ? "%#x" : "-", (unsigned)row->want.nak);
	return err_differs(err_bench_verbs.name, row, 0, "the NAK on the wire", got, want);
}

static _Noreturn void row_process(const struct job *j)
{
	char capture[] = "/tmp/errors-run.XXXXXX";
	const int fd = mkstemp(capture);
	bool ok;

	alarm(ROW_GUARD_S);
	dup2(fileno(j->out), STDOUT_FILENO);
	if (fd >= 0) {
		close(fd);
		unlink(capture);
		setenv("ROCEMU_PCAP", capture, 1);
	}
	ok = err_run(&err_bench_verbs, j->row, 0);
	ok = same_nak(j->row, capture) && ok;
	unlink(capture);
	fflush(stdout);
	_exit(!ok);
}

/* ---- in the program's ---- */

static void start(struct job *j)
{
	j->out = tmpfile();
	fflush(stdout);
	j->pid = j->out ? fork() : -1;
	if (j->pid == 0)
		row_process(j);
	if (j->pid < 0) {
		perror("errors-run");
		exit(ERR_EXIT_BROKEN);
	}
}

/** Wait for one of them to end. */
static void wait_one(struct job *list, unsigned n)
{
	int status;
	const pid_t pid = wait(&status);

	for (unsigned i = 0; i < n; i++)
		if (list[i].pid == pid && !list[i].ended) {
			list[i].ended = true;
			list[i].code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
		}
}

static void print_output(struct job *j)
{
	char line[512];

	rewind(j->out);
	while (fgets(line, sizeof(line), j->out)) {
		if (j->code == ERR_EXIT_BROKEN)
			line[strcspn(line, "\n")] = 0;
		if (j->code == ERR_EXIT_BROKEN && strncmp(line, "verbs, ", 7) != 0)
			err_differs(err_bench_verbs.name, j->row, 0, "around it", line, "no error");
		else
			fputs(line, stdout);
	}
	fclose(j->out);
}

static bool report(struct job *j)
{
	char text[64];

	if (j->row->sim_only) {
		printf("skipped %s: takes a peer that does wrong: simulator only\n", j->row->name);
		return true;
	}
	print_output(j);
	if (j->code < 0) {
		snprintf(text, sizeof(text), "killed by signal %d", -j->code);
		err_differs(err_bench_verbs.name, j->row, 0, "the program", text, "to live");
	}
	printf("%s %s\n", j->code ? "differs" : "ok", j->row->name);
	return !j->code;
}

static unsigned choose(struct job *list, const struct err_row *rows, unsigned n, unsigned have)
{
	for (unsigned i = 0; i < n; i++)
		if (!fnmatch(only, rows[i].name, 0))
			list[have++] = (struct job){.row = &rows[i], .ended = rows[i].sim_only};
	return have;
}

/** Can the devices be used at all? */
static void probe(void)
{
	const struct err_config c = {.type = IBV_QPT_RC, .retry_cnt = 7, .rnr_retry = 7};
	int status = 0;
	const pid_t pid = fork();

	if (pid == 0) {
		err_bench_verbs.close(err_bench_verbs.open(&c));
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || status) {
		if (status && !WIFEXITED(status))
			printf("errors-run: killed by signal %d\n", WTERMSIG(status));
		exit(ERR_EXIT_BROKEN);
	}
}

static int run_all(void)
{
	struct job *list = calloc(err_nrows + err_nbodies, sizeof(*list));
	unsigned n, next = 0, running = 0, printed = 0;
	bool ok = true;

	if (!list)
		return ERR_EXIT_BROKEN;
	n = choose(list, err_rows, err_nrows, 0);
	n = choose(list, err_bodies, err_nbodies, n);
	if (!n) {
		fprintf(stderr, "errors-run: no row matches \"%s\"\n", only);
		free(list);
		return 2;
	}
	probe();
	while (printed < n) {
		for (; next < n && running < jobs; next++)
			if (!list[next].ended) {
				start(&list[next]);
				running++;
			}
		if (running) {
			wait_one(list, n);
			running--;
		}
		for (; printed < n && list[printed].ended; printed++)
			ok &= report(&list[printed]);
	}
	free(list);
	return !ok;
}

static int list_rows(void)
{
	for (unsigned i = 0; i < err_nrows; i++)
		printf("%s\t%s\n", err_rows[i].name, err_rows[i].how);
	for (unsigned i = 0; i < err_nbodies; i++)
		printf("%s\t%s\n", err_bodies[i].name, err_bodies[i].how);
	return 0;
}

/** @return false: not a number from 1 (0 for milliseconds) to max. */
static bool number(const char *text, unsigned least, unsigned max, unsigned *out)
{
	char *end;
	const unsigned long v = strtoul(text, &end, 10);

	*out = (unsigned)v;
	return *text >= '0' && *text <= '9' && !*end && v >= least && v <= max;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"req", required_argument, NULL, 'q'},
						{"rsp", required_argument, NULL, 's'},
						{"only", required_argument, NULL, 'o'},
						{"jobs", required_argument, NULL, 'j'},
						{"settle", required_argument, NULL, 't'},
						{"patience", required_argument, NULL, 'p'},
						{"events", required_argument, NULL, 'e'},
						{"list", no_argument, NULL, 'l'},
						{0}};
	bool good = true;
	int opt;

	while (good && (opt = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (opt) {
		case 'q':
			err_verbs.device[REQ] = optarg;
			break;
		case 's':
			err_verbs.device[RSP] = optarg;
			break;
		case 'o':
			only = optarg;
			break;
		case 'j':
			good = number(optarg, 1, JOBS_MAX, &jobs);
			break;
		case 't':
			good = number(optarg, 0, 60000, &err_verbs.settle_ms);
			break;
		case 'p':
			good = number(optarg, 0, 600000, &err_verbs.patience_ms);
			break;
		case 'e':
			good = number(optarg, 0, 600000, &err_verbs.event_patience_ms);
			break;
		case 'l':
			return list_rows();
		default:
			good = false;
		}
	if (!good || optind < argc || !err_verbs.device[REQ] || !err_verbs.device[RSP]) {
		fputs(usage, stderr);
		return 2;
	}
	return run_all();
}
