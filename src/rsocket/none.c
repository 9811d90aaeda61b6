/* SPDX-License-Identifier: BSD-2-Clause */
/* Kinds of sockets that are not there: each is weak, so the true one takes its place. */
#include "rsocket/rs.h"

__attribute__((weak)) int rs_stream_new(int domain, struct rs **out)
{
	(void)domain;
	(void)out;
	return -EOPNOTSUPP;
}

__attribute__((weak)) int rs_dgram_new(int domain, struct rs **out)
{
	(void)domain;
	(void)out;
	return -EOPNOTSUPP;
}

__attribute__((weak)) int64_t rs_iomap(struct rs *rs, void *buf, size_t len, int prot,
				       int64_t offset)
{
	(void)rs;
	(void)buf;
	(void)len;
	(void)prot;
	(void)offset;
	return -EOPNOTSUPP;
}

__attribute__((weak)) int rs_iounmap(struct rs *rs, void *buf, size_t len)
{
	(void)rs;
	(void)buf;
	(void)len;
	return -EOPNOTSUPP;
}

__attribute__((weak)) ssize_t rs_iowrite(struct rs *rs, const void *buf, size_t len, int64_t offset,
					 int flags)
{
	(void)rs;
	(void)buf;
	(void)len;
	(void)offset;
	(void)flags;
	return -EOPNOTSUPP;
}
