/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The reader of captures on any file: pcap, pcapng, compressed or not, with tunnels in it. Whatever
 * it is, packets lie within what was read, and the reader ends.
 */
#include "driver.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capture/burst.h"
#include "capture/capture-read.h"
#include "capture/cut.h"
#include "wire/print.h"
#include "capture/segment.h"

enum { MOST_FRAMES = 1 << 16 };

/* All bytes of a packet can be read. */
static unsigned touch(const struct capture_rec *rec)
{
	unsigned sum = 0;

	for (size_t i = 0; i < rec->len; i++)
		sum += rec->data[i];
	for (size_t i = 0; rec->dmac != NULL && i < 6; i++)
		sum += rec->dmac[i];
	return sum;
}

/* What is there of it can be decoded and printed. */
static void decode(void *arg, const struct capture_rec *rec, unsigned segment, bool icrc_wrong)
{
	char text[PRINT_PACKET_MAX], names[64];
	struct rocemu_packet p;
	uint32_t hdrs;
	enum rocemu_drop why = cut_decode(&p, &hdrs, rec);
	unsigned *packets = arg;

	FUZZ_CHECK(segment == ++*packets || (segment == 0 && *packets == 1));
	FUZZ_CHECK(why <= ROCEMU_DROP_LENGTH && (hdrs & ~rocemu_opcode_hdrs(p.h.opcode)) == 0);
	FUZZ_CHECK(touch(rec) <= UINT8_MAX * (rec->len + 6));
	FUZZ_CHECK(!rec->hides || icrc_wrong || rec->len < rec->wire_len);
	if (why != ROCEMU_DROP_NONE)
		return;
	FUZZ_CHECK(p.payload == NULL || rec->len == rec->wire_len);
	if (p.payload == NULL)
		print_packet_cut(text, sizeof(text), &p, hdrs, !rec->hides);
	else
		print_packet(text, sizeof(text), &p);
	FUZZ_CHECK(cut_names(names, sizeof(names), hdrs) < sizeof(names));
}

static void read_all(struct capture_reader *r)
{
	struct capture_passed passed;
	struct capture_rec rec;
	uint64_t before = 0;
	char text[512];
	int n = 1;

	while (before < MOST_FRAMES && (n = capture_next(r, &rec)) == 1) {
		FUZZ_CHECK(rec.number > before && rec.number == capture_reader_frames(r));
		FUZZ_CHECK(rec.len <= rec.wire_len && rec.wire_len <= 0xffff);
		before = rec.number;
		FUZZ_CHECK(touch(&rec) <= UINT8_MAX * (rec.len + 6));
		FUZZ_CHECK(rec.fragment || (rec.fragment_at == 0 && rec.early == 0));
		if (rec.len == rec.wire_len && rec.fragment_at == 0) {
			size_t one = segment_size(&rec.ip, rec.data, rec.len);

			FUZZ_CHECK(one < rec.len || one == 0);
		}
		if (rec.fragment_at == 0)
			burst_each(&rec, decode, &(unsigned){0});
	}
	passed = capture_reader_passed(r);
	FUZZ_CHECK(capture_passed_text(text, sizeof(text), &passed) < sizeof(text));
	FUZZ_CHECK(passed.cut + passed.infiniband + passed.link <= capture_reader_frames(r));
	FUZZ_CHECK(n >= 0 || *capture_reader_error(r) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct capture_reader *r;
	char path[32], err[512];

	FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (capture_reader_open(&r, path, err, sizeof(err)) == 0) {
		read_all(r);
		capture_reader_close(r);
	} else {
		FUZZ_CHECK(r == NULL && *err != 0);
	}
	close(fd);
	return 0;
}
