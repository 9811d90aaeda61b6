/* SPDX-License-Identifier: BSD-2-Clause */
/* In the place of rdmacm's core, devices and QPs: a connection manager in virtual time, whose MADs
 * are checked and thrown away, and one device with an address of each family. */
#include "fuzz-rdmacm.h"

#include <string.h>

#include "driver.h"
#include "rdmacm/agent.h"
#include "rdmacm/cm-events.h"
#include "rdmacm/core.h"
#include "rdmacm/device-watch.h"
#include "rdmacm/globals.h"
#include "rdmacm/mcast.h"
#include "rdmacm/private.h"
#include "rdmacm/qp.h"
#include "rdmacm/resolve.h"

struct CAPABILITY("rdmacm's lock") rcm_lock {
	bool held;
};

struct rcm_lock rcm_lock;

static struct {
	struct cm *cm;
	rocemu_ns_t now;
	uint32_t random;
	bool driving, qps_fail;
} core;

const struct rocemu_gid fuzz_own4 = {{[10] = 0xff, 0xff, 10, 0, 0, 1}};
const struct rocemu_gid fuzz_peer4 = {{[10] = 0xff, 0xff, 10, 0, 0, 2}};
const struct rocemu_gid fuzz_own6 = {{0xfd, [15] = 1}};
const struct rocemu_gid fuzz_peer6 = {{0xfd, [15] = 2}};
const struct rocemu_gid fuzz_other = {{0xfd, [15] = 3}};

static struct ibv_context context;
static struct ibv_pd pd = {.context = &context};
static struct ibv_qp qp = {.qp_num = 0x77};
static struct rcm_device device = {.verbs = &context,
				   .pd = &pd,
				   .guid = 0xb1,
				   .max_responder_resources = 16,
				   .max_initiator_depth = 16};

/* ---- calls of the target ---- */

void fuzz_core_start(void)
{
	struct cm_config config = {.ca_guid = device.guid,
				   .id_prefix = 1,
				   .max_half_open = 5,
				   .max_lingering = 4,
				   .exit_mads = true};

	core.now = 1;
	list_init(&device.ids);
	core.random = 1;
	core.qps_fail = false;
	core.cm = cm_new(&config);
	FUZZ_CHECK(core.cm);
	rcm_globals_forget();
}

void fuzz_core_pass(rocemu_ns_t ns)
{
	core.now += ns;
	rcm_lock_take();
	cm_expire(core.cm, core.now);
	rcm_timers_expire(core.now);
	FUZZ_CHECK(rcm_timers_deadline() > core.now);
	rcm_drive();
	rcm_lock_drop();
}

void fuzz_core_end(void)
{
	rcm_lock_take();
	FUZZ_CHECK(rcm_timers_deadline() == ROCEMU_NEVER);
	rcm_lock_drop();
	for (unsigned i = 0; cm_deadline(core.cm) != ROCEMU_NEVER; i++) {
		FUZZ_CHECK(i < 1000);
		fuzz_core_pass(cm_deadline(core.cm) - core.now);
	}
	FUZZ_CHECK(cm_get_stats(core.cm)->conns == 0);
	FUZZ_CHECK(cm_get_stats(core.cm)->half_open == 0);
	cm_free(core.cm);
}

void fuzz_core_input(const uint8_t mad[ROCEMU_MAD_LEN], const struct cm_addr *addr)
{
	rcm_lock_take();
	cm_input(core.cm, core.now, mad, ROCEMU_MAD_LEN, addr);
	rcm_drive();
	rcm_lock_drop();
}

void fuzz_core_fail_qps(bool fail)
{
	core.qps_fail = fail;
}

bool fuzz_core_local(const struct rocemu_gid *gid, struct rcm_local *local)
{
	*local = (struct rcm_local){.dev = &device, .port_num = 1, .gid = *gid};
	return rocemu_gid_equal(gid, &fuzz_own4) || rocemu_gid_equal(gid, &fuzz_own6);
}

struct ibv_qp *fuzz_core_qp(void)
{
	return &qp;
}

/* ---- the core ---- */

void rcm_lock_take(void) NO_THREAD_SAFETY_ANALYSIS
{
	FUZZ_CHECK(!rcm_lock.held);
	rcm_lock.held = true;
}

void rcm_lock_drop(void) NO_THREAD_SAFETY_ANALYSIS
{
	FUZZ_CHECK(rcm_lock.held);
	rcm_lock.held = false;
}

/* A thread that waits here waits for an acknowledgement that this program has given already. */
void rcm_lock_wait(void)
{
	bool waits_for_ever = true;

	FUZZ_CHECK(!waits_for_ever);
}

void rcm_lock_wake_all(void)
{
}

rocemu_ns_t rcm_now(void)
{
	return core.now;
}

void rcm_core_wake(void)
{
}

uint32_t rcm_random(void)
{
	return core.random += 0x9e3779b9u;
}

struct cm *rcm_core_cm(void)
{
	return core.cm;
}

bool rcm_core_orphaned(const struct rcm_id *id)
{
	(void)id;
	return false;
}

bool rcm_core_has(const struct rcm_id *id)
{
	return id->generation == 1;
}

void rcm_core_join(struct rcm_id *id)
{
	id->generation = 1;
}

void rcm_drive(void)
{
	struct rocemu_cm_msg m;
	struct cm_event ev;
	struct cm_exit_mad exit_mad;
	struct cm_mad mad;
	bool more = true;

	FUZZ_CHECK(rcm_lock.held);
	if (core.driving)
		return;
	core.driving = true;
	while (more) {
		more = false;
		while (cm_output(core.cm, core.now, &mad, 1))
			FUZZ_CHECK(rocemu_cm_decode(&m, mad.data, sizeof(mad.data)) ==
				   ROCEMU_MAD_OK);
		while (cm_next_event(core.cm, &ev)) {
			more = true;
			rcm_cm_event(&ev);
		}
	}
	while (cm_next_exit_mad(core.cm, &exit_mad))
		;
	core.driving = false;
}

void rcm_drive_out(void)
{
	rcm_drive();
	rcm_lock_drop();
}

void rcm_call_begin(struct rcm_call *call, const struct rcm_id *id)
{
	call->id = id;
}

void rcm_call_end(struct rcm_call *call)
{
	(void)call;
}

void rcm_calls_wait(const struct rcm_id *id)
{
	(void)id;
}

const struct rcm_local *rcm_agent_local(const struct rocemu_gid *gid, uint32_t scope_id)
{
	static struct rcm_local local;

	(void)scope_id;
	return fuzz_core_local(gid, &local) ? &local : NULL;
}

int rcm_agent_open(const struct rcm_local *locals, int n, enum log_level level)
{
	(void)locals;
	(void)n;
	(void)level;
	return 0;
}

int rcm_agent_listen(struct rcm_id *id)
{
	(void)id;
	return 0;
}

void rcm_agent_unbind(struct rcm_id *id)
{
	(void)id;
}

/* ---- devices, QPs, groups ---- */

int rcm_device_addresses(struct rcm_local **out)
{
	*out = NULL;
	return 1; /* the caller only passes it on */
}

void rcm_device_recheck(void)
{
}

int rcm_bind(struct rcm_id *id, const struct sockaddr *sa)
{
	(void)id;
	(void)sa;
	return -EINVAL;
}

void rcm_device_watch_network(void)
{
}

int rcm_qp_connect(struct rcm_id *id)
{
	FUZZ_CHECK(!rcm_lock.held);
	return id->base.qp && core.qps_fail ? -EINVAL : 0;
}

const struct rcm_private *rcm_private(void)
{
	static const struct rcm_private nothing;

	return &nothing;
}

int rcm_fault(enum fault_verb verb)
{
	(void)verb;
	FUZZ_CHECK(!rcm_lock.held);
	return 0;
}

void rcm_qp_error(struct rcm_id *id)
{
	(void)id;
	FUZZ_CHECK(!rcm_lock.held);
}

void rcm_qp_error_on_take(struct rcm_event *ev)
{
	rcm_qp_error(ev->owner);
}

void rcm_local_ah(const struct rcm_local *local, const struct rocemu_gid *gid, uint8_t tclass,
		  struct ibv_ah_attr *ah)
{
	(void)local;
	*ah = (struct ibv_ah_attr){.grh = {.traffic_class = tclass}, .is_global = 1};
	memcpy(ah->grh.dgid.raw, gid->raw, sizeof(gid->raw));
}

void rcm_groups_leave(struct rcm_id *id)
{
	(void)id;
}
