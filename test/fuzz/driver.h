/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a fuzz target is made of. The same source file serves two ways: linked with libFuzzer
 * (option fuzz=true, clang), which finds inputs by coverage; and with driver.c, which mutates a
 * corpus for a bounded number of iterations, seeded, under any compiler: that is what the tests
 * run.
 *
 * To add a target: write fuzz-NAME.c with the two functions below and list it in meson.build.
 */
#ifndef TEST_FUZZ_DRIVER_H
#define TEST_FUZZ_DRIVER_H

#include <stddef.h>
#include <stdint.h>

/** The target: feed one input, abort() when something that must hold does not. @return 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz_corpus;

/** Add an input to start from; copied. */
void fuzz_corpus_add(struct fuzz_corpus *c, const void *data, size_t size);

/** Defined by the target: fill the corpus that driver.c mutates. It may stay empty: then inputs are
 * random. */
void fuzz_seed(struct fuzz_corpus *c);

/** Abort with the condition's text, with or without NDEBUG. */
#define FUZZ_CHECK(cond)                                              \
	do {                                                          \
		if (!(cond))                                          \
			fuzz_check_failed(#cond, __FILE__, __LINE__); \
	} while (0)

_Noreturn void fuzz_check_failed(const char *cond, const char *file, int line);

#endif
