/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions and their keys, and scatter/gather over them.
 *
 * A key is number << 8 | tag: a number as slot-table.h makes them, and 8 random bits, which are the
 * program's to choose in a window's key. L_Key and R_Key of a region are the same number.
 */
#ifndef TRANSPORT_MR_H
#define TRANSPORT_MR_H

#include <rocemu/endpoint.h>

#include "transport/slot-table.h"

/*
 * Limit of bytes read after one look-up: the part of a message that one output call sends. At most
 * a packet is written.
 */
enum { MR_PIECE_MAX = ROCEMU_OUTPUT_BATCH * ROCEMU_MAX_MTU };

struct rocemu_mr {
	struct rocemu_pd *pd; /* ref */
	uint8_t *host;	      /* borrowed until dereg */
	uint64_t iova;	      /* the address that keys' users give for host[0] */
	uint64_t length;      /* mr_missing() changes it and access atomically */
	uint32_t key;
	int access;	  /* IBV_ACCESS_* */
	uint32_t windows; /* memory windows that are bound to it */
	bool null;	  /* of rocemu_mr_null_reg(): host is the table's nothing */
	struct rocemu_mw
		*window; /* NULL; else not a region but the entry of this window (see mw.h) */
};

struct mr_table {
	struct slot_table slots; /* entries owned (a window's begins its own object) */
	uint8_t *nothing; /* owned, or NULL; null regions' memory: MR_PIECE_MAX zeros, then an
			     MTU to write into */
};

void mr_table_init(struct mr_table *t);
void mr_table_fini(struct mr_table *t);
/** The entry (region or window) of a key, or NULL. */
struct rocemu_mr *mr_find(const struct mr_table *t, uint32_t key);
/** The entry with a number, which is a key's upper 24 bits, or NULL. */
struct rocemu_mr *mr_at(const struct mr_table *t, uint32_t number);
/** Put a new entry into the table of pd's endpoint: sets its key and pd. -ENOMEM. */
int mr_entry_init(struct rocemu_pd *pd, struct rocemu_mr *entry);
void mr_entry_fini(struct rocemu_mr *entry);

/**
 * The place of [addr, addr+len) in memory, if the entry is of this PD, spans it and grants all bits
 * of access; or NULL. After a check of a whole message, the caller must check the part again that
 * it reads (MR_PIECE_MAX at most) or writes (an MTU): no more is paged in for an on-demand region,
 * and a null region has no more memory.
 */
uint8_t *mr_range(const struct rocemu_mr *mr, const struct rocemu_pd *pd, uint64_t addr,
		  uint64_t len, int access);
/**
 * An access to host[0..len) found memory missing. Regions and windows that contain any of it
 * request their pages from now on, as on-demand regions do; where that is not possible they grant
 * no access any more. So the remaining part of the region stays usable, and an access to the rest
 * fails.
 */
void mr_missing(struct mr_table *t, const void *host, size_t len);

/** An address for no bytes. */
uint8_t *mr_nowhere(void);

/**
 * Check one access by L_Key: key of a region, of this PD, [addr, addr+len) inside, all bits of
 * access granted.
 * @return its place in memory, or NULL. len 0 needs no valid key: any non-NULL pointer comes back.
 */
uint8_t *mr_access(const struct mr_table *t, const struct rocemu_pd *pd, uint32_t key,
		   uint64_t addr, uint64_t len, int access);

/** Total bytes of a list. */
uint64_t sge_total(const struct ibv_sge *sge, unsigned n);

/**
 * The memory of bytes [off, off+len) of a list as iovecs.
 * @return number of iovecs (0 for len 0), or -EFAULT: a key, bound or right does not hold.
 */
int sge_gather(const struct mr_table *t, const struct rocemu_pd *pd, const struct ibv_sge *sge,
	       unsigned n, uint64_t off, uint32_t len, int access, struct iovec *iov, unsigned max);

/**
 * Copy src[0..len) to bytes [off, off+len) of a list (needs local write).
 * @return 0, or -EFAULT: a key, bound or right does not hold, nothing was written; or the memory is
 * missing, and the beginning may have been written; -EMSGSIZE: the list is shorter than that.
 */
int sge_scatter(struct mr_table *t, const struct rocemu_pd *pd, const struct ibv_sge *sge,
		unsigned n, uint64_t off, const uint8_t *src, uint32_t len);

#endif
