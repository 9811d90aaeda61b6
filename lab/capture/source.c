/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading a file's bytes; gzip and zstd are recognised by their first bytes. */
#include "capture/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef HAVE_ZLIB
#include <zlib.h>
#endif
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#include "base/util.h"

enum {
	BUFFER = 256 * 1024,
	MAGIC = 4,
	GZIP_WINDOW = 15 + 16, /* of zlib: the largest window, gzip's header */
	ZSTD_WINDOW_LOG = 27,  /* 128 MiB; what needs more is refused */
	/* Packets of zeros become a hundredth or so; gzip does not reach a thousandth. */
	MOST_TIMES = 2000,
};
#define ALWAYS_MADE (UINT64_C(1) << 30) /* bytes; of more, MOST_TIMES counts */

enum format { PLAIN, GZIP, ZSTD };

struct source {
	int fd; /* owned */
	enum format format;
	const volatile sig_atomic_t *stop; /* borrowed, or NULL */
	size_t at, end;			   /* of what was read and not used yet, in raw */
	bool eof;			   /* nothing follows what is in raw */
	bool over;			   /* the compressed data have ended */
	uint64_t taken, made;		   /* compressed bytes read, bytes made of them */
	const char *error;		   /* static text or text */
	char text[128];
#ifdef HAVE_ZLIB
	z_stream gzip;
	bool gzip_ready;
#endif
#ifdef HAVE_ZSTD
	ZSTD_DStream *zstd; /* owned */
#endif
	bool within; /* a compressed stream has begun and not ended */
	uint8_t raw[BUFFER];
};

static long fail(struct source *s, const char *error)
{
	s->error = error;
	return -EIO;
}

/* More bytes behind those that are there. @return 0: there is an end. */
static long fill(struct source *s)
{
	ssize_t n;

	if (s->at == s->end)
		s->at = s->end = 0;
	while (!s->eof && s->end < sizeof(s->raw)) {
		n = read(s->fd, s->raw + s->end, sizeof(s->raw) - s->end);
		if (n > 0) {
			s->end += (size_t)n;
			s->taken += (size_t)n;
			return n;
		}
		if (n < 0 && errno == EINTR && (s->stop == NULL || *s->stop == 0))
			continue;
		if (n < 0 && errno != EINTR) {
			snprintf(s->text, sizeof(s->text), "%s", strerror(errno));
			return fail(s, s->text);
		}
		s->eof = true;
	}
	return 0;
}

static enum format recognise(const struct source *s)
{
	static const uint8_t gzip[] = {0x1f, 0x8b}, zstd[] = {0x28, 0xb5, 0x2f, 0xfd};
	const uint8_t *p = s->raw + s->at;
	size_t n = s->end - s->at;

	if (n >= sizeof(gzip) && memcmp(p, gzip, sizeof(gzip)) == 0)
		return GZIP;
	if (n >= sizeof(zstd) && memcmp(p, zstd, sizeof(zstd)) == 0)
		return ZSTD;
	return PLAIN;
}

/* Prepare for what the file is. */
static int begin(struct source *s)
{
	while (s->end < MAGIC) {
		long n = fill(s);

		if (n < 0)
			return -EIO;
		if (n == 0)
			break;
	}
	s->format = recognise(s);
	if (s->format == GZIP) {
#ifdef HAVE_ZLIB
		if (inflateInit2(&s->gzip, GZIP_WINDOW) != Z_OK)
			return -ENOMEM;
		s->gzip_ready = true;
#else
		return (int)fail(s, "it is compressed by gzip, and rocemu was built without zlib");
#endif
	}
	if (s->format == ZSTD) {
#ifdef HAVE_ZSTD
		s->zstd = ZSTD_createDStream();
		if (s->zstd == NULL)
			return -ENOMEM;
		ZSTD_DCtx_setParameter(s->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG);
#else
		return (int)fail(s,
				 "it is compressed by zstd, and rocemu was built without libzstd");
#endif
	}
	return 0;
}

int source_open(struct source **out, const char *path, char *errbuf, size_t errlen)
{
	int fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
	struct source *s;
	int err;

	*out = NULL;
	if (fd < 0) {
		err = errno;
		snprintf(errbuf, errlen, "cannot read the capture %s: %s", path, strerror(err));
		return -err;
	}
	s = calloc(1, sizeof(*s));
	if (s == NULL) {
		close(fd);
		snprintf(errbuf, errlen, "no memory for the capture %s", path);
		return -ENOMEM;
	}
	s->fd = fd;
	err = begin(s);
	if (err < 0) {
		snprintf(errbuf, errlen, "%s is not a capture that can be read: %s", path,
			 err == -ENOMEM ? "no memory" : s->error);
		source_close(s);
		return err == -ENOMEM ? err : -EINVAL;
	}
	*out = s;
	return 0;
}

void source_stop_at(struct source *s, const volatile sig_atomic_t *stop)
{
	s->stop = stop;
}

#ifdef HAVE_ZLIB
/* @return bytes made; 0: more input is needed, or the end. */
static long gunzip(struct source *s, uint8_t *buf, size_t n)
{
	int ret;

	s->gzip.next_in = s->raw + s->at;
	s->gzip.avail_in = (uInt)(s->end - s->at);
	s->gzip.next_out = buf;
	s->gzip.avail_out = (uInt)MIN(n, (size_t)BUFFER);
	n = s->gzip.avail_out;
	ret = inflate(&s->gzip, Z_NO_FLUSH);
	s->at = s->end - s->gzip.avail_in;
	if (ret == Z_STREAM_END) {
		s->within = false;
		inflateReset(&s->gzip);
	} else if (ret == Z_MEM_ERROR) {
		return fail(s, "no memory to decompress it");
	} else if (ret != Z_OK && ret != Z_BUF_ERROR) {
		return fail(s, "its gzip data are damaged");
	}
	return (long)(n - s->gzip.avail_out);
}
#endif

#ifdef HAVE_ZSTD
static long unzstd(struct source *s, uint8_t *buf, size_t n)
{
	ZSTD_inBuffer in = {s->raw + s->at, s->end - s->at, 0};
	ZSTD_outBuffer out = {buf, n, 0};
	size_t ret = ZSTD_decompressStream(s->zstd, &out, &in);

	if (ZSTD_isError(ret)) {
		snprintf(s->text, sizeof(s->text), "its zstd data are damaged: %s",
			 ZSTD_getErrorName(ret));
		return fail(s, s->text);
	}
	s->at += in.pos;
	s->within = ret != 0;
	return (long)out.pos;
}
#endif

static long unpack(struct source *s, uint8_t *buf, size_t n)
{
#ifdef HAVE_ZLIB
	if (s->format == GZIP)
		return gunzip(s, buf, n);
#endif
#ifdef HAVE_ZSTD
	if (s->format == ZSTD)
		return unzstd(s, buf, n);
#endif
	(void)buf;
	(void)n;
	return fail(s, "compressed");
}

/* Between two compressed streams: is there another? What else follows the last is left. */
static bool another(struct source *s)
{
	while (s->end - s->at < MAGIC && !s->eof) {
		memmove(s->raw, s->raw + s->at, s->end - s->at);
		s->end -= s->at;
		s->at = 0;
		if (fill(s) < 0)
			return false;
	}
	return recognise(s) == s->format;
}

/* The time that a file takes is to be bounded by its length. */
static long count(struct source *s, long made)
{
	s->made += (uint64_t)made;
	if (s->made > ALWAYS_MADE && s->made / MOST_TIMES > s->taken)
		return fail(s, "decompressed, it has more than 2000 times its length");
	return made;
}

/* Some of the bytes, at least one. @return 0: the end. */
static long some_unpacked(struct source *s, uint8_t *buf, size_t n)
{
	long got = 0;

	while (!s->over && got == 0) {
		if (!s->within) {
			s->over = !another(s);
			if (s->over)
				return s->error != NULL ? -EIO : 0;
			s->within = true;
		}
		got = unpack(s, buf, n);
		if (got != 0 || !s->within)
			continue;
		if (s->at == s->end) {
			long more = fill(s);

			if (more <= 0)
				return more < 0 ? more : fail(s, "its compressed data end early");
		}
	}
	return got > 0 ? count(s, got) : got;
}

static long some_plain(struct source *s, uint8_t *buf, size_t n)
{
	long more;

	if (s->at == s->end) {
		more = fill(s);
		if (more <= 0)
			return more;
	}
	n = MIN(n, s->end - s->at);
	memcpy(buf, s->raw + s->at, n);
	s->at += n;
	return (long)n;
}

long source_read(struct source *s, uint8_t *buf, size_t n)
{
	size_t done = 0;
	long got;

	while (done < n) {
		got = s->format == PLAIN ? some_plain(s, buf + done, n - done)
					 : some_unpacked(s, buf + done, n - done);
		if (got < 0)
			return got;
		if (got == 0)
			break;
		done += (size_t)got;
	}
	return (long)done;
}

const char *source_error(const struct source *s)
{
	return s->error != NULL ? s->error : "";
}

void source_close(struct source *s)
{
	if (s == NULL)
		return;
#ifdef HAVE_ZLIB
	if (s->gzip_ready)
		inflateEnd(&s->gzip);
#endif
#ifdef HAVE_ZSTD
	ZSTD_freeDStream(s->zstd);
#endif
	close(s->fd);
	free(s);
}
