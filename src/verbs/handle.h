/* SPDX-License-Identifier: BSD-2-Clause */
/* Assigns handles: numbers of a context's objects. */
#ifndef VERBS_HANDLE_H
#define VERBS_HANDLE_H

#include <pthread.h>
#include <stdint.h>

struct vb_context;

/** The table of handles and their objects. */
struct vb_handles {
	pthread_mutex_t lock; /* guards all of it; a leaf */
	uintptr_t *places;    /* owned; by handle: the object's address, or free (handle.c) */
	uint32_t size;
	uint32_t next; /* the first free entry, or size */
};

void vb_handles_init(struct vb_handles *h);
void vb_handles_fini(struct vb_handles *h);
/** Give an object a handle that no other of the context has. -ENOMEM. */
int vb_handle_new(struct vb_context *c, const void *object, uint32_t *handle);
/** Check that it is the object's handle. -ENOENT: it is not. */
int vb_handle_check(struct vb_context *c, uint32_t handle, const void *object);
/** The object is destroyed. No effect unless it is the object's handle. */
void vb_handle_free(struct vb_context *c, uint32_t handle, const void *object);

#endif
