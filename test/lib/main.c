/* SPDX-License-Identifier: BSD-2-Clause */
/* main() of a test program that has none of its own. */
#include "test.h"

int main(int argc, char **argv)
{
	return test_run(argv[0], argv + 1, argc - 1);
}
