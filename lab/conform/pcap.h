/* SPDX-License-Identifier: BSD-2-Clause */
/* A capture of each case. */
#ifndef CONFORM_PCAP_H
#define CONFORM_PCAP_H

#include "conform/report.h"

/** Before a run: the directory, which is made if there is none. @return false, after a message. */
bool conform_pcap_directory(const char *dir, const char *self);
/** "DIR/seq-gap.pcapng" for each case with packets. @return false, after a message. */
bool conform_pcap(const char *dir, const struct conform_report *p, const char *self);

#endif
