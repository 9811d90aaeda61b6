/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Assigns handles: numbers of a context's objects, unique in the context, like the kernel's. A call
 * on an object with a changed handle fails as with the kernel, without any effect. Calls that post
 * and poll do not check handles, as in providers.
 */
#include <pthread.h>
#include <stdlib.h>

#include "verbs/context.h"
#include "verbs/handle.h"
#include "verbs/orphan.h"

/*
 * A free entry holds the number of the next free one, marked by a bit that no object's address has.
 */
enum { FREE_MARK = 1, FIRST_SIZE = 64 };

static uintptr_t free_place(uint32_t next)
{
	return (uintptr_t)next << 1 | FREE_MARK;
}

void vb_handles_init(struct vb_handles *h)
{
	*h = (struct vb_handles){0};
	pthread_mutex_init(&h->lock, NULL);
}

void vb_handles_fini(struct vb_handles *h)
{
	pthread_mutex_destroy(&h->lock);
	free(h->places);
}

static int grow(struct vb_handles *h)
{
	uint32_t size = h->size ? 2 * h->size : FIRST_SIZE;
	uintptr_t *places = size > h->size ? realloc(h->places, size * sizeof(*places)) : NULL;

	if (!places)
		return -ENOMEM;
	for (uint32_t i = h->size; i < size; i++)
		places[i] = free_place(i + 1);
	h->places = places;
	h->size = size;
	return 0;
}

int vb_handle_new(struct vb_context *c, const void *object, uint32_t *handle)
{
	struct vb_handles *h = &c->handles;
	int ret = vb_orphan_check(c);

	if (ret < 0)
		return ret;
	pthread_mutex_lock(&h->lock);
	if (h->next == h->size)
		ret = grow(h);
	if (ret == 0) {
		*handle = h->next;
		h->next = (uint32_t)(h->places[*handle] >> 1);
		h->places[*handle] = (uintptr_t)object;
	}
	pthread_mutex_unlock(&h->lock);
	return ret;
}

static bool names(const struct vb_handles *h, uint32_t handle, const void *object)
{
	return handle < h->size && h->places[handle] == (uintptr_t)object;
}

int vb_handle_check(struct vb_context *c, uint32_t handle, const void *object)
{
	bool ok;

	if (vb_orphan_check(c))
		return -ENODEV;
	pthread_mutex_lock(&c->handles.lock);
	ok = names(&c->handles, handle, object);
	pthread_mutex_unlock(&c->handles.lock);
	return ok ? 0
		  : REFUSE(-ENOENT, 0,
			   "a call with an object whose handle is %u: the context has no such "
			   "object: it was destroyed before, or its memory was overwritten",
			   handle);
}

void vb_handle_free(struct vb_context *c, uint32_t handle, const void *object)
{
	struct vb_handles *h = &c->handles;

	pthread_mutex_lock(&h->lock);
	if (names(h, handle, object)) {
		h->places[handle] = free_place(h->next);
		h->next = handle;
	}
	pthread_mutex_unlock(&h->lock);
}
