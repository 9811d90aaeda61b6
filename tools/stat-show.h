/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of `rocemu stat`: answers of processes, and their output formats. */
#ifndef TOOLS_STAT_SHOW_H
#define TOOLS_STAT_SHOW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "engine/stat-msg.h"

struct stat_process {
	pid_t pid;
	uid_t uid;
	char comm[STAT_NAME];	  /* printable */
	char problem[128];	  /* why there is nothing, or not all, of it; "": there is all */
	struct stat_head *answer; /* owned; checked. NULL: none */
};

struct stat_list {
	struct stat_process *process; /* owned, by pid */
	unsigned n;
	uint64_t now_ns; /* monotonic */
};

/* What is to be shown. */
struct stat_filter {
	pid_t pid;	    /* 0: all */
	uint32_t qpn;	    /* 0: all */
	const char *device; /* NULL: all */
};

/* stat-read.c */

/**
 * Query all processes that the caller may query: the user's, or for root all users'. Waits only
 * briefly for each. Removes stale sockets. @return 0 or -ENOMEM.
 */
int stat_read(struct stat_list *out, pid_t only);
void stat_list_free(struct stat_list *l);

/* stat-show.c */

bool stat_wants_lane(const struct stat_filter *f, const struct stat_lane *l);
bool stat_wants_qp(const struct stat_filter *f, const struct rocemu_qp_report *q);
const char *stat_qp_type(const struct rocemu_qp_report *q);
const char *stat_qp_state(const struct rocemu_qp_report *q);
/** A number in at most five characters: "12345", "123K", "1.2M". */
const char *stat_short(char out[static 16], uint64_t n);
/** A time likewise: "850ns", "12us", "1.2ms". */
const char *stat_short_ns(char out[static 16], uint64_t ns);
/** NAKs for errors and for PSNs. */
uint64_t stat_naks_sent(const struct rocemu_qp_stats *s);
uint64_t stat_naks_rcvd(const struct rocemu_qp_stats *s);
/**
 * Put QPs of a lane in order: of[i] is the index of the i-th. key: see stat_is_sort_key(). @return
 * how many to show.
 */
unsigned stat_sort(const struct stat_lane *l, const struct stat_filter *f, const char *key,
		   unsigned *of);
bool stat_is_sort_key(const char *key);
/** The heading of the columns, and a QP's row; out has room for STAT_ROW. */
enum { STAT_ROW = 200 };
const char *stat_heading(void);
void stat_row(char out[static STAT_ROW], const struct rocemu_qp_report *q);
void stat_device_line(char out[static STAT_ROW], const struct stat_lane *l);

void stat_print_table(FILE *f, const struct stat_list *l, const struct stat_filter *filter,
		      const char *sort);

/* stat-json.c, stat-dump.c, stat-metrics.c */

void stat_print_json(FILE *f, const struct stat_list *l, const struct stat_filter *filter);
/** Of each QP its queues, and in words what it waits for. */
void stat_print_dump(FILE *f, const struct stat_list *l, const struct stat_filter *filter);
/** Text exposition format of Prometheus. */
void stat_print_metrics(FILE *f, const struct stat_list *l);
/** Serve them on 127.0.0.1:port until a signal ends it. @return an exit code. */
int stat_serve(const char *self, unsigned port);

/* stat-watch.c */

/** Show it again and again. @return an exit code. */
int stat_watch(double seconds, const struct stat_filter *filter, const char *sort);

#endif
