/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the administrator's files, /etc/rdma/rsocket/NAME: one number each. */
#ifndef RSOCKET_SETTING_H
#define RSOCKET_SETTING_H

#include <stdint.h>

struct rs_settings;

/** The values of a directory's files: defaults of sockets, and how long to poll and to sleep. */
struct rs_files {
	uint32_t mem, wmem;	 /* bytes */
	uint32_t sqsize, rqsize; /* entries */
	uint32_t inline_size;	 /* bytes */
	uint32_t iomap_size;	 /* entries */
	uint32_t polling_us, wake_up_ms;
};

/** Defaults, changed by the files of dir; a value that is not a number in range is ignored.
 */
void rs_files_read(const char *dir, struct rs_files *files);

/** The system's values for TCP, net.ipv4.tcp_keepalive_*: seconds, seconds, probes. */
struct rs_system_keepalive {
	uint32_t idle, interval, count;
};
const struct rs_system_keepalive *rs_system_keepalive(void);

/** How long to look for data before sleeping. */
uint64_t rs_polling_ns(void);
/** Longest sleep before checking again without an event; at least 1. */
int rs_wake_up_ms(void);

/** The ranges of settings: a number moved into its range. */
uint32_t rs_queue_size(uint32_t n);
uint32_t rs_buffer_size(uint32_t n);
uint32_t rs_inline_size(uint32_t n);
uint32_t rs_iomap_size(uint32_t n);

#endif
