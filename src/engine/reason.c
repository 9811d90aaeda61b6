/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/reason.h"

#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "base/why.h"
#include "netdev/addr.h"

struct reason {
	enum rocemu_why_code code;
	const char *name, *text, *rule, *remedy;
};

static const struct reason reasons[] = {
#define X(number, name, text, rule, remedy) {ROCEMU_WHY_##name, #name, text, rule, remedy},
	ROCEMU_WHYS(X)
#undef X
};

static struct why_site sites[ARRAY_LEN(reasons)];

/** Text that grows in a buffer of a fixed size; what does not fit is cut. */
struct line {
	char *at, *end;
};

static __attribute__((format(printf, 2, 3))) void add(struct line *l, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(l->at, (size_t)(l->end - l->at), fmt, ap);
	va_end(ap);
	if (n > 0)
		l->at += MIN((ptrdiff_t)n, l->end - l->at - 1);
}

/* ---- words in braces ---- */

static void add_hex(struct line *l, uint64_t v)
{
	add(l, "0x%llx", (unsigned long long)v);
}

static void add_number(struct line *l, uint64_t v)
{
	add(l, "%llu", (unsigned long long)v);
}

static void add_ms(struct line *l, uint64_t ns)
{
	add(l, "%.3g", (double)ns / 1e6);
}

static void add_state(struct line *l, uint64_t v)
{
	static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

	if (v < ARRAY_LEN(names))
		add(l, "%s", names[v]);
	else
		add(l, "state %llu", (unsigned long long)v);
}

static void add_mask(struct line *l, uint64_t v)
{
	static const char *const names[] = {
		"IBV_QP_STATE",
		"IBV_QP_CUR_STATE",
		"IBV_QP_EN_SQD_ASYNC_NOTIFY",
		"IBV_QP_ACCESS_FLAGS",
		"IBV_QP_PKEY_INDEX",
		"IBV_QP_PORT",
		"IBV_QP_QKEY",
		"IBV_QP_AV",
		"IBV_QP_PATH_MTU",
		"IBV_QP_TIMEOUT",
		"IBV_QP_RETRY_CNT",
		"IBV_QP_RNR_RETRY",
		"IBV_QP_RQ_PSN",
		"IBV_QP_MAX_QP_RD_ATOMIC",
		"IBV_QP_ALT_PATH",
		"IBV_QP_MIN_RNR_TIMER",
		"IBV_QP_SQ_PSN",
		"IBV_QP_MAX_DEST_RD_ATOMIC",
		"IBV_QP_PATH_MIG_STATE",
		"IBV_QP_CAP",
		"IBV_QP_DEST_QPN",
	};
	const char *between = "";

	if (!v)
		add(l, "nothing");
	for (unsigned i = 0; i < 64; i++) {
		if (!(v >> i & 1))
			continue;
		if (i < ARRAY_LEN(names))
			add(l, "%s%s", between, names[i]);
		else
			add(l, "%sbit %u", between, i);
		between = " | ";
	}
}

static void add_peer(struct line *l, const struct rocemu_why *w)
{
	char text[ADDR_TEXT_LEN];

	add(l, "%s", addr_gid_text(&w->peer, text));
	if (w->peer_qpn)
		add(l, " QP 0x%x", w->peer_qpn);
}

/** One word; false: there is no such word. */
static bool add_word(struct line *l, const char *word, size_t len, const struct rocemu_why *w)
{
	const struct {
		const char *word;
		void (*add)(struct line *l, uint64_t v);
		uint64_t value;
	} words[] = {
		{"id", add_number, w->id},
		{"addr", add_hex, w->addr},
		{"end", add_hex, w->addr + w->len},
		{"len", add_number, w->len},
		{"key", add_hex, w->key},
		{"lo", add_hex, w->lo},
		{"hi", add_hex, w->hi},
		{"n", add_number, w->n},
		{"limit", add_number, w->limit},
		{"psn", add_number, w->psn},
		{"ms", add_ms, w->limit},
		{"from", add_state, w->lo},
		{"to", add_state, w->hi},
		{"mask", add_mask, w->n},
		{"needs", add_mask, w->limit},
		{"least", add_number, w->addr},
		{"mtu", add_number, w->lo},
		{"hops", add_number, w->hi},
	};

	if (len == 4 && !memcmp(word, "peer", 4))
		add_peer(l, w);
	else if (len == 4 && !memcmp(word, "what", 4))
		add(l, "%s", w->what ? w->what : "?");
	else {
		for (unsigned i = 0; i < ARRAY_LEN(words); i++)
			if (strlen(words[i].word) == len && !memcmp(words[i].word, word, len)) {
				words[i].add(l, words[i].value);
				return true;
			}
		return false;
	}
	return true;
}

static void add_text(struct line *l, const char *text, const struct rocemu_why *w)
{
	const char *open, *close;

	while ((open = strchr(text, '{')) && (close = strchr(open, '}'))) {
		add(l, "%.*s", (int)(open - text), text);
		if (!add_word(l, open + 1, (size_t)(close - open - 1), w))
			add(l, "%.*s", (int)(close + 1 - open), open);
		text = close + 1;
	}
	add(l, "%s", text);
}

/* ---- lines ---- */

static const struct reason *find(enum rocemu_why_code code)
{
	for (unsigned i = 0; i < ARRAY_LEN(reasons); i++)
		if (reasons[i].code == code)
			return &reasons[i];
	return NULL;
}

const char *reason_name(enum rocemu_why_code code)
{
	const struct reason *r = find(code);

	return r ? r->name : "reason";
}

void reason_text(char *out, size_t size, const struct rocemu_why *w)
{
	const struct reason *r = find(w->code);
	struct line l = {out, out + size};

	if (w->qpn)
		add(&l, "QP 0x%x: ", w->qpn);
	if (!r) {
		add(&l, "unknown reason");
	} else {
		add_text(&l, r->text, w);
		add(&l, ": ");
		add_text(&l, r->rule, w);
		add(&l, ": ");
		add_text(&l, r->remedy, w);
	}
	add(&l, " [0x%x]", w->code);
}

void reason_report(const struct rocemu_why *w)
{
	const struct reason *r = find(w->code);
	char text[900];
	uint32_t held;

	if (!r || !why_begin(&sites[r - reasons], w->qpn, &held))
		return;
	reason_text(text, sizeof(text), w);
	why_print(held, "%s", text);
}
