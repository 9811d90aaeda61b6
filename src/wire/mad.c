/* SPDX-License-Identifier: BSD-2-Clause */
/* The common MAD header (IBTA vol. 1, 13.4.3). */
#include <rocemu/mad.h>

#include "base/bytes.h"

/* clang-format off */
enum { MAD_BASE_VERSION = 0, MAD_CLASS = 1, MAD_CLASS_VERSION = 2, MAD_METHOD = 3, MAD_STATUS = 4,
       MAD_CLASS_SPECIFIC = 6, MAD_TID = 8, MAD_ATTR_ID = 16, MAD_RESERVED = 18, MAD_ATTR_MOD = 20 };
/* clang-format on */
enum { BASE_VERSION = 1 };

enum rocemu_mad_verdict rocemu_mad_decode(struct rocemu_mad *m, const uint8_t *buf, size_t len)
{
	/* IBTA 13.4.2: a MAD is 256 bytes, unused ones included. */
	if (len != ROCEMU_MAD_LEN)
		return ROCEMU_MAD_LENGTH;
	*m = (struct rocemu_mad){
		.base_version = buf[MAD_BASE_VERSION],
		.mgmt_class = buf[MAD_CLASS],
		.class_version = buf[MAD_CLASS_VERSION],
		.method = buf[MAD_METHOD],
		.status = get_be16(buf + MAD_STATUS),
		.class_specific = get_be16(buf + MAD_CLASS_SPECIFIC),
		.tid = get_be64(buf + MAD_TID),
		.attr_id = get_be16(buf + MAD_ATTR_ID),
		.attr_mod = get_be32(buf + MAD_ATTR_MOD),
		.data = buf + ROCEMU_MAD_HDR_LEN,
	};
	return m->base_version == BASE_VERSION ? ROCEMU_MAD_OK : ROCEMU_MAD_BASE_VERSION;
}

void rocemu_mad_encode(const struct rocemu_mad *m, uint8_t buf[ROCEMU_MAD_HDR_LEN])
{
	buf[MAD_BASE_VERSION] = m->base_version;
	buf[MAD_CLASS] = m->mgmt_class;
	buf[MAD_CLASS_VERSION] = m->class_version;
	buf[MAD_METHOD] = m->method;
	put_be16(buf + MAD_STATUS, m->status);
	put_be16(buf + MAD_CLASS_SPECIFIC, m->class_specific);
	put_be64(buf + MAD_TID, m->tid);
	put_be16(buf + MAD_ATTR_ID, m->attr_id);
	put_be16(buf + MAD_RESERVED, 0);
	put_be32(buf + MAD_ATTR_MOD, m->attr_mod);
}

const char *rocemu_mad_verdict_text(enum rocemu_mad_verdict v)
{
	static const char *const texts[ROCEMU_MAD_VERDICT_COUNT] = {
#define X(name, text) [ROCEMU_MAD_##name] = text,
		ROCEMU_MAD_VERDICTS(X)
#undef X
	};

	return (unsigned)v < ROCEMU_MAD_VERDICT_COUNT ? texts[v] : "unknown";
}
