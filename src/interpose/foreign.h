/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reports a libibverbs or librdmacm that is loaded and not rocemu's: it has no emulated devices,
 * and prints nothing itself.
 */
#ifndef INTERPOSE_FOREIGN_H
#define INTERPOSE_FOREIGN_H

/**
 * Print a line on standard error if there is such a library, once in a process. To be called when
 * the process looks for devices: programs that only load the library do not need it. It takes the
 * dynamic linker's lock, which is recursive, and nothing else.
 */
void foreign_check(void);

#endif
