/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of states, events and drop reasons. */
#include "cm/cm.h"

static const char *const drop_texts[] = {
#define X(name, text) [CM_DROP_##name] = text,
	CM_DROPS(X)
#undef X
};

static const char *const state_texts[] = {
#define X(name) [CM_##name] = #name,
	CM_STATES(X)
#undef X
};

static const char *const event_texts[] = {
#define X(name) [CM_EV_##name] = #name,
	CM_EVENTS(X)
#undef X
};

const char *cm_drop_text(enum cm_drop drop)
{
	return (unsigned)drop < CM_DROP_COUNT ? drop_texts[drop] : "unknown";
}

const char *cm_state_text(enum cm_state state)
{
	return (unsigned)state < CM_STATE_COUNT ? state_texts[state] : "unknown";
}

const char *cm_event_text(enum cm_event_type type)
{
	return (unsigned)type < CM_EV_COUNT ? event_texts[type] : "unknown";
}
