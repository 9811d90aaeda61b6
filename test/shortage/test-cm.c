/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory, descriptors and other means run out under librdmacm's calls. What connection management
 * keeps for the process's life is made in a process of its own for each fault, too.
 */
#include "test.h"

#include <stdlib.h>

#include "count.h"
#include "drive.h"
#include "netns.h"
#include "sections.h"

static void prepare(void)
{
	netns_enter_once();
	count_keep_send_sockets();
	/* What was lost is sent again soon. */
	setenv("ROCEMU_TIME_SCALE", "100", 1);
}

TEST(cm, any_call_fails_in_a_new_process__error_and_later_calls_work)
{
	prepare();
	drive_fresh("first connection", section_connection);
}

TEST(cm, any_call_fails__error_and_later_calls_work)
{
	prepare();
	drive_all("connection", section_connection);
}

TEST(cm, any_call_of_a_group_fails__error_and_later_calls_work)
{
	prepare();
	drive_all("group", section_group);
}

TEST(cm, descriptors_run_out__emfile_and_later_calls_work)
{
	prepare();
	drive_descriptors("connection", section_connection);
}
