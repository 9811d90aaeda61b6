/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands about completion queues (one queue's completions in their order, events), and the end of
 * queue pairs. */
#include <string.h>

#include "scenario/internal.h"

#include "base/util.h"

void list_append(char *to, size_t size, const char *text, size_t len)
{
	size_t n = strlen(to);

	if (n && n + 2 < size) {
		memcpy(to + n, "; ", 2);
		n += 2;
	}
	len = MIN(len, size - 1 - n);
	memcpy(to + n, text, len);
	to[n + len] = 0;
}

const char *with_kept(struct round *r, const char *got)
{
	char *kept = r->kept[r->end];

	if (!*kept)
		return got;
	if (*got)
		list_append(kept, sizeof(r->kept[0]), got, strlen(got));
	memcpy(r->seen, kept, sizeof(r->seen));
	*kept = 0;
	return r->seen;
}

/** Move up to n completions of the one queue from what is kept to r->seen. @return how many. */
static unsigned take(struct round *r, bool recv, unsigned n)
{
	const char *p = r->kept[r->end];
	char rest[KEPT_LEN] = "";
	unsigned got = 0;

	while (*p) {
		const char *next = strstr(p, "; ");
		const size_t len = next ? (size_t)(next - p) : strlen(p);

		if ((strncmp(p, "recv ", 5) == 0) == recv && got < n) {
			list_append(r->seen, sizeof(r->seen), p, len);
			got++;
		} else {
			list_append(rest, sizeof(rest), p, len);
		}
		p = next ? next + 2 : p + len;
	}
	memcpy(r->kept[r->end], rest, sizeof(rest));
	return got;
}

unsigned list_items(const char *list)
{
	unsigned n = 1;

	for (const char *p = list; (p = strchr(p, ';')); p++)
		n++;
	return n;
}

/** As many completions of the one queue as the line has; what else came is kept. */
static bool queue(struct round *r, bool recv)
{
	char want[2 * SCENARIO_LINE_MAX];
	unsigned n, got;

	if (!expected_text(r, want, sizeof(want)))
		return false;
	n = list_items(want);
	*r->seen = 0;
	got = take(r, recv, n);
	while (got < n) {
		const char *more = r->b->completions(r->world, r->end, n - got);

		if (!*more)
			break;
		list_append(r->kept[r->end], sizeof(r->kept[0]), more, strlen(more));
		got += take(r, recv, n - got);
	}
	return compare(r, want, r->seen);
}

bool run_send_cq(struct round *r)
{
	return queue(r, false);
}

bool run_recv_cq(struct round *r)
{
	return queue(r, true);
}

bool run_events(struct round *r)
{
	char want[2 * SCENARIO_LINE_MAX];

	if (!expected_text(r, want, sizeof(want)))
		return false;
	return compare(r, want,
		       r->b->events(r->world, r->end,
				    strcmp(want, "nothing") == 0 ? 0 : list_items(want)));
}

bool run_cq_event(struct round *r)
{
	const bool none = take_word(r, "none");

	if (!end_of_line(r))
		return false;
	return r->b->cq_event(r->world, r->end, !none) != none ||
	       fail(r, none ? "an event came" : "no event came");
}

bool run_destroy_qp(struct round *r)
{
	int want;

	return read_errno(r, &want) && end_of_line(r) &&
	       expect_result(r, r->b->destroy_qp(r->world, r->end), want);
}

bool run_kill(struct round *r)
{
	return end_of_line(r) && expect_result(r, r->b->kill(r->world, r->end), 0);
}
