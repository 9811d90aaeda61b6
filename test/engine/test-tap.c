/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/tap.h"
#include "capture/capture-read.h"

static char dir[64];

static void remove_dir(void)
{
	char cmd[96];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	if (system(cmd))
		fprintf(stderr, "left behind: %s\n", dir);
}

static const char *file(const char *name)
{
	static char path[2][128];
	static unsigned turn;
	char *p = path[turn++ % 2];

	snprintf(p, sizeof(path[0]), "%s/%s", dir, name);
	return p;
}

static void use(const char *spec)
{
	if (!dir[0]) {
		strcpy(dir, "/tmp/rocemu-tap-XXXXXX");
		assert_non_null(mkdtemp(dir));
		atexit(remove_dir);
	}
	assert_int_equal(setenv("ROCEMU_PCAP", spec, 1), 0);
}

static struct tap *get(void)
{
	char err[256] = "";
	struct tap *t;

	if (tap_get(&t, err, sizeof(err)))
		fail_msg("%s", err);
	assert_non_null(t);
	return t;
}

static const struct tap_addr v4 = {
	.when_ns = 1700000000123456789u,
	.src = {{[10] = 0xff, 0xff, 127, 0, 0, 1}},
	.dst = {{[10] = 0xff, 0xff, 127, 0, 0, 2}},
	.sport = 0xc111,
	.ip_id = 5,
	.tclass = 2,
	.hop_limit = 63,
};

static void write_packet(struct tap *t, bool sent, const char *text)
{
	struct tap_addr a = v4;
	const struct iovec iov[2] = {
		{.iov_base = (void *)(uintptr_t)text, .iov_len = 5},
		{.iov_base = (void *)(uintptr_t)(text + 5), .iov_len = strlen(text) - 5},
	};

	a.sent = sent;
	tap_write(t, &a, iov, 2);
}

static void write_one(struct tap *t, const char *text)
{
	write_packet(t, true, text);
}

/* The packets' bytes, '|' between them. */
static const char *contents(const char *path)
{
	static char out[1024];
	struct capture_reader *r;
	struct capture_rec rec;
	char err[256] = "";
	size_t n = 0;

	if (capture_reader_open(&r, path, err, sizeof(err)))
		fail_msg("%s", err);
	while (capture_next(r, &rec) == 1) {
		assert_int_equal(rec.ts_ns, v4.when_ns);
		assert_int_equal(rec.ip.sport, v4.sport);
		assert_int_equal(rec.ip.dport, 4791);
		assert_int_equal(rec.ip.ip_id, v4.ip_id);
		assert_int_equal(rec.ip.ip_frag, 0x4000);
		assert_int_equal(rec.ip.tclass, v4.tclass);
		assert_int_equal(rec.ip.hop_limit, v4.hop_limit);
		assert_memory_equal(&rec.ip.src, &v4.src, 16);
		assert_memory_equal(&rec.ip.dst, &v4.dst, 16);
		n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%.*s", n ? "|" : "",
				      (int)rec.len, (const char *)rec.data);
	}
	capture_reader_close(r);
	out[n] = '\0';
	return out;
}

TEST(tap, not_asked_for__none)
{
	struct tap *t;
	char err[64];

	use("");
	assert_int_equal(tap_get(&t, err, sizeof(err)), 0);
	assert_null(t);
	tap_put(NULL);
}

TEST(tap, packets_of_two_lanes__all_in_one_file)
{
	struct tap *a, *b;

	use("");
	use(file("one.pcap"));
	a = get();
	b = get();
	assert_ptr_equal(a, b);
	write_one(a, "hello world one.");
	write_one(b, "hello world two.");
	tap_flush(a);
	assert_string_equal(contents(file("one.pcap")), "hello world one.|hello world two.");
	tap_put(a);
	write_one(b, "third packet here");
	tap_put(b);
	assert_string_equal(contents(file("one.pcap")),
			    "hello world one.|hello world two.|third packet here");
}

static void write_at(struct tap *t, uint64_t when_ns, const char *text)
{
	const struct iovec iov = {.iov_base = (void *)(uintptr_t)text, .iov_len = strlen(text)};
	struct tap_addr a = v4;

	a.when_ns = when_ns;
	a.sent = true;
	tap_write(t, &a, &iov, 1);
}

TEST(tap, other_lane_writes_a_later_one_first__time_does_not_go_back)
{
	static const uint64_t hour = 3600000000000u;
	static const uint64_t want[] = {2000, 2000, 3000};
	struct capture_reader *r;
	struct capture_rec rec;
	char err[256] = "";
	struct tap *t;

	use("");
	use(file("order.pcap"));
	t = get();
	write_at(t, hour + 2000, "received later ");
	write_at(t, hour + 1000, "sent before    ");
	write_at(t, hour + 3000, "the next packet");
	write_at(t, 4000, "the clock was set");
	tap_put(t);
	assert_int_equal(capture_reader_open(&r, file("order.pcap"), err, sizeof(err)), 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(capture_next(r, &rec), 1);
		assert_int_equal(rec.ts_ns, hour + want[i]);
	}
	assert_int_equal(capture_next(r, &rec), 1);
	assert_int_equal(rec.ts_ns, 4000);
	capture_reader_close(r);
}

TEST(tap, received_by_its_sender__written_once)
{
	struct tap *t;

	use("");
	use(file("self.pcap"));
	t = get();
	write_packet(t, true, "a request ICR1");
	write_packet(t, false, "a request ICR1");
	write_packet(t, true, "an answer ICR2");
	write_packet(t, false, "an answer ICR2");
	/* Two lanes: one takes it before the other one has written that it sent it. */
	write_packet(t, false, "a request ICR3");
	write_packet(t, true, "a request ICR3");
	tap_flush(t);
	assert_string_equal(contents(file("self.pcap")),
			    "a request ICR1|an answer ICR2|a request ICR3");
	/* Sent again, and doubled by the network. */
	write_packet(t, true, "a request ICR1");
	write_packet(t, true, "a request ICR1");
	for (unsigned i = 0; i < 3; i++)
		write_packet(t, false, "a request ICR1");
	tap_put(t);
	assert_string_equal(contents(file("self.pcap")),
			    "a request ICR1|an answer ICR2|a request ICR3|"
			    "a request ICR1|a request ICR1|a request ICR1");
}

TEST(tap, received_from_others__all_written)
{
	struct tap *t;

	use("");
	use(file("others.pcap"));
	t = get();
	write_packet(t, true, "to them ICR1");
	write_packet(t, false, "from them ICR2");
	write_packet(t, false, "from them ICR2");
	write_packet(t, false, "longer than that ICR1");
	/* Its last bytes are in two pieces. */
	write_packet(t, true, "1234567");
	write_packet(t, false, "1234567");
	write_packet(t, false, "1235567");
	tap_put(t);
	assert_string_equal(contents(file("others.pcap")),
			    "to them ICR1|from them ICR2|from them ICR2|longer than that ICR1|"
			    "1234567|1235567");
}

TEST(tap, percent_p__process_id)
{
	char name[64];
	struct tap *t;

	use("");
	use(file("x-%p-100%%.pcap"));
	t = get();
	tap_put(t);
	snprintf(name, sizeof(name), "x-%d-100%%.pcap", (int)getpid());
	assert_string_equal(contents(file(name)), "");
}

TEST(tap, cannot_be_written__says_which_file)
{
	struct tap *t;
	char err[256] = "";

	use(file("no/such/folder.pcap"));
	assert_int_equal(tap_get(&t, err, sizeof(err)), -ENOENT);
	assert_null(t);
	assert_non_null(strstr(err, "no/such/folder.pcap"));
	assert_non_null(strstr(err, strerror(ENOENT)));
	use(dir);
	assert_int_equal(tap_get(&t, err, sizeof(err)), -EISDIR);
}

TEST(tap, disk_full__stops_and_goes_on)
{
	struct tap *t;

	if (access("/dev/full", W_OK))
		skip();
	use("/dev/full");
	t = get();
	for (unsigned i = 0; i < 100; i++) {
		write_one(t, "nobody keeps this");
		tap_flush(t);
	}
	tap_put(t);
}

TEST(tap, forked_child__own_file_and_parents_whole)
{
	char name[64];
	struct tap *t;
	int status;
	pid_t pid;

	use("");
	use(file("fork.pcap"));
	t = get();
	write_one(t, "before the fork");
	pid = fork();
	if (pid == 0) {
		t = get();
		write_one(t, "by the child...");
		tap_put(t);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	write_one(t, "after the fork.");
	tap_put(t);
	assert_string_equal(contents(file("fork.pcap")), "before the fork|after the fork.");
	snprintf(name, sizeof(name), "fork.pcap.%d", (int)pid);
	assert_string_equal(contents(file(name)), "by the child...");
}
