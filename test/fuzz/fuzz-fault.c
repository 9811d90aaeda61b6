/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Texts of faults on purpose: any bytes are either taken or refused with one line, a position
 * within the text and a caret below it. What is taken decides about packets: the bytes after the
 * text's NUL are one.
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#include "fault/impair.h"

static void check_refusal(const char *text, const struct fault_error *e)
{
	const char *line = text, *end = strchr(e->excerpt, '\n');

	FUZZ_CHECK(*e->text && !strchr(e->text, '\n'));
	FUZZ_CHECK(e->line >= 1 && e->column >= 1);
	for (unsigned i = 1; i < e->line; i++) {
		line = strchr(line, '\n');
		FUZZ_CHECK(line != NULL);
		line++;
	}
	FUZZ_CHECK(e->column <= strcspn(line, "\n") + 1);
	/* Two lines, and the caret not behind the first one's end. */
	FUZZ_CHECK(end && end[strlen(end) - 1] == '\n' && strchr(end + 1, '^'));
	FUZZ_CHECK(strchr(end + 1, '^') - (end + 1) <= end - e->excerpt);
	for (const char *p = e->text; *p; p++)
		FUZZ_CHECK(*p >= ' ' && *p <= '~');
}

static void check_packet(const struct impair *im, const uint8_t *data, size_t size)
{
	static const struct rocemu_gid peer;
	uint8_t packet[ROCEMU_MAX_PACKET];
	struct fault_packet p = {.peer = &peer, .hdr = packet, .len = (uint32_t)size};
	struct faults *f;

	if (size < ROCEMU_BTH_LEN + ROCEMU_ICRC_LEN || size > sizeof(packet) || !im->nrules)
		return;
	memcpy(packet, data, size);
	f = faults_new(im->rule, im->nrules, 1);
	FUZZ_CHECK(f != NULL);
	for (unsigned i = 0; i < 4; i++) {
		struct fault_verdict v;

		p.dir = i % 2 ? FAULT_RX : FAULT_TX;
		p.qp = data[5];
		faults_decide(f, &p, &v);
		FUZZ_CHECK(!(v.acted & ~v.matched));
		FUZZ_CHECK(v.nsealed <= FAULT_BITS && v.nraw <= FAULT_BITS);
		for (unsigned b = 0; b < v.nsealed; b++)
			FUZZ_CHECK(v.sealed[b] < size * 8);
		for (unsigned b = 0; b < v.nraw; b++)
			FUZZ_CHECK(v.raw[b] < size * 8);
	}
	faults_free(f);
}

static void check_taken(const struct impair *im)
{
	const double chances[] = {im->loss, im->dup, im->reorder, im->corrupt, im->rnr};

	for (unsigned i = 0; i < sizeof(chances) / sizeof(chances[0]); i++)
		FUZZ_CHECK(chances[i] >= 0 && chances[i] <= 1);
	FUZZ_CHECK(im->delay.min <= im->delay.max && im->delay.max <= IMPAIR_MAX_DELAY_NS);
	FUZZ_CHECK(im->mark_bytes <= im->queue_bytes && im->queue_bytes <= IMPAIR_MAX_QUEUE);
	FUZZ_CHECK(im->nrules <= FAULT_RULES);
	for (unsigned i = 0; i < im->nrules; i++) {
		const struct fault_rule *r = &im->rule[i];

		FUZZ_CHECK(r->action < FAULT_ACTION_COUNT && strlen(r->text) < sizeof(r->text));
		FUZZ_CHECK(r->every && r->times && r->nth.min && r->nth.min <= r->nth.max);
		FUZZ_CHECK(r->time.max <= FAULT_MAX_DELAY_NS);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct impair im;
	struct fault_error e;
	char *text = malloc(size + 1);
	size_t len;
	int ret;

	FUZZ_CHECK(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	len = strlen(text);
	impair_init(&im);
	ret = impair_add(&im, text, NULL, &e);
	if (ret < 0)
		check_refusal(text, &e);
	else if (!impair_finish(&im, &e))
		check_taken(&im);
	if (!ret && len < size)
		check_packet(&im, data + len + 1, size - len - 1);
	free(text);
	return 0;
}
