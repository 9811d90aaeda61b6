/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any file: what can be judged can be annotated, and the copy has the same frames. Followed, the
 * number of connections has an end.
 */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "verify/model.h"
#include "verify/verify.h"

enum { KEEP = 2, KEPT = 50, PATH = 32 };

static int file_of(const void *data, size_t size, char *path)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, PATH, "/proc/self/fd/%d", fd);
	return fd;
}

/* The reports that only others than fuzz-verify make. */
static void report(const struct verify *v)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	FUZZ_CHECK(f != NULL);
	verify_junit_begin(f);
	verify_junit(v, f, "<fuzz>", SEV_WARN);
	verify_junit_end(f);
	verify_diff(v, v, "a", "b", true, f);
	verify_diff(v, v, "a", "b", false, f);
	FUZZ_CHECK(fclose(f) == 0 && len != 0 && !verify_worse(v, v, SEV_NOTE));
	free(text);
}

static void annotate(struct verify *v, const char *in)
{
	struct verify *again = verify_new(KEEP, 0);
	char out[PATH], err[512];
	int fd = file_of("", 0, out);

	FUZZ_CHECK(again != NULL);
	FUZZ_CHECK(verify_annotate(v, in, out, err, sizeof(err)) == 0);
	FUZZ_CHECK(verify_file(again, out, err, sizeof(err)) == 0);
	FUZZ_CHECK(again->frames == v->frames && again->packets != 0);
	verify_free(again);
	close(fd);
}

static void follow(const char *in)
{
	struct verify *v = verify_new(KEEP, 0);
	char *text = NULL, err[512];
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	FUZZ_CHECK(v != NULL && f != NULL);
	verify_follow(v, f, len % 2 != 0, 16);
	verify_file(v, in, err, sizeof(err));
	FUZZ_CHECK(v->flow_table.n <= 16);
	verify_free(v);
	fclose(f);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct verify *v = verify_new(KEEP, 0);
	char path[PATH], err[512];
	int fd = file_of(data, size, path);

	FUZZ_CHECK(v != NULL);
	verify_keep(v, KEPT);
	if (verify_file(v, path, err, sizeof(err)) == 0) {
		annotate(v, path);
		report(v);
	}
	verify_free(v);
	follow(path);
	close(fd);
	return 0;
}
