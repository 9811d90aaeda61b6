/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Entry points without an object: fork support, sysfs helpers, Ethernet addresses.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verbs/context.h"
#include "verbs/misc.h"
#include "verbs/port.h"
#include "verbs/real.h"

/*
 * ---- fork: the emulated adapter is in the process, so copy-on-write does not affect it; the
 * system's library does what real adapters need ----
 */

int ibv_fork_init(void)
{
	return real_fork_init();
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return real_loaded() ? REAL_CALL(ibv_is_fork_initialized) : IBV_FORK_UNNEEDED;
}

int ibv_dontfork_range(void *base, size_t size)
{
	return real_loaded() ? REAL_CALL(ibv_dontfork_range, base, size) : 0;
}

int ibv_dofork_range(void *base, size_t size)
{
	return real_loaded() ? REAL_CALL(ibv_dofork_range, base, size) : 0;
}

/* ---- sysfs ---- */

const char *ibv_get_sysfs_path(void)
{
	const char *env = secure_getenv("SYSFS_PATH");

	return env && *env ? env : "/sys";
}

/** One line of a file without its newline. @return its length, or -1 with errno. */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[512];
	ssize_t n;
	int fd;

	if (size == 0 || snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path)) {
		errno = REFUSE(EINVAL, 0,
			       "ibv_read_sysfs_file: size is %zu, %s/%s: size must not be 0, and "
			       "the path less than %zu bytes: change them",
			       size, dir, file, sizeof(path));
		return -1;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, buf, size);
	close(fd);
	if (n <= 0)
		return -1;
	if (buf[n - 1] == '\n')
		n--;
	else if ((size_t)n == size)
		n = (ssize_t)size - 1;
	buf[n] = 0;
	return (int)n;
}

/* ---- the Ethernet address behind a GID ---- */

/** The MAC of an IPv4 neighbour, from the kernel's table. */
static bool arp_lookup(const uint8_t ip[4], const char *ifname, uint8_t mac[ETHERNET_LL_SIZE])
{
	char line[256], addr[64], hw[64], dev[64], want[INET_ADDRSTRLEN];
	unsigned m[ETHERNET_LL_SIZE], type, flags;
	FILE *f = fopen("/proc/net/arp", "re");
	bool found = false;

	if (!f)
		return false;
	inet_ntop(AF_INET, ip, want, sizeof(want));
	while (!found && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%63s 0x%x 0x%x %63s %*s %63s", addr, &type, &flags, hw, dev) != 5)
			continue;
		found = !strcmp(addr, want) && !strcmp(dev, ifname) && (flags & 2) &&
			sscanf(hw, "%x:%x:%x:%x:%x:%x", &m[0], &m[1], &m[2], &m[3], &m[4], &m[5]) ==
				6;
	}
	fclose(f);
	for (unsigned i = 0; found && i < ETHERNET_LL_SIZE; i++)
		mac[i] = (uint8_t)m[i];
	return found;
}

/**
 * The MAC that follows from an address's form: multicast, or a link-local address made of a MAC.
 */
static bool mac_by_form(const struct rocemu_gid *g, uint8_t mac[ETHERNET_LL_SIZE])
{
	const uint8_t *r = g->raw;

	if (rocemu_gid_is_ipv4(g) && (r[12] & 0xf0) == 0xe0) {
		const uint8_t m[] = {0x01, 0x00, 0x5e, r[13] & 0x7f, r[14], r[15]};

		memcpy(mac, m, sizeof(m));
	} else if (r[0] == 0xff) {
		const uint8_t m[] = {0x33, 0x33, r[12], r[13], r[14], r[15]};

		memcpy(mac, m, sizeof(m));
	} else if (r[0] == 0xfe && r[1] == 0x80 && r[11] == 0xff && r[12] == 0xfe) {
		const uint8_t m[] = {r[8] ^ 2, r[9], r[10], r[13], r[14], r[15]};

		memcpy(mac, m, sizeof(m));
	} else {
		return false;
	}
	return true;
}

int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	struct vb_context *c = vb_context_of(context);
	struct rocemu_gid g;

	if (!c)
		return REAL_CALL(ibv_resolve_eth_l2_from_gid, context, attr, eth_mac, vid);
	if (!attr->is_global || attr->port_num != 1 || vb_port_gid(c, attr->grh.sgid_index, &g))
		return vb_errno(REFUSE(-EINVAL, 0,
				       "ibv_resolve_eth_l2_from_gid: is_global is %d, port_num %d, "
				       "sgid_index %d: they must be 1, 1 and an entry of the GID "
				       "table: see ibv_query_gid()",
				       attr->is_global, attr->port_num, attr->grh.sgid_index));
	if (vid)
		*vid = 0xffff; /* no VLAN tag: the interface adds its own */
	memcpy(g.raw, attr->grh.dgid.raw, 16);
	if (mac_by_form(&g, eth_mac))
		return 0;
	if (vb_port_find_gid(c, &g) >= 0) {
		memcpy(eth_mac, c->netdev.mac, ETHERNET_LL_SIZE);
		return 0;
	}
	if (rocemu_gid_is_ipv4(&g) && arp_lookup(g.raw + 12, c->netdev.ifname, eth_mac))
		return 0;
	return vb_errno(-EHOSTUNREACH);
}

/*
 * ---- enhanced connection establishment: an option of one vendor's adapters. As with a provider
 * that has none, the program's structures are not changed. ----
 */

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (!vb_context_of(qp->context))
		return REAL_CALL(ibv_set_ece, qp, ece);
	return vb_errno(REFUSE(-EOPNOTSUPP, 0,
			       "ibv_set_ece: rocemu has no vendor options: continue without ECE"));
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (!vb_context_of(qp->context))
		return REAL_CALL(ibv_query_ece, qp, ece);
	return vb_errno(
		REFUSE(-EOPNOTSUPP, 0,
		       "ibv_query_ece: rocemu has no vendor options: continue without ECE"));
}
