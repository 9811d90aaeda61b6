/* SPDX-License-Identifier: BSD-2-Clause */
/* A connection comes about, or does not: the messages on a network that loses nothing, and what the
 * consumers see. */
#include "net.h"

#include <errno.h>

#include "test.h"

TEST(connect, accepted__established_on_both_sides)
{
	struct net n;

	net_start(&n, 1);
	net_connect(&n, A);
	net_run(&n);
	assert_string_equal(n.wire, "A:REQ B:REP A:RTU");
	assert_string_equal(n.side[A].log, "REP");
	assert_string_equal(n.side[B].log, "REQ; RTU");
	assert_int_equal(cm_conn_state(n.side[A].conn), CM_ESTABLISHED);
	assert_int_equal(cm_conn_state(n.side[B].conn), CM_ESTABLISHED);
	assert_int_equal(cm_conn_remote_id(n.side[A].conn), cm_conn_local_id(n.side[B].conn));
	assert_int_equal(cm_conn_remote_id(n.side[B].conn), cm_conn_local_id(n.side[A].conn));
	assert_int_equal(cm_conn_local_id(n.side[A].conn) >> CM_ID_PREFIX_SHIFT, 5);
	assert_int_equal(cm_conn_local_id(n.side[B].conn) >> CM_ID_PREFIX_SHIFT, 6);
	assert_int_equal(cm_conn_req(n.side[B].conn)->local_qpn, NET_QPN_A);
	assert_int_equal(cm_conn_rep(n.side[A].conn)->local_qpn, NET_QPN_B);
	net_finish(&n);
}

TEST(disconnect, from_the_active_side__timewait_then_idle)
{
	struct net n;

	net_start(&n, 1);
	net_connect(&n, A);
	net_run(&n);
	n.wire[0] = 0;
	assert_int_equal(cm_disconnect(n.side[A].conn, n.now, NULL, 0), 0);
	net_run(&n);
	assert_string_equal(n.wire, "A:DREQ B:DREP");
	assert_string_equal(n.side[A].log, "REP; DREP; TIMEWAIT_EXIT");
	assert_string_equal(n.side[B].log, "REQ; RTU; DREQ; TIMEWAIT_EXIT");
	net_finish(&n);
}
