/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rocemu stat --watch: on a terminal a full screen with rates and sparklines, else the table again
 * and again. Of each QP the last rates are kept from one look to the next; a QP that is gone loses
 * them.
 */
#include "stat-show.h"

#include <locale.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "tool.h"

/* ---- without a terminal ---- */

static int repeat(double seconds, const struct stat_filter *filter, const char *sort)
{
	for (;;) {
		struct stat_list l;

		if (stat_read(&l, filter->pid))
			return TOOL_FAILED;
		stat_print_table(stdout, &l, filter, sort);
		stat_list_free(&l);
		fputc('\n', stdout);
		if (fflush(stdout))
			return TOOL_OK; /* no reader any more */
		poll(NULL, 0, (int)(seconds * 1000));
	}
}

#ifndef HAVE_NCURSES

int stat_watch(double seconds, const struct stat_filter *filter, const char *sort)
{
	return repeat(seconds, filter, sort);
}

#else

#include <curses.h>

enum { HISTORY = 16, KEEP_MAX = 1 << 16 };

/* What was seen of a QP. */
struct seen {
	pid_t pid;
	uint32_t slot, qpn;
	uint64_t at_ns; /* of the process's clock */
	uint64_t tx_bytes, rx_bytes, packets;
	double tx, rx, pps;	   /* per second */
	uint64_t history[HISTORY]; /* bytes per second, both ways; the newest last */
	bool now;		   /* it was there at the last look */
};

struct watch {
	const struct stat_filter *filter;
	const char *sort;
	double seconds;
	struct seen *seen; /* owned */
	size_t nseen;
	bool colours, utf8;
	int top; /* the first row shown */
};

enum { COLOUR_HEAD = 1, COLOUR_BAD, COLOUR_LINE };

static struct seen *find_seen(struct watch *w, pid_t pid, uint32_t slot, uint32_t qpn)
{
	struct seen *more;

	for (size_t i = 0; i < w->nseen; i++)
		if (w->seen[i].qpn == qpn && w->seen[i].pid == pid && w->seen[i].slot == slot)
			return &w->seen[i];
	more = w->nseen < KEEP_MAX ? realloc(w->seen, (w->nseen + 1) * sizeof(*more)) : NULL;
	if (!more)
		return NULL;
	w->seen = more;
	more += w->nseen++;
	*more = (struct seen){.pid = pid, .slot = slot, .qpn = qpn};
	return more;
}

static double rate(uint64_t now, uint64_t before, double seconds)
{
	return now > before ? (double)(now - before) / seconds : 0;
}

static const struct seen *look_at(struct watch *w, const struct stat_process *p,
				  const struct stat_lane *l, const struct rocemu_qp_report *q)
{
	const uint64_t at = p->answer->now_ns, packets = q->stats.tx_packets + q->stats.rx_packets;
	struct seen *s = find_seen(w, p->pid, l->slot, q->qpn);
	double seconds;

	if (!s)
		return NULL;
	seconds = (double)(at - s->at_ns) / 1e9;
	if (s->at_ns && at > s->at_ns) {
		s->tx = rate(q->stats.tx_bytes, s->tx_bytes, seconds);
		s->rx = rate(q->stats.rx_bytes, s->rx_bytes, seconds);
		s->pps = rate(packets, s->packets, seconds);
		memmove(s->history, s->history + 1, sizeof(s->history) - sizeof(*s->history));
		s->history[HISTORY - 1] = (uint64_t)(s->tx + s->rx);
	}
	s->at_ns = at;
	s->tx_bytes = q->stats.tx_bytes;
	s->rx_bytes = q->stats.rx_bytes;
	s->packets = packets;
	s->now = true;
	return s;
}

/** Processes that are gone are dropped. */
static void forget_gone(struct watch *w)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->nseen; i++)
		if (w->seen[i].now) {
			w->seen[kept] = w->seen[i];
			w->seen[kept++].now = false;
		}
	w->nseen = kept;
}

/* ---- drawing ---- */

static void draw_spark(const struct watch *w, const struct seen *s)
{
	static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	static const char *const plain[] = {" ", ".", ".", ":", ":", "-", "=", "#", "#"};
	uint64_t top = 1;

	for (unsigned i = 0; i < HISTORY; i++)
		top = MAX(top, s->history[i]);
	for (unsigned i = 0; i < HISTORY; i++) {
		const unsigned step = s->history[i] ? 1 + (unsigned)(s->history[i] * 7 / top) : 0;

		addstr(w->utf8 ? blocks[step] : plain[step]);
	}
}

static void draw_qp(struct watch *w, const struct seen *s, const struct rocemu_qp_report *q)
{
	const struct rocemu_qp_stats *c = &q->stats;
	const bool bad = c->retransmits || c->timeouts || stat_naks_sent(c) || stat_naks_rcvd(c) ||
			 q->state == IBV_QPS_ERR;
	char n[9][16];

	if (bad && w->colours)
		attron(COLOR_PAIR(COLOUR_BAD));
	printw("%8u %-4s %-5s %6s %6s %6s %6s %5s %5s %5s %6s %6s ", q->qpn, stat_qp_type(q),
	       stat_qp_state(q), stat_short(n[0], (uint64_t)(s ? s->tx : 0)),
	       stat_short(n[1], (uint64_t)(s ? s->rx : 0)),
	       stat_short(n[2], (uint64_t)(s ? s->pps : 0)), stat_short(n[3], c->retransmits),
	       stat_short(n[4], c->timeouts),
	       stat_short(n[5], stat_naks_sent(c) + stat_naks_rcvd(c)),
	       stat_short(n[6], c->rnr_naks_sent + c->rnr_naks_rcvd),
	       q->window ? stat_short(n[7], q->window) : "-",
	       q->srtt_ns ? stat_short_ns(n[8], q->srtt_ns) : "-");
	if (bad && w->colours)
		attroff(COLOR_PAIR(COLOUR_BAD));
	if (s) {
		if (w->colours)
			attron(COLOR_PAIR(COLOUR_LINE));
		draw_spark(w, s);
		if (w->colours)
			attroff(COLOR_PAIR(COLOUR_LINE));
	}
}

/** Row of the whole list, counted by *row, to where it stands on the screen. @return false: not on
 * it. */
static bool at_row(const struct watch *w, int *row)
{
	const int y = (*row)++ - w->top + 2;

	return y >= 2 && y < LINES && move(y, 0) == OK;
}

static void draw_lane(struct watch *w, const struct stat_process *p, const struct stat_lane *l,
		      int *row)
{
	unsigned *of = calloc(l->nqps + 1, sizeof(*of));
	const unsigned n = of ? stat_sort(l, w->filter, w->sort, of) : 0;
	char line[STAT_ROW];

	stat_device_line(line, l);
	if (at_row(w, row))
		addnstr(line, COLS);
	for (unsigned i = 0; i < n; i++) {
		const struct rocemu_qp_report *q = &stat_qps(l)[of[i]];
		const struct seen *s = look_at(w, p, l, q);

		if (at_row(w, row))
			draw_qp(w, s, q);
	}
	free(of);
}

static void draw(struct watch *w, const struct stat_list *list)
{
	int row = 0;

	erase();
	mvprintw(0, 0, "rocemu stat: %u processes, every %.3g s; q quits, arrows scroll", list->n,
		 w->seconds);
	if (w->colours)
		attron(COLOR_PAIR(COLOUR_HEAD));
	mvprintw(1, 0, "%8s %-4s %-5s %6s %6s %6s %6s %5s %5s %5s %6s %6s %s", "QP", "TYPE",
		 "STATE", "TX/s", "RX/s", "PKT/s", "RETRY", "TMO", "NAKS", "RNRS", "WIN", "RTT",
		 "BYTES/s");
	if (w->colours)
		attroff(COLOR_PAIR(COLOUR_HEAD));
	for (unsigned i = 0; i < list->n; i++) {
		const struct stat_process *p = &list->process[i];
		const struct stat_lane *l = NULL;

		if (at_row(w, &row))
			printw("%d %s%s%s", (int)p->pid, p->comm, *p->problem ? ": " : "",
			       p->problem);
		while (p->answer && (l = stat_lane_next(p->answer, l)))
			if (stat_wants_lane(w->filter, l))
				draw_lane(w, p, l, &row);
	}
	w->top = MAX(MIN(w->top, row - 1), 0);
	forget_gone(w);
	refresh();
}

/** Until it is time for the next look. @return false: to quit. */
static bool wait_keys(struct watch *w)
{
	timeout((int)(w->seconds * 1000));
	switch (getch()) {
	case 'q':
	case 'Q':
		return false;
	case KEY_UP:
		w->top--;
		break;
	case KEY_DOWN:
		w->top++;
		break;
	case KEY_PPAGE:
		w->top -= LINES - 2;
		break;
	case KEY_NPAGE:
		w->top += LINES - 2;
		break;
	default:
		break;
	}
	w->top = MAX(w->top, 0);
	return true;
}

static void start_screen(struct watch *w)
{
	const char *no_color = getenv("NO_COLOR");

	initscr();
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	curs_set(0);
	w->colours = has_colors() && !(no_color && *no_color);
	if (!w->colours)
		return;
	start_color();
	use_default_colors();
	init_pair(COLOUR_HEAD, COLOR_CYAN, -1);
	init_pair(COLOUR_BAD, COLOR_RED, -1);
	init_pair(COLOUR_LINE, COLOR_GREEN, -1);
}

int stat_watch(double seconds, const struct stat_filter *filter, const char *sort)
{
	const char *term = getenv("TERM"), *locale = setlocale(LC_ALL, "");
	struct watch w = {.filter = filter, .sort = sort, .seconds = seconds};
	bool memory = true;

	if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO) || !term || !*term ||
	    !strcmp(term, "dumb"))
		return repeat(seconds, filter, sort);
	w.utf8 = locale && (strstr(locale, "UTF-8") || strstr(locale, "utf8"));
	setlocale(LC_NUMERIC, "C");
	start_screen(&w);
	do {
		struct stat_list l;

		memory = stat_read(&l, filter->pid) == 0;
		if (memory) {
			draw(&w, &l);
			stat_list_free(&l);
		}
	} while (memory && wait_keys(&w));
	endwin();
	free(w.seen);
	return memory ? TOOL_OK : TOOL_FAILED;
}

#endif
