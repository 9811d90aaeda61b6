/* SPDX-License-Identifier: BSD-2-Clause */
/* The process that keeps what outlives the agent's worker. */
#include "agent/holder.h"

#include <signal.h>
#include <stdlib.h>

#include "peer.h"
#include "test.h"

/* It would take the end of the worker's connection for the worker's, and start another one beside
 * it. */
TEST(holder, stopped_until_its_socket_is_full__replaced_and_gone)
{
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	pid_t holder, worker;
	struct peer p;
	uint32_t slot;

	env_enter();
	/* A worker without clients would leave soon, and hide what is wrong. */
	assert_int_equal(system(AGENT_BIN " --idle-timeout 600"), 0);
	p = peer_start(0);
	assert_int_equal(peer_join(&p).r, 0);
	holder = agent_holder();
	worker = agent_pid();
	assert_int_equal(kill(holder, SIGSTOP), 0);
	/* Each one who joins is a change. */
	for (unsigned i = 0; i < 10000 && agent_holder() == holder; i++) {
		assert_int_equal(peer_leave(&p), 0);
		assert_int_equal(peer_join(&p).r, 0);
	}
	assert_int_not_equal(agent_holder(), holder);
	kill(holder, SIGCONT);
	wait_gone(holder);
	assert_int_equal(agent_pid(), worker);
	/* The next one has all that the worker had. */
	assert_int_equal(peer_leave(&p), 0);
	slot = peer_join(&p).value;
	assert_int_equal(peer_socket(&p, &addr), 0);
	kill_agent();
	assert_int_equal(peer_service(&p), 0);
	send_to_qpn(&addr, slot << 14 | 5);
	assert_int_equal(peer_receive(&p, 0), slot << 14 | 5);
	peer_kill(&p);
	env_leave();
}
