/* SPDX-License-Identifier: BSD-2-Clause */
/* What answers of conform-peer state. */
#include "conform/remote.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "scenario/names.h"

/** What is behind "NAME=" in text; NULL: there is none. */
static const char *value_of(const char *text, const char *name)
{
	const size_t len = strlen(name);

	for (const char *p = text; (p = strstr(p, name)); p += len)
		if (p > text && p[-1] == ' ' && p[len] == '=')
			return p + len + 1;
	return NULL;
}

bool remote_number(const char *text, const char *name, uint64_t *value)
{
	const char *s = value_of(text, name);
	char *end;

	if (!s || !isdigit((unsigned char)*s))
		return false;
	errno = 0;
	*value = strtoull(s, &end, 0);
	return !errno && strchr(" ;,", *end);
}

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int remote_bytes(const char *text, const char *name, uint8_t *to, unsigned max)
{
	const char *s = *name ? value_of(text, name) : text;
	unsigned n = 0;

	for (; s && *s && *s != ' '; s += 2, n++) {
		const int high = digit(s[0]), low = high < 0 ? -1 : digit(s[1]);

		if (low < 0 || n == max)
			return -1;
		to[n] = (uint8_t)(high << 4 | low);
	}
	return s ? (int)n : -1;
}

bool remote_read_hello(struct remote *r, const char *text)
{
	uint64_t version, area, atomic;

	if (!remote_number(text, "atomic", &atomic))
		return false;
	r->atomics = atomic;
	return remote_number(text, "version", &version) && version == 1 &&
	       remote_number(text, "area", &area) && area == SCENARIO_AREA &&
	       remote_bytes(text, "gid", r->gid.raw, sizeof(r->gid.raw)) == sizeof(r->gid.raw);
}

/** "NAME=ADDRESS,LKEY,RKEY" */
static bool read_area(struct remote *r, const char *text, const char *name, unsigned area)
{
	uint64_t va;

	if (!remote_number(text, name, &va))
		return false;
	r->va[area] = va;
	return sscanf(value_of(text, name), "%*[^,],0x%x,0x%x", &r->lkey[area], &r->rkey[area]) ==
	       2;
}

bool remote_read_qp(struct remote *r, const char *text, struct scenario_setup *setup)
{
	uint64_t qpn, send_wr, recv_wr;

	if (!remote_number(text, "qpn", &qpn) || qpn > ROCEMU_QPN_MASK ||
	    !remote_number(text, "send_wr", &send_wr) || !remote_number(text, "recv_wr", &recv_wr))
		return false;
	r->qpn = (uint32_t)qpn;
	setup->send_wr = (uint32_t)send_wr;
	setup->recv_wr = (uint32_t)recv_wr;
	return read_area(r, text, "mem", SCENARIO_MEM) &&
	       read_area(r, text, "send", SCENARIO_SEND) &&
	       read_area(r, text, "recv", SCENARIO_RECV);
}

/* ---- look ---- */

void remote_add(char list[SCENARIO_EFFECTS_MAX], const char *text)
{
	const size_t len = strlen(list);

	snprintf(list + len, SCENARIO_EFFECTS_MAX - len, "%s%s", len ? "; " : "", text);
}

unsigned remote_count(const char *list)
{
	unsigned n = *list != 0;

	for (; (list = strchr(list, ';')); list++)
		n++;
	return n;
}

/** A number that need not be there. */
static uint64_t number(const char *text, const char *name)
{
	uint64_t value = 0;

	return remote_number(text, name, &value) ? value : 0;
}

/** "completion queue=send id=1 status=0 ..." */
static void read_completion(struct remote *r, const char *text)
{
	const bool recv = strstr(text, " queue=recv ");
	const struct scenario_completion c = {
		.id = (number(text, "id") & ~SCENARIO_RECV_ID) | (recv ? SCENARIO_RECV_ID : 0),
		.status = (enum ibv_wc_status)number(text, "status"),
		.opcode = (enum ibv_wc_opcode)number(text, "opcode"),
		.byte_len = (uint32_t)number(text, "len"),
		.imm = (uint32_t)number(text, "imm"),
		.src_qp = (uint32_t)number(text, "src_qp"),
		.flags = (unsigned)number(text, "flags") &
			 ~(r->datagrams ? 0u : (unsigned)IBV_WC_GRH),
	};
	char line[160];

	scenario_completion_text(&c, line, sizeof(line));
	remote_add(r->completions, line);
}

static bool read_state(struct remote *r, const char *text)
{
	static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
	const size_t len = strcspn(text, ";");

	r->state = IBV_QPS_UNKNOWN;
	for (unsigned i = 0; i < ARRAY_LEN(names); i++)
		if (strlen(names[i]) == len && memcmp(names[i], text, len) == 0)
			r->state = (enum ibv_qp_state)i;
	return r->state != IBV_QPS_UNKNOWN || (len == 4 && memcmp(text, "none", len) == 0);
}

bool remote_read_look(struct remote *r, const char *text)
{
	static const char begin[] = "ok state=";
	char part[512];

	if (strncmp(text, begin, strlen(begin)) != 0 || !read_state(r, text + strlen(begin)))
		return false;
	while ((text = strchr(text, ';'))) {
		uint64_t code;

		text++;
		snprintf(part, sizeof(part), "%.*s", (int)MIN(strcspn(text, ";"), sizeof(part) - 1),
			 text);
		if (strncmp(part, " completion ", 12) == 0)
			read_completion(r, part);
		else if (strncmp(part, " event ", 7) == 0 && remote_number(part, "code", &code))
			remote_add(r->events, scenario_event_name((enum ibv_event_type)code));
		else
			return false;
	}
	return true;
}
