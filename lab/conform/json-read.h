/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads JSON that is in memory, part by part, in the order in which it stands there. Any bytes are
 * safe. After the first error all calls return false.
 */
#ifndef CONFORM_JSON_READ_H
#define CONFORM_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>

struct json_reader {
	const char *begin, *at, *end; /* borrowed */
	const char *error;	      /* static; NULL: none */
	unsigned depth;
	bool first; /* nothing was read in the object or array at hand */
};

void json_read_begin(struct json_reader *r, const char *text, size_t len);
/** The line of the error, from 1. */
unsigned json_read_line(const struct json_reader *r);
/** Set the error, if there is none. @return false. */
bool json_read_fail(struct json_reader *r, const char *error);

/** bracket: '{' or '['. @return false: something else is there. */
bool json_enter(struct json_reader *r, char bracket);
/** In an object: its next key, and the value is to be read. @return false: it is over, and left. */
bool json_next_key(struct json_reader *r, char *key, size_t size);
/** In an array. @return false: it is over, and left. */
bool json_next_element(struct json_reader *r);
/** Does a string come? */
bool json_is_string(struct json_reader *r);
/**
 * To to[0..size), cut if it is longer. Control characters become blanks: it is for people.
 */
bool json_read_string(struct json_reader *r, char *to, size_t size);
bool json_read_number(struct json_reader *r, double *to);
/** Any value. */
bool json_skip(struct json_reader *r);
/** Behind the whole there are blanks only. */
bool json_read_end(struct json_reader *r);

#endif
