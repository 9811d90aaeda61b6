/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <pcap/pcap.h>

#include "base/bytes.h"
#include "base/util.h"
#include "capture/capture-read.h"
#include "wire/capture.h"

#define TS_NS UINT64_C(1700000000123456789)

static const struct ip_udp v4 = {
	.src.raw = {[10] = 0xff, 0xff, 192, 0, 2, 1},
	.dst.raw = {[10] = 0xff, 0xff, 192, 0, 2, 2},
	.sport = 0xc001,
	.dport = ROCEMU_UDP_PORT,
	.ip_id = 7,
	.ip_frag = IP_FLAG_DF,
	.hop_limit = 64,
};

static const struct ip_udp v6 = {
	.src.raw = {0xfd, [15] = 1},
	.dst.raw = {0xfd, [15] = 2},
	.flow_label = 0x12345,
	.sport = 0xc002,
	.dport = ROCEMU_UDP_PORT,
	.tclass = 2,
	.hop_limit = 1,
};

/* A file name of its own for each test; removed by the teardown. */
static int setup(void **state)
{
	char *path = strdup("/tmp/rocemu-capture-XXXXXX");
	int fd = path != NULL ? mkstemp(path) : -1;

	if (fd < 0)
		return -1;
	close(fd);
	*state = path;
	return 0;
}

static int teardown(void **state)
{
	unlink(*state);
	free(*state);
	return 0;
}

static struct capture_reader *open_reader(const char *path)
{
	struct capture_reader *r;
	char err[256];

	if (capture_reader_open(&r, path, err, sizeof(err)) != 0)
		fail_msg("%s", err);
	return r;
}

static void capture__written_packets__read_back_the_same(void **state)
{
	uint8_t a[12] = "headers.....", b[100] = "payload", c[4] = {1, 2, 3, 4};
	struct iovec iov[] = {{a, sizeof(a)}, {NULL, 0}, {b, sizeof(b)}, {c, sizeof(c)}};
	struct capture_writer *w;
	struct capture_reader *r;
	struct capture_rec rec;
	char err[256];

	assert_int_equal(capture_writer_open(&w, *state, err, sizeof(err)), 0);
	assert_int_equal(capture_write(w, TS_NS, &(struct capture_pkt){v4, iov, 4}), 0);
	assert_int_equal(capture_write(w, TS_NS + 1, &(struct capture_pkt){v6, iov, 1}), 0);
	assert_int_equal(capture_flush(w), 0);

	/* what was flushed can be read while the writer goes on */
	r = open_reader(*state);
	assert_int_equal(capture_next(r, &rec), 1);
	assert_int_equal(rec.number, 1);
	assert_int_equal(rec.ts_ns, TS_NS);
	assert_memory_equal(&rec.ip, &v4, sizeof(v4));
	assert_int_equal(rec.len, 116);
	assert_int_equal(rec.wire_len, 116);
	assert_memory_equal(rec.data, a, 12);
	assert_memory_equal(rec.data + 12, b, 100);
	assert_memory_equal(rec.data + 112, c, 4);
	assert_int_equal(capture_next(r, &rec), 1);
	assert_int_equal(rec.number, 2);
	assert_int_equal(rec.ts_ns, TS_NS + 1);
	assert_memory_equal(&rec.ip, &v6, sizeof(v6));
	assert_int_equal(rec.len, 12);
	assert_int_equal(capture_next(r, &rec), 0);
	assert_int_equal(capture_reader_frames(r), 2);
	capture_reader_close(r);
	assert_int_equal(capture_writer_close(w), 0);
}

static void capture_write__largest_and_larger__taken_and_refused(void **state)
{
	size_t most = 0xffff - IP_UDP_MAX_LEN;
	struct iovec iov = {calloc(1, most + 1), most};
	struct capture_writer *w;
	char err[256];

	assert_non_null(iov.iov_base);
	assert_int_equal(capture_writer_open(&w, *state, err, sizeof(err)), 0);
	assert_int_equal(capture_write(w, TS_NS, &(struct capture_pkt){v6, &iov, 1}), 0);
	iov.iov_len++;
	assert_int_equal(capture_write(w, TS_NS, &(struct capture_pkt){v6, &iov, 1}), -EMSGSIZE);
	assert_int_equal(capture_writer_close(w), 0);
	free(iov.iov_base);
}

static void capture_writer_open__no_such_directory__told_with_path(void **state)
{
	struct capture_writer *w;
	char err[256];

	(void)state;
	assert_int_equal(capture_writer_open(&w, "/proc/nonexistent/x.pcap", err, sizeof(err)),
			 -ENOENT);
	assert_null(w);
	assert_string_equal(
		err,
		"cannot write the capture /proc/nonexistent/x.pcap: No such file or directory");
	assert_int_equal(capture_writer_close(w), 0);
}

static void capture_flush__disk_full__error(void **state)
{
	struct iovec iov = {calloc(1, 4096), 4096};
	struct capture_writer *w;
	char err[256];

	(void)state;
	assert_non_null(iov.iov_base);
	if (capture_writer_open(&w, "/dev/full", err, sizeof(err)) != 0)
		skip(); /* no /dev/full here */
	assert_int_equal(capture_write(w, TS_NS, &(struct capture_pkt){v4, &iov, 1}), 0);
	assert_int_equal(capture_flush(w), -ENOSPC);
	assert_true(capture_writer_close(w) < 0);
	free(iov.iov_base);
}

/* One frame of a link layer into a capture file of microseconds. */
static void write_frame(const char *path, int linktype, const uint8_t *link, size_t link_len,
			const struct ip_udp *ip, bpf_u_int32 snap)
{
	pcap_t *p = pcap_open_dead(linktype, 65535);
	pcap_dumper_t *d = pcap_dump_open(p, path);
	struct pcap_pkthdr h = {.ts = {.tv_sec = 5, .tv_usec = 6}};
	uint8_t f[256] = {0};
	size_t n = link_len;

	assert_non_null(d);
	if (link_len != 0)
		memcpy(f, link, link_len);
	n += ip_udp_encode(ip, 16, f + n);
	memset(f + n, 0x5a, 16);
	h.len = (bpf_u_int32)n + 16;
	h.caplen = MIN(snap, h.len);
	pcap_dump((u_char *)d, &h, f);
	pcap_dump_close(d);
	pcap_close(p);
}

static void capture_reader__link_layers__all_found(void **state)
{
	static const uint8_t eth[] = {1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 0x08, 0x00};
	static const uint8_t vlan[] = {1, 1, 1, 1,    1,    1,	  2,	2,    2,
				       2, 2, 2, 0x81, 0x00, 0x00, 0x05, 0x86, 0xdd};
	static const uint8_t sll[] = {0, 0, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0, 0x08, 0x00};
	static const uint8_t sll2[] = {0x86, 0xdd, 0, 0, 0, 0, 0, 3, 0, 1,
				       0,    6,	   2, 2, 2, 2, 2, 2, 0, 0};
	static const uint8_t null[] = {2, 0, 0, 0};
	static const struct {
		int linktype;
		const uint8_t *link;
		size_t len;
		const struct ip_udp *ip;
	} t[] = {
		{DLT_EN10MB, eth, sizeof(eth), &v4},	{DLT_EN10MB, vlan, sizeof(vlan), &v6},
		{DLT_LINUX_SLL, sll, sizeof(sll), &v4}, {DLT_LINUX_SLL2, sll2, sizeof(sll2), &v6},
		{DLT_NULL, null, sizeof(null), &v4},	{DLT_RAW, eth, 0, &v6},
	};

	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct capture_reader *r;
		struct capture_rec rec;

		write_frame(*state, t[i].linktype, t[i].link, t[i].len, t[i].ip, 65535);
		r = open_reader(*state);
		assert_int_equal(capture_next(r, &rec), 1);
		assert_memory_equal(&rec.ip, t[i].ip, sizeof(rec.ip));
		assert_int_equal(rec.ts_ns, UINT64_C(5000006000));
		assert_int_equal(rec.len, 16);
		assert_int_equal(rec.data[15], 0x5a);
		assert_int_equal(capture_next(r, &rec), 0);
		capture_reader_close(r);
	}
}

static void capture_reader__cut_frames__shorter_or_passed_over(void **state)
{
	static const uint8_t eth[] = {1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 0x08, 0x00};

	for (bpf_u_int32 snap = 1; snap < 58; snap++) {
		struct capture_reader *r;
		struct capture_rec rec;

		write_frame(*state, DLT_EN10MB, eth, sizeof(eth), &v4, snap);
		r = open_reader(*state);
		if (snap < 42) {
			assert_int_equal(capture_next(r, &rec), 0);
		} else {
			assert_int_equal(capture_next(r, &rec), 1);
			assert_int_equal(rec.len, snap - 42);
			assert_int_equal(rec.wire_len, 16);
		}
		assert_int_equal(capture_reader_frames(r), 1);
		capture_reader_close(r);
	}
}

static void capture_reader__another_udp_port__passed_over(void **state)
{
	struct ip_udp dns = v4;
	struct capture_reader *r;
	struct capture_rec rec;

	dns.dport = 53;
	write_frame(*state, DLT_RAW, NULL, 0, &dns, 65535);
	r = open_reader(*state);
	assert_int_equal(capture_next(r, &rec), 0);
	assert_int_equal(capture_reader_frames(r), 1);
	capture_reader_close(r);
}

static void capture_reader_limit__frames__the_end(void **state)
{
	struct capture_reader *r;
	struct capture_rec rec;

	write_frame(*state, DLT_RAW, NULL, 0, &v4, 65535);
	r = open_reader(*state);
	capture_reader_limit(r, 1);
	assert_int_equal(capture_next(r, &rec), 1);
	assert_int_equal(capture_next(r, &rec), 0);
	capture_reader_close(r);
	r = open_reader(*state);
	capture_reader_limit(r, 0);
	assert_int_equal(capture_next(r, &rec), 0);
	capture_reader_close(r);
}

static void capture_reader_open__what_cannot_be_read__told(void **state)
{
	struct capture_reader *r;
	char err[512];
	FILE *f;

	assert_int_equal(capture_reader_open(&r, "/nonexistent.pcap", err, sizeof(err)), -ENOENT);
	assert_null(r);
	assert_string_equal(err,
			    "cannot read the capture /nonexistent.pcap: No such file or directory");

	f = fopen(*state, "w");
	assert_non_null(f);
	fputs("this is not a capture but some text of sufficient length", f);
	fclose(f);
	assert_int_equal(capture_reader_open(&r, *state, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "is not a capture"));

	write_frame(*state, DLT_USB_LINUX, NULL, 0, &v4, 65535);
	assert_int_equal(capture_reader_open(&r, *state, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "link layer USB_LINUX"));
	capture_reader_close(r);
}

static void capture_next__file_cut_within_a_frame__error_told(void **state)
{
	struct capture_reader *r;
	struct capture_rec rec;

	write_frame(*state, DLT_RAW, NULL, 0, &v4, 65535);
	assert_int_equal(truncate(*state, 24 + 16 + 10), 0);
	r = open_reader(*state);
	assert_int_equal(capture_next(r, &rec), -EIO);
	assert_true(strlen(capture_reader_error(r)) > 0);
	capture_reader_close(r);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(capture__written_packets__read_back_the_same),
		T(capture_write__largest_and_larger__taken_and_refused),
		T(capture_writer_open__no_such_directory__told_with_path),
		T(capture_flush__disk_full__error),
		T(capture_reader__link_layers__all_found),
		T(capture_reader__cut_frames__shorter_or_passed_over),
		T(capture_reader__another_udp_port__passed_over),
		T(capture_reader_limit__frames__the_end),
		T(capture_reader_open__what_cannot_be_read__told),
		T(capture_next__file_cut_within_a_frame__error_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
