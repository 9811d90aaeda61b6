/* SPDX-License-Identifier: BSD-2-Clause */
/* Writing capture files, with pcap_dump(). */
#include "wire/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pcap/pcap.h>

#include "base/sigwrite.h"
#include "base/util.h"

enum {
	MAX_FRAME = 0xffff,
	WRITE_BUFFER = 256 * 1024,
};

struct capture_writer {
	pcap_t *pcap;	       /* owned */
	pcap_dumper_t *dumper; /* owned */
	int err;	       /* errno of the first write that failed, or 0 */
	uint8_t frame[MAX_FRAME];
	char buffer[WRITE_BUFFER]; /* stdio's */
};

/* stdio's writer; cookie: a descriptor. @return bytes written, 0: an error. */
static ssize_t write_all(void *cookie, const char *data, size_t len)
{
	size_t done = 0;

	while (done < len) {
		const ssize_t n = sigwrite((int)(intptr_t)cookie, data + done, len - done);

		if (n > 0)
			done += (size_t)n;
		else if (errno != EINTR)
			return 0;
	}
	return (ssize_t)done;
}

static int close_fd(void *cookie)
{
	return close((int)(intptr_t)cookie);
}

static FILE *open_for_write(const char *path, char *buffer)
{
	const cookie_io_functions_t functions = {.write = write_all, .close = close_fd};
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	FILE *f;

	if (fd < 0)
		return NULL;
	f = fopencookie((void *)(intptr_t)fd, "wb", functions);
	if (f == NULL)
		close(fd);
	else
		setvbuf(f, buffer, _IOFBF, WRITE_BUFFER);
	return f;
}

int capture_writer_open(struct capture_writer **out, const char *path, char *errbuf, size_t errlen)
{
	struct capture_writer *w = calloc(1, sizeof(*w));
	FILE *f;
	int err;

	*out = NULL;
	if (w == NULL) {
		snprintf(errbuf, errlen, "no memory for the capture %s", path);
		return -ENOMEM;
	}
	f = open_for_write(path, w->buffer);
	if (f == NULL) {
		err = errno;
		snprintf(errbuf, errlen, "cannot write the capture %s: %s", path, strerror(err));
		free(w);
		return -err;
	}
	w->pcap = pcap_open_dead_with_tstamp_precision(DLT_RAW, MAX_FRAME,
						       PCAP_TSTAMP_PRECISION_NANO);
	if (w->pcap == NULL) {
		snprintf(errbuf, errlen, "no memory for the capture %s", path);
		fclose(f);
		free(w);
		return -ENOMEM;
	}
	w->dumper = pcap_dump_fopen(w->pcap, f); /* closes f when it fails */
	if (w->dumper == NULL) {
		snprintf(errbuf, errlen, "cannot write the capture %s: %s", path,
			 pcap_geterr(w->pcap));
		pcap_close(w->pcap);
		free(w);
		return -EIO;
	}
	*out = w;
	return 0;
}

/* pcap_dump() returns nothing: check the stream while errno is current. */
static void note_error(struct capture_writer *w)
{
	if (w->err == 0 && ferror(pcap_dump_file(w->dumper)) != 0)
		w->err = errno != 0 ? errno : EIO;
}

int capture_write(struct capture_writer *w, uint64_t ts_ns, const struct capture_pkt *pkt)
{
	struct pcap_pkthdr h = {0};
	size_t len = 0, n;

	for (unsigned i = 0; i < pkt->niov; i++) {
		if (pkt->iov[i].iov_len > MAX_FRAME - IP_UDP_MAX_LEN - len)
			return -EMSGSIZE;
		len += pkt->iov[i].iov_len;
	}
	n = ip_udp_encode(&pkt->ip, len, w->frame);
	for (unsigned i = 0; i < pkt->niov; i++) {
		if (pkt->iov[i].iov_len != 0)
			memcpy(w->frame + n, pkt->iov[i].iov_base, pkt->iov[i].iov_len);
		n += pkt->iov[i].iov_len;
	}
	h.ts.tv_sec = (time_t)(ts_ns / NS_PER_S);
	h.ts.tv_usec =
		(suseconds_t)(ts_ns % NS_PER_S); /* nanoseconds: the precision requested at open */
	h.caplen = h.len = (bpf_u_int32)n;
	errno = 0;
	pcap_dump((u_char *)w->dumper, &h, w->frame);
	note_error(w);
	return 0;
}

int capture_flush(struct capture_writer *w)
{
	errno = 0;
	pcap_dump_flush(w->dumper);
	note_error(w);
	return -w->err;
}

int capture_writer_close(struct capture_writer *w)
{
	int r;

	if (w == NULL)
		return 0;
	r = capture_flush(w);
	pcap_dump_close(w->dumper);
	pcap_close(w->pcap);
	free(w);
	return r;
}
