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

TEST(user, of_connection_and_resolution__in_their_events)
{
	struct net n;
	int mark;

	net_start(&n, 1);
	net_connect(&n, A);
	cm_conn_set_user(n.side[A].conn, &mark);
	assert_ptr_equal(cm_conn_user(n.side[A].conn), &mark);
	net_run(&n);
	assert_ptr_equal(n.side[A].last.user, &mark);
	net_sidr(&n, A);
	cm_sidr_set_user(n.side[A].sidr, &n);
	assert_ptr_equal(cm_sidr_user(n.side[A].sidr), &n);
	net_run(&n);
	assert_ptr_equal(n.side[A].last.user, &n);
	assert_memory_equal(&cm_sidr_addr(n.side[B].sidr)->dst, &n.side[A].gid, 16);
	net_finish(&n);
}

TEST(unlisten, resolution_under_way__lives_on)
{
	struct net n;

	net_start(&n, 1);
	n.side[B].policy = NET_SILENT;
	net_sidr(&n, A);
	net_run_until(&n, n.now + 2 * NET_DELAY_NS);
	assert_string_equal(n.side[B].log, "SIDR_REQ");
	cm_unlisten(n.side[B].listener, n.now);
	cm_sidr_destroy(n.side[B].sidr, n.now);
	n.side[B].sidr = NULL;
	net_run(&n);
	assert_int_equal(n.side[A].last.msg.sidr_rep.status, ROCEMU_CM_SIDR_REJECTED);
	net_finish(&n);
}

TEST(texts, outside_of_the_enumerations__unknown)
{
	assert_string_equal(cm_state_text(CM_REP_SENT), "REP_SENT");
	assert_string_equal(cm_state_text(CM_STATE_COUNT), "unknown");
	assert_string_equal(cm_event_text(CM_EV_SIDR_REP), "SIDR_REP");
	assert_string_equal(cm_event_text(CM_EV_COUNT), "unknown");
	assert_string_equal(cm_drop_text(CM_DROP_STALE), "of a stale connection");
	assert_string_equal(cm_drop_text(CM_DROP_COUNT), "unknown");
}
