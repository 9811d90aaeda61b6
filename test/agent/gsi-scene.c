/* SPDX-License-Identifier: BSD-2-Clause */
#include "gsi-scene.h"

#include <unistd.h>

#include "test.h"

struct rocemu_gid at, far;
int wire;

void wire_up(void)
{
	at = gid_v4(127, 0, 0, 1);
	far = gid_v4(127, 0, 0, 9);
	wire = wire_open(&far);
}

void enter(void)
{
	env_enter();
	wire_up();
}

void leave(void)
{
	close(wire);
	env_leave();
}

struct gsi_mail dreq(uint32_t ours, uint32_t theirs)
{
	return mail_ids(&at, &far, ROCEMU_CM_DREQ, ours, theirs);
}

void fence(struct gsi_peer *p)
{
	struct gsi_mail m = mail_req(&at, &at, agent_comm_id(p->number, 0x3fffff), 0x1234567), got;

	assert_int_equal(gsi_peer_send(p, &m), 0);
	assert_int_equal(gsi_peer_recv(p, &got), 1);
	assert_int_equal(got.m.attr_id, ROCEMU_CM_REJ);
}
