/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/ecn.h"

#include <string.h>

#include "base/util.h"
#include "netdev/addr.h"

bool ecn_parse(enum ecn_mode *mode, const char *text)
{
	static const char *const words[] = {
		[ECN_AUTO] = "auto",
		[ECN_OFF] = "off",
		[ECN_ON] = "on",
	};

	*mode = ECN_AUTO;
	if (!text || !*text)
		return true;
	for (unsigned i = 0; i < ARRAY_LEN(words); i++)
		if (!strcmp(text, words[i])) {
			*mode = (enum ecn_mode)i;
			return true;
		}
	return false;
}

static bool is_loopback(const struct rocemu_path *path)
{
	return rocemu_gid_equal(&path->sgid, &path->dgid) || addr_gid_is_loopback(&path->dgid);
}

uint8_t ecn_tclass(enum ecn_mode mode, const struct rocemu_path *path, uint8_t opcode)
{
	const enum rocemu_service service = rocemu_opcode_service(opcode);

	if (service == ROCEMU_SVC_CNP)
		return path->tclass & (uint8_t)~ECN_MASK;
	if (mode == ECN_OFF || (path->tclass & ECN_MASK) ||
	    (service != ROCEMU_SVC_RC && service != ROCEMU_SVC_XRC))
		return path->tclass;
	if (mode == ECN_AUTO && is_loopback(path))
		return path->tclass;
	return path->tclass | ECN_ECT0;
}

void ecn_mark(struct ecn *e, struct rocemu_tx **pkt, unsigned n)
{
	const struct rocemu_path *asked = NULL, *taken = NULL;
	enum rocemu_service service = ROCEMU_SVC_CNP;
	unsigned used = 0;

	for (unsigned i = 0; i < n; i++) {
		const uint8_t opcode = pkt[i]->hdr[0];

		if (pkt[i]->path != asked || rocemu_opcode_service(opcode) != service) {
			uint8_t tclass;

			taken = asked = pkt[i]->path;
			service = rocemu_opcode_service(opcode);
			tclass = ecn_tclass(e->mode, asked, opcode);
			if (tclass != asked->tclass) {
				e->path[used] = *asked;
				e->path[used].tclass = tclass;
				taken = &e->path[used++];
			}
		}
		pkt[i]->path = taken;
	}
}
