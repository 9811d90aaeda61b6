/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The RDMA IP CM service (IBTA vol. 1, annex A11): IP ports as service IDs, and the addresses at
 * the head of a REQ's or SIDR_REQ's private data.
 */
#include <string.h>

#include <rocemu/cm.h>

#include "base/bytes.h"
#include "wire/ip.h"

/* clang-format off */
enum { CMA_VERSION = 0, CMA_IPVER = 1, CMA_SPORT = 2, CMA_SRC = 4, CMA_DST = 20 };
/* clang-format on */
enum { IPV4_AT = 12 }; /* of a 16-byte address; the bytes before it are zero, and not read */

bool rocemu_cm_service_port(uint64_t service_id, enum rocemu_port_space *ps, uint16_t *port)
{
	uint16_t space = (uint16_t)(service_id >> 16);

	if (service_id >> 32 != 0 || rocemu_port_space_text(space) == NULL)
		return false;
	*ps = (enum rocemu_port_space)space;
	*port = (uint16_t)service_id;
	return true;
}

bool rocemu_cm_service_is_ip(uint64_t service_id)
{
	return service_id >> 24 == 1;
}

static void address_decode(struct rocemu_gid *g, const uint8_t *p, uint8_t ip_version)
{
	if (ip_version == 4)
		gid_from_ipv4(g, p + IPV4_AT);
	else
		memcpy(g->raw, p, sizeof(g->raw));
}

static void address_encode(const struct rocemu_gid *g, uint8_t *p, uint8_t ip_version)
{
	memcpy(p, g->raw, sizeof(g->raw));
	if (ip_version == 4)
		memset(p, 0, IPV4_AT);
}

enum rocemu_mad_verdict rocemu_cma_decode(struct rocemu_cma *c, const uint8_t *buf, size_t len)
{
	uint8_t ip_version;

	if (len < ROCEMU_CMA_LEN)
		return ROCEMU_MAD_LENGTH;
	ip_version = buf[CMA_IPVER] >> 4;
	if (buf[CMA_VERSION] != 0 || (ip_version != 4 && ip_version != 6))
		return ROCEMU_MAD_FIELD;
	c->ip_version = ip_version;
	c->sport = get_be16(buf + CMA_SPORT);
	address_decode(&c->src, buf + CMA_SRC, ip_version);
	address_decode(&c->dst, buf + CMA_DST, ip_version);
	return ROCEMU_MAD_OK;
}

size_t rocemu_cma_encode(const struct rocemu_cma *c, uint8_t buf[ROCEMU_CMA_LEN])
{
	if (c->ip_version != 4 && c->ip_version != 6)
		return 0;
	buf[CMA_VERSION] = 0;
	buf[CMA_IPVER] = (uint8_t)(c->ip_version << 4);
	put_be16(buf + CMA_SPORT, c->sport);
	address_encode(&c->src, buf + CMA_SRC, c->ip_version);
	address_encode(&c->dst, buf + CMA_DST, c->ip_version);
	return ROCEMU_CMA_LEN;
}
