/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/fault.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/forks.h"
#include "base/mutex.h"
#include "base/util.h"
#include "engine/timed-faults.h"
#include "fault/report.h"
#include "fault/setting.h"
#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/port.h"
#include "verbs/qp.h"

enum { CALL_DICE = 0x40 }; /* apart from those of impair.c and fault.c */

/** What rules count of one QP. */
struct vb_fault_qp {
	bool first; /* of the process */
	struct fault_counter count[FAULT_VERB_RULES];
};

atomic_bool vb_faults_on;

/* The lock is a leaf, but for that of the report. It guards all but the totals' numbers. */
static struct {
	struct mutex lock;
	unsigned serial; /* of the setting that was read */
	struct fault_verbs rules;
	struct fault_total *total[FAULT_VERB_RULES];
	struct rng rng[FAULT_VERB_RULES];
	bool had_qp, had_cq;
} faults = {.lock = MUTEX_INITIALIZER};

/* ---- fork ---- */

static void lock_faults(void)
{
	mutex_lock(&faults.lock);
}

static void unlock_faults(void)
{
	mutex_unlock(&faults.lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
	static const struct fork_handlers handlers = {lock_faults, unlock_faults, unlock_faults};

	forks_add(FORK_FAULTS, &handlers);
}

/* ---- reading ---- */

/* Lock held. */
static void take_rules(const struct impair *im)
{
	static const char *const units[] = {
		[FAULT_FAIL] = "calls",	     [FAULT_WC_ERROR] = "send requests",
		[FAULT_CQ_OVERFLOW] = "CQs", [FAULT_DEVICE_FATAL] = "calls",
		[FAULT_PORT_DOWN] = "",	     [FAULT_GID_REMOVE] = "",
	};

	faults.rules = im->verbs;
	for (unsigned i = 0; i < faults.rules.n; i++) {
		const struct fault_verb_rule *rule = &faults.rules.rule[i];

		/* Rules by time are handled by port.c. */
		faults.total[i] = *units[rule->action]
					  ? fault_total_get(rule->text, units[rule->action])
					  : NULL;
		rng_init(&faults.rng[i], im->seed ^ (uint64_t)(CALL_DICE + i) << 48);
	}
}

void vb_faults_load(void)
{
	struct impair *im = malloc(sizeof(*im)); /* too large for small stacks */
	unsigned serial;
	char text[512];
	bool wrong;

	if (!im)
		return;
	wrong = setting_get(im, &serial, text, sizeof(text)) < 0;
	lock_faults();
	if (serial != faults.serial) {
		faults.serial = serial;
		memset(&faults.rules, 0, sizeof(faults.rules));
		faults.had_qp = faults.had_cq = false;
		if (!wrong && fault_report_start(text, sizeof(text)) == 0)
			take_rules(im);
		atomic_store(&vb_faults_on, faults.rules.n > 0);
	}
	unlock_faults();
	free(im);
}

/* ---- deciding ---- */

static bool qp_meant(const struct fault_verb_rule *rule, const struct vb_qp *qp)
{
	if (rule->first_object)
		return qp->fault->first;
	return qp->base.qp_base.qp_num >= rule->qp.min && qp->base.qp_base.qp_num <= rule->qp.max;
}

/* One more match of rule i: does it act? Lock held. */
static bool hit(unsigned i, struct vb_qp *qp)
{
	struct fault_verb_rule *rule = &faults.rules.rule[i];
	struct fault_counter *count = &rule->count;
	bool acts;

	if (rule->per_qp && qp && qp->fault)
		count = &qp->fault->count[i];
	acts = fault_when_hit(&rule->when, count, &faults.rng[i]);
	fault_total_add(faults.total[i], acts);
	return acts;
}

static void log_call(const struct fault_verb_rule *rule, enum fault_verb verb,
		     const struct vb_qp *qp)
{
	char at[32] = "";

	if (qp)
		snprintf(at, sizeof(at), " qp=0x%06x", qp->base.qp_base.qp_num);
	if (rule->action == FAULT_FAIL)
		fault_log_line("call \"%s\" %s%s errno=%d", rule->text, fault_verb_name(verb), at,
			       rule->error);
	else
		fault_log_line("call \"%s\" %s%s device-fatal", rule->text, fault_verb_name(verb),
			       at);
}

/* The first rule that acts decides; all rules count. @return 0 or -errno. */
static int decide(struct vb_qp *qp, enum fault_verb verb, bool *fatal)
{
	int err = 0;

	lock_faults();
	for (unsigned i = 0; i < faults.rules.n; i++) {
		const struct fault_verb_rule *rule = &faults.rules.rule[i];

		if (rule->verb != verb || !hit(i, qp))
			continue;
		log_call(rule, verb, qp);
		if (rule->action == FAULT_DEVICE_FATAL)
			*fatal = true;
		else if (!err)
			err = REFUSE(-rule->error, verb,
				     "%s fails with errno %d on purpose: the rule \"%s\" selects "
				     "it: remove it from --impair",
				     fault_verb_name(verb), rule->error, rule->text);
	}
	unlock_faults();
	return err;
}

/*
 * Calls that still work on a failed device: its QPs are in the error state, and requests are
 * flushed.
 */
static bool outlives_device(enum fault_verb verb)
{
	switch (verb) {
	case FAULT_VERB_QUERY_DEVICE:
	case FAULT_VERB_QUERY_PORT:
	case FAULT_VERB_QUERY_GID:
	case FAULT_VERB_QUERY_QP:
	case FAULT_VERB_REQ_NOTIFY_CQ:
	case FAULT_VERB_POST_SEND:
	case FAULT_VERB_POST_RECV:
	case FAULT_VERB_POST_SRQ_RECV:
		return true;
	default:
		return false;
	}
}

int vb_fault_decide(struct vb_context *c, struct vb_qp *qp, enum fault_verb verb)
{
	bool fatal = false;
	int err = decide(qp, verb, &fatal);

	if (fatal && c)
		vb_port_fail(c);
	else if (fatal)
		timed_faults_fail_devices();
	if (!err && c && !outlives_device(verb) && vb_port_is_gone(c))
		err = REFUSE(-EIO, verb,
			     "%s: the device is gone: it exists only as long as its interface: "
			     "close it, and open another one",
			     fault_verb_name(verb));
	return err;
}

/* ---- objects ---- */

void vb_fault_qp_init(struct vb_qp *qp)
{
	if (!atomic_load_explicit(&vb_faults_on, memory_order_relaxed))
		return;
	/* Without memory the QP has no faults. */
	qp->fault = calloc(1, sizeof(*qp->fault));
	if (!qp->fault)
		return;
	lock_faults();
	qp->fault->first = !faults.had_qp;
	faults.had_qp = true;
	unlock_faults();
}

void vb_fault_qp_fini(struct vb_qp *qp)
{
	free(qp->fault);
	qp->fault = NULL;
}

/* Completions are counted by the CQ itself. */
void vb_fault_cq_init(struct vb_cq *cq)
{
	bool first;

	if (!atomic_load_explicit(&vb_faults_on, memory_order_relaxed))
		return;
	lock_faults();
	first = !faults.had_cq;
	faults.had_cq = true;
	for (unsigned i = 0; i < faults.rules.n && !cq->fault; i++) {
		const struct fault_verb_rule *rule = &faults.rules.rule[i];
		uint64_t nth = rule->when.nth.min, every = rule->when.every;

		if (rule->action != FAULT_CQ_OVERFLOW || (rule->first_object && !first))
			continue;
		/* The first QP or CQ that both conditions match. */
		nth += (every - nth % every) % every;
		if (nth > rule->when.nth.max)
			continue;
		rocemu_cq_overrun_at(cq->rcq, nth, every,
				     MIN(rule->when.times, (rule->when.nth.max - nth) / every + 1));
		cq->fault = faults.total[i];
	}
	unlock_faults();
}

void vb_fault_cq_overflowed(struct vb_cq *cq)
{
	if (likely(!cq->fault))
		return;
	fault_total_add(cq->fault, true);
	fault_log_line("cq \"%s\" overflow", cq->fault->text);
}

void vb_fault_spoil(struct vb_qp *qp)
{
	lock_faults();
	for (unsigned i = 0; i < faults.rules.n; i++) {
		const struct fault_verb_rule *rule = &faults.rules.rule[i];

		if (rule->action != FAULT_WC_ERROR || !qp_meant(rule, qp) || !hit(i, qp))
			continue;
		rocemu_qp_fail_last(qp->rqp, (enum ibv_wc_status)rule->status);
		fault_log_line("send \"%s\" qp=0x%06x status=%s", rule->text,
			       qp->base.qp_base.qp_num,
			       ibv_wc_status_str((enum ibv_wc_status)rule->status));
	}
	unlock_faults();
}
