/* SPDX-License-Identifier: BSD-2-Clause */
/* Names and texts of communication management's numbers: the X-macros of cm.h as lookups. */
#include <rocemu/cm.h>

#define X_MESSAGE(name, id, member, len) \
	case id:                         \
		return #name;
#define X_TEXT(name, value, text) \
	case value:               \
		return text;

const char *rocemu_cm_name(uint16_t attr_id)
{
	switch (attr_id) {
		ROCEMU_CM_MESSAGES(X_MESSAGE)
	default:
		return NULL;
	}
}

const char *rocemu_cm_rej_text(uint16_t reason)
{
	switch (reason) {
		ROCEMU_CM_REJ_REASONS(X_TEXT)
	default:
		return "unknown reason";
	}
}

const char *rocemu_cm_sidr_text(uint8_t status)
{
	switch (status) {
		ROCEMU_CM_SIDR_STATUSES(X_TEXT)
	default:
		return "unknown status";
	}
}

const char *rocemu_cm_apr_text(uint8_t status)
{
	switch (status) {
		ROCEMU_CM_APR_STATUSES(X_TEXT)
	default:
		return "unknown status";
	}
}

const char *rocemu_port_space_text(uint16_t ps)
{
	switch (ps) {
		ROCEMU_PORT_SPACES(X_TEXT)
	default:
		return NULL;
	}
}
