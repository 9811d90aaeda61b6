/* SPDX-License-Identifier: BSD-2-Clause */
/* Starting the agent from a process. */
#include "agent/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "peer.h"
#include "test.h"

static unsigned low; /* so many descriptors are open, from 0 on */

static void join_bare(int ctl)
{
	struct agent_client *c;
	char text[400];
	int r;

	ctl = fcntl(ctl, F_DUPFD_CLOEXEC, 100);
	close_range(0, 99, 0);
	for (unsigned i = 0; i < low; i++)
		if (open("/dev/null", O_RDWR | O_CLOEXEC) < 0)
			_exit(5);
	r = agent_client_new(&c, text, sizeof(text));
	_exit(write(ctl, &r, sizeof(r)) != sizeof(r));
}

TEST(agent_client, standard_descriptors_closed__the_agent_starts)
{
	for (low = 0; low < 5; low++) {
		struct peer p;
		int r;

		env_enter();
		p = peer_spawn(0, join_bare);
		assert_int_equal(read(p.ctl, &r, sizeof(r)), sizeof(r));
		assert_int_equal(r, 0);
		peer_kill(&p);
		env_leave();
	}
}

TEST(agent_client, no_agent_program__says_where_it_looked)
{
	struct agent_client *c;
	char text[400];

	env_enter();
	setenv("ROCEMU_AGENT_BIN", "/nonexistent/rocemu-agent", 1);
	assert_int_equal(agent_client_new(&c, text, sizeof(text)), -ECONNREFUSED);
	assert_non_null(strstr(text, "/nonexistent/rocemu-agent"));
	setenv("ROCEMU_AGENT_BIN", "/bin/true", 1);
	assert_true(agent_client_new(&c, text, sizeof(text)) < 0);
	assert_non_null(strstr(text, "ended at once"));
}
