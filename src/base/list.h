/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Intrusive doubly linked list. A node that is not on a list points to itself, so list_linked() can
 * test for it and removing a node twice is harmless.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>

#include "base/util.h"

struct list {
	struct list *next, *prev;
};

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

/** More than one node? */
static inline bool list_several(const struct list *l)
{
	return l->next != l->prev;
}

/** For a node: is it on a list? */
static inline bool list_linked(const struct list *n)
{
	return n->next != n;
}

static inline void list_append(struct list *l, struct list *n)
{
	n->prev = l->prev;
	n->next = l;
	l->prev->next = n;
	l->prev = n;
}

static inline void list_remove(struct list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	list_init(n);
}

/** Put all nodes of from before those of l; from is empty then. */
static inline void list_splice(struct list *l, struct list *from)
{
	from->prev->next = l->next;
	l->next->prev = from->prev;
	l->next = from->next;
	from->next->prev = l;
	list_init(from);
}

/** First node or NULL. */
static inline struct list *list_first(const struct list *l)
{
	return list_empty(l) ? NULL : l->next;
}

#define list_entry(node, type, member) container_of(node, type, member)
#define list_for_each(it, l)	       for (struct list *it = (l)->next; it != (l); it = it->next)
/** The loop's body may remove it. */
#define list_for_each_safe(it, tmp, l) \
	for (struct list *it = (l)->next, *tmp = it->next; it != (l); it = tmp, tmp = it->next)

#define list_entry_at_(l, n, type, member) ((n) == (l) ? NULL : list_entry(n, type, member))
/** Each entry; the loop's body may remove it. l is evaluated more than once. */
#define list_for_each_entry(e, type, member, l)                                       \
	for (type *e = list_entry_at_(l, (l)->next, type, member), *e##_next;         \
	     e && (e##_next = list_entry_at_(l, e->member.next, type, member), true); \
	     e = e##_next)

#endif
