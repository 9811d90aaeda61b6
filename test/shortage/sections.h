/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_SHORTAGE_SECTIONS_H
#define TEST_SHORTAGE_SECTIONS_H

struct drive;

/** From event channels to a message and DISCONNECTED, both ends in this process. */
void section_connection(struct drive *d);
/** An ID that joins a multicast group. */
void section_group(struct drive *d);

#endif
