/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/setting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "rsocket/rs.h"

#define SETTING_DIR "/etc/rdma/rsocket"
#define SYSTEM_DIR  "/proc/sys/net/ipv4"

enum {
	QUEUE_MIN = 8,
	QUEUE_MAX = 8192,
	BUFFER_MIN = 4096,
	BUFFER_MAX = 1 << 28,
	INLINE_MAX = 512,
	IOMAP_MAX = 127,
	POLLING_US_MAX = 1000000,
	WAKE_UP_MS_MIN = 1,
	WAKE_UP_MS_DEFAULT = 5000,
	WAKE_UP_MS_MAX = 3600 * 1000,
};

static uint32_t between(uint32_t low, uint32_t n, uint32_t high)
{
	return n < low ? low : MIN(n, high);
}

uint32_t rs_queue_size(uint32_t n)
{
	return between(QUEUE_MIN, n, QUEUE_MAX);
}

uint32_t rs_buffer_size(uint32_t n)
{
	/* The peer gets halves of it, which must be word aligned. */
	return between(BUFFER_MIN, n, BUFFER_MAX) & ~7u;
}

uint32_t rs_inline_size(uint32_t n)
{
	return MIN(n, (uint32_t)INLINE_MAX);
}

uint32_t rs_iomap_size(uint32_t n)
{
	return MIN(n, (uint32_t)IOMAP_MAX);
}

/**
 * Read a file that contains one number into *out; otherwise log an error, except if there is no
 * file.
 */
static void read_number(const char *dir, const char *name, uint32_t low, uint32_t high,
			uint32_t *out)
{
	char path[256], text[32], *end;
	unsigned long long n;
	struct stat st;
	ssize_t len = -1;
	int fd;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, name) >= sizeof(path))
		return;
	/* Not to be held up by a FIFO. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		len = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (len > 0) {
		text[len] = '\0';
		errno = 0;
		n = strtoull(text, &end, 10);
		if (text[0] >= '0' && text[0] <= '9' && end[strspn(end, " \t\r\n")] == '\0' &&
		    errno == 0 && strlen(text) == (size_t)len && n >= low && n <= high) {
			*out = (uint32_t)n;
			return;
		}
	}
	log_warn("%s: not a number from %u to %u; ignored", path, low, high);
}

void rs_files_read(const char *dir, struct rs_files *f)
{
	*f = (struct rs_files){
		.mem = RS_DEFAULT_BUFFER,
		.wmem = RS_DEFAULT_BUFFER,
		.sqsize = RS_DEFAULT_QUEUE,
		.rqsize = RS_DEFAULT_QUEUE,
		.inline_size = RS_DEFAULT_INLINE,
		.polling_us = RS_SPIN_NS / 1000,
		.wake_up_ms = WAKE_UP_MS_DEFAULT,
	};
	read_number(dir, "mem_default", BUFFER_MIN, BUFFER_MAX, &f->mem);
	read_number(dir, "wmem_default", BUFFER_MIN, BUFFER_MAX, &f->wmem);
	read_number(dir, "sqsize_default", QUEUE_MIN, QUEUE_MAX, &f->sqsize);
	read_number(dir, "rqsize_default", QUEUE_MIN, QUEUE_MAX, &f->rqsize);
	read_number(dir, "inline_default", 0, INLINE_MAX, &f->inline_size);
	read_number(dir, "iomap_size", 0, IOMAP_MAX, &f->iomap_size);
	read_number(dir, "polling_time", 0, POLLING_US_MAX, &f->polling_us);
	read_number(dir, "wake_up_interval", WAKE_UP_MS_MIN, WAKE_UP_MS_MAX, &f->wake_up_ms);
}

static struct rs_files files;
static struct rs_system_keepalive keepalive = {.idle = 7200, .interval = 75, .count = 9};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_files(void)
{
	rs_files_read(SETTING_DIR, &files);
	read_number(SYSTEM_DIR, "tcp_keepalive_time", 1, INT32_MAX, &keepalive.idle);
	read_number(SYSTEM_DIR, "tcp_keepalive_intvl", 1, INT32_MAX, &keepalive.interval);
	read_number(SYSTEM_DIR, "tcp_keepalive_probes", 1, INT32_MAX, &keepalive.count);
}

static const struct rs_files *system_files(void)
{
	pthread_once(&once, read_files);
	return &files;
}

const struct rs_system_keepalive *rs_system_keepalive(void)
{
	pthread_once(&once, read_files);
	return &keepalive;
}

uint64_t rs_polling_ns(void)
{
	return (uint64_t)system_files()->polling_us * 1000u;
}

int rs_wake_up_ms(void)
{
	return (int)system_files()->wake_up_ms;
}

void rs_settings_load(struct rs_settings *set)
{
	const struct rs_files *f = system_files();

	*set = (struct rs_settings){
		.sqsize = f->sqsize,
		.rqsize = f->rqsize,
		.sndbuf = rs_buffer_size(f->wmem),
		.rcvbuf = rs_buffer_size(f->mem),
		.inline_size = f->inline_size,
		.iomap_size = f->iomap_size,
	};
}
