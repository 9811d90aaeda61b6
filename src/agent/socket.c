/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/socket.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/launch.h"
#include "agent/protocol.h"
#include "base/cmsg.h"
#include "base/limit.h"
#include "base/util.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif
#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif

enum {
	BUFFER_BYTES = 4 << 20,
	RECV_FLOWINFO = 11, /* IPV6_FLOWINFO of <linux/in6.h>, which cannot be included together
			       with <netinet/in.h> */
};

const char *data_addr_str(const struct rocemu_gid *addr, uint32_t scope_id,
			  char buf[static AGENT_ADDR_STRLEN])
{
	size_t n = strlen(addr_gid_text(addr, buf));

	if (scope_id && !rocemu_gid_is_ipv4(addr))
		snprintf(buf + n, AGENT_ADDR_STRLEN - n, "%%%" PRIu32, scope_id);
	return buf;
}

static int set_int(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value)) ? -errno : 0;
}

/*
 * Options that the data path requires. DO: the kernel sends identification 0 (0, 1, 2, ... over a
 * GSO burst), which the ICRC covers. NO_CHECK6_RX: Soft-RoCE and hardware send UDP checksum 0 on
 * IPv6.
 */
static int set_required(int fd, bool ipv4)
{
	int r;

	if (ipv4)
		return set_int(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
	r = set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	if (!r)
		r = set_int(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
	if (!r)
		r = set_int(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
	return r;
}

/* Optional improvements, where the kernel has them. */
static void set_optional(int fd, bool ipv4)
{
	if (ipv4) {
		(void)set_int(fd, IPPROTO_IP, IP_RECVTOS, 1);
		(void)set_int(fd, IPPROTO_IP, IP_RECVTTL, 1);
	} else {
		(void)set_int(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
		(void)set_int(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
		(void)set_int(fd, IPPROTO_IPV6, RECV_FLOWINFO, 1);
	}
	for (const int *o = cmsg_forbidden_options(ipv4); *o; o++)
		(void)set_int(fd, ipv4 ? IPPROTO_IP : IPPROTO_IPV6, *o, 1);
	(void)set_int(fd, IPPROTO_UDP, UDP_GRO, 1);
	(void)set_int(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
	/* Beyond the system's limit with privilege, else up to it. */
	if (set_int(fd, SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES))
		(void)set_int(fd, SOL_SOCKET, SO_RCVBUF, BUFFER_BYTES);
	if (set_int(fd, SOL_SOCKET, SO_SNDBUFFORCE, BUFFER_BYTES))
		(void)set_int(fd, SOL_SOCKET, SO_SNDBUF, BUFFER_BYTES);
}

int data_socket_open_unbound(const struct rocemu_gid *addr, bool shared)
{
	bool ipv4 = rocemu_gid_is_ipv4(addr);
	int fd = socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP), r;

	if (fd < 0)
		return -errno;
	r = set_required(fd, ipv4);
	if (!r && shared)
		r = data_socket_share(fd);
	set_optional(fd, ipv4);
	if (!r)
		return fd;
	close(fd);
	return r;
}

int data_socket_bind(int fd, const struct rocemu_gid *addr, uint32_t scope_id, uint16_t port)
{
	union addr a;
	socklen_t len = addr_from_gid(&a, addr, port, scope_id);

	return bind(fd, &a.sa, len) ? -errno : 0;
}

int data_socket_share(int fd)
{
	return set_int(fd, SOL_SOCKET, SO_REUSEPORT, 1);
}

int data_socket_open(const struct rocemu_gid *addr, uint32_t scope_id, uint16_t port)
{
	int fd = data_socket_open_unbound(addr, false);
	int r = fd < 0 ? fd : data_socket_bind(fd, addr, scope_id, port);

	if (!r)
		return fd;
	if (fd >= 0)
		close(fd);
	return r;
}

int data_socket_guard(int fd, unsigned slot)
{
	/* A filter sees the packet from the UDP header on. */
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 8 + 4),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffffff),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 14),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, slot, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog prog = {.len = ARRAY_LEN(code), .filter = code};

	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)))
		return -errno;
	return set_int(fd, SOL_SOCKET, SO_LOCK_FILTER, 1);
}

int data_socket_stop_input(int fd)
{
	/*
	 * Bind to a nonexistent interface: this removes the socket from its group, and only
	 * CAP_NET_RAW can undo it. Copies of the socket cannot be closed from here.
	 */
	return set_int(fd, SOL_SOCKET, SO_BINDTOIFINDEX, INT32_MAX);
}

int data_socket_check_addr(const struct rocemu_gid *addr, uint32_t scope_id)
{
	static const uint8_t zero[16];
	bool ipv4 = rocemu_gid_is_ipv4(addr);
	const uint8_t *raw = ipv4 ? addr->raw + 12 : addr->raw;
	union addr a;
	socklen_t len = addr_from_gid(&a, addr, AGENT_PORT, scope_id);
	int fd, r;

	if (!memcmp(raw, zero, ipv4 ? 4 : 16) || (ipv4 ? raw[0] >= 224 : raw[0] == 0xff))
		return -EADDRNOTAVAIL;
	/* IPv6 has no broadcast addresses, and its connect() looks at all addresses of the host. */
	if (!ipv4)
		return 0;
	/*
	 * A broadcast address of a network is one by its route; without SO_BROADCAST connect() to
	 * it fails.
	 */
	fd = socket(a.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP);
	if (fd < 0)
		return -errno;
	r = connect(fd, &a.sa, len) && errno == EACCES ? -EADDRNOTAVAIL : 0;
	close(fd);
	return r;
}

static int join(int fd, const struct rocemu_gid *group, unsigned ifindex)
{
	struct ip_mreqn v4 = {.imr_ifindex = (int)ifindex};
	struct ipv6_mreq v6 = {.ipv6mr_interface = ifindex};

	if (rocemu_gid_is_ipv4(group)) {
		memcpy(&v4.imr_multiaddr, group->raw + 12, 4);
		return setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &v4, sizeof(v4)) ? -errno : 0;
	}
	memcpy(&v6.ipv6mr_multiaddr, group->raw, 16);
	return setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &v6, sizeof(v6)) ? -errno : 0;
}

int data_socket_open_group(const struct rocemu_gid *group, unsigned ifindex)
{
	/* Needs a scope: link-local and interface-local groups. */
	const bool scoped = group->raw[0] == 0xff && (group->raw[1] & 0x0f) <= 2;
	const bool ipv4 = rocemu_gid_is_ipv4(group);
	union addr a;
	socklen_t len = addr_from_gid(&a, group, AGENT_PORT, scoped ? ifindex : 0);
	int fd = socket(a.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP), r;

	if (fd < 0)
		return -errno;
	r = set_required(fd, ipv4);
	/* REUSEADDR, not REUSEPORT: other users' processes have the group too. */
	if (!r)
		r = set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	set_optional(fd, ipv4);
	/* Of this interface only, not what other sockets' memberships bring in. */
	if (ipv4)
		(void)set_int(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
	if (ifindex)
		(void)set_int(fd, SOL_SOCKET, SO_BINDTOIFINDEX, (int)ifindex);
	if (!r && bind(fd, &a.sa, len))
		r = -errno;
	if (!r)
		r = join(fd, group, ifindex);
	if (!r)
		return fd;
	close(fd);
	return r;
}

/** The instructions for a run: A is the slot. @return how many. */
static unsigned steer_run(struct sock_filter *at, const struct data_run *run)
{
	unsigned n = 0;

	if (run->n == 1) {
		at[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, run->slot, 0, 1);
		at[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, run->place);
		return n;
	}
	if (run->slot)
		at[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, run->slot, 0, 3);
	at[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, run->slot + run->n,
					       run->slot ? 2 : 1, 0);
	if (run->slot)
		at[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_ADD | BPF_K,
						       run->place - run->slot);
	at[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_A, 0);
	return n;
}

int data_socket_steer(int fd, const struct data_run *run, unsigned n)
{
	/* The packet begins at the BTH; too short a one reads as slot 0. Slot: the upper 10 bits of
	 * the QPN. */
	const struct sock_filter slot[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffffff),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 14),
	};
	struct sock_filter code[BPF_MAXINSNS];
	struct sock_fprog prog = {.len = ARRAY_LEN(slot), .filter = code};

	memcpy(code, slot, sizeof(slot));
	/* A run of one slot takes two instructions, a longer one four: it is never too long. */
	_Static_assert(ARRAY_LEN(slot) + 2 * AGENT_SLOTS + 1 <= ARRAY_LEN(code), "room for all");
	for (unsigned i = 0; i < n; i++)
		prog.len = (unsigned short)(prog.len + steer_run(code + prog.len, &run[i]));
	code[prog.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &prog, sizeof(prog)) ? -errno
											 : 0;
}

unsigned data_socket_drain(int fd)
{
	unsigned n = 0;
	char byte;

	/* Bounded: a flood must not keep the agent in this loop. */
	while (n < 8192 && recv(fd, &byte, 1, MSG_DONTWAIT) >= 0)
		n++;
	return n;
}

enum owner { OWNER_UNKNOWN, OWNER_USER, OWNER_KERNEL };

/*
 * Find the user of the port, bound to that address or to any: from the kernel's table of UDP
 * sockets ("sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout
 * inode ..."). Soft-RoCE's own sockets are root's and bound to any address; they exist only if its
 * module is loaded.
 */
static enum owner find_owner(const char *table, const union addr *a, unsigned *uid)
{
	FILE *f = fopen(table, "re");
	enum owner found = OWNER_UNKNOWN;
	char line[512];

	if (!f)
		return OWNER_UNKNOWN;
	while (found == OWNER_UNKNOWN && fgets(line, sizeof(line), f)) {
		char local[33];
		unsigned port;
		uint8_t bytes[16] = {0};
		size_t words;
		bool any, same;

		if (sscanf(line, "%*s %32[0-9A-F]:%x %*s %*s %*s %*s %*s %u", local, &port, uid) !=
			    3 ||
		    port != AGENT_PORT)
			continue;
		words = strlen(local) / 8; /* each printed as a host order word */
		for (size_t i = 0; i < MIN(words, (size_t)4); i++) {
			uint32_t w;

			if (sscanf(local + 8 * i, "%8" SCNx32, &w) == 1)
				memcpy(bytes + 4 * i, &w, 4);
		}
		any = strspn(local, "0") == strlen(local);
		same = words == 1 ? a->sa.sa_family == AF_INET && !memcmp(bytes, &a->in.sin_addr, 4)
				  : a->sa.sa_family == AF_INET6 &&
					    !memcmp(bytes, &a->in6.sin6_addr, 16);
		if (any || same)
			found = any && *uid == 0 && access("/sys/module/rdma_rxe", F_OK) == 0
					? OWNER_KERNEL
					: OWNER_USER;
	}
	fclose(f);
	return found;
}

/* Is that user's agent running in this namespace? */
static bool agent_runs(bool system, uid_t uid)
{
	struct agent_instance instance;
	int fd = -1;

	if (!agent_instance_init(&instance, system)) {
		instance.uid = uid;
		fd = agent_connect(&instance, 0);
	}
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/*
 * In a user namespace the kernel reports all users that it does not have as one ID. Is this it?
 */
static bool is_any_other_user(unsigned uid)
{
	FILE *overflow = fopen("/proc/sys/kernel/overflowuid", "re");
	FILE *map = fopen("/proc/self/uid_map", "re");
	unsigned other, count;
	const bool is = overflow && map && fscanf(overflow, "%u", &other) == 1 && other == uid &&
			fscanf(map, "%*u %*u %u", &count) == 1 && count < UINT32_MAX;

	if (overflow)
		fclose(overflow);
	if (map)
		fclose(map);
	return is;
}

static void explain_in_use(const union addr *a, const char *name, char *buf, size_t len)
{
	static const char *const tables[] = {"/proc/net/udp", "/proc/net/udp6"};
	enum owner owner = OWNER_UNKNOWN;
	unsigned uid = 0;

	for (unsigned i = 0; i < ARRAY_LEN(tables) && owner == OWNER_UNKNOWN; i++)
		owner = find_owner(tables[i], a, &uid);
	if (owner == OWNER_KERNEL)
		snprintf(buf, len,
			 "UDP port %d of %s is taken by the kernel's Soft-RoCE, on all addresses "
			 "of this network namespace: unload it (`modprobe -r rdma_rxe`), or run in "
			 "another namespace (`ip netns`)",
			 AGENT_PORT, name);
	else if (owner == OWNER_USER && is_any_other_user(uid))
		snprintf(buf, len,
			 "UDP port %d of %s is taken by a user that this user namespace does not "
			 "have, for instance by a system-wide agent, which can only be recognised "
			 "outside: run without --mount-paths, or without the container's user "
			 "namespace, or use another address (ROCEMU_DEVICES)",
			 AGENT_PORT, name);
	else if (owner == OWNER_USER && uid != geteuid() && agent_runs(true, 0))
		snprintf(buf, len,
			 "UDP port %d of %s is taken by user %u. If that is the system-wide agent: "
			 "programs in a user namespace, and those from before it was started, do "
			 "not "
			 "use it: run without --mount-paths, or start them again. Else use another "
			 "address (ROCEMU_DEVICES)",
			 AGENT_PORT, name, uid);
	else if (owner == OWNER_USER && uid != geteuid() && agent_runs(false, uid))
		snprintf(buf, len,
			 "UDP port %d of %s is taken by the rocemu agent of user %u: use another "
			 "address, or have "
			 "one agent serve all users (as root: `rocemu agent --system`)",
			 AGENT_PORT, name, uid);
	else if (owner == OWNER_USER)
		snprintf(buf, len,
			 "UDP port %d of %s is taken by another program of user %u: find it with "
			 "`ss -ulpn sport = :%d` and end it, or use another address "
			 "(ROCEMU_DEVICES)",
			 AGENT_PORT, name, uid, AGENT_PORT);
	else
		snprintf(buf, len,
			 "UDP port %d of %s is taken by another program: find it with `ss -ulpn "
			 "sport = :%d` (as "
			 "root) and end it, or use another address (ROCEMU_DEVICES)",
			 AGENT_PORT, name, AGENT_PORT);
}

/** The first port that a user without privileges may have; 0: not known. */
static unsigned first_port(void)
{
	FILE *f = fopen("/proc/sys/net/ipv4/ip_unprivileged_port_start", "re");
	unsigned port = 0;

	if (f && fscanf(f, "%u", &port) != 1)
		port = 0;
	if (f)
		fclose(f);
	return port;
}

static void explain_refused(int err, const char *name, char *buf, size_t len)
{
	const unsigned first = err == -EACCES ? first_port() : 0;
	char policy[LIMIT_TEXT_LEN];

	if (first > AGENT_PORT)
		snprintf(buf, len,
			 "UDP port %d of %s is for privileged users: the first one for others is "
			 "%u; as root: `sysctl -w net.ipv4.ip_unprivileged_port_start=%d`",
			 AGENT_PORT, name, first, AGENT_PORT);
	else
		snprintf(buf, len, "no permission to open UDP port %d of %s: %s%s", AGENT_PORT,
			 name, strerror(-err), refusal_text(err, policy));
}

void data_socket_explain(int err, const struct rocemu_gid *addr, uint32_t scope_id, char *buf,
			 size_t len)
{
	char name[AGENT_ADDR_STRLEN];
	union addr a;

	addr_from_gid(&a, addr, AGENT_PORT, scope_id);
	data_addr_str(addr, scope_id, name);
	switch (-err) {
	case EADDRINUSE:
		explain_in_use(&a, name, buf, len);
		break;
	case EADDRNOTAVAIL:
		snprintf(buf, len, "%s is not an address of this host (any more): see `ip address`",
			 name);
		break;
	case EACCES:
	case EPERM:
	case ENOSYS:
		explain_refused(err, name, buf, len);
		break;
	case EMFILE:
	case ENFILE:
		snprintf(buf, len,
			 "too many open files for another socket on %s: raise the hard limit "
			 "(`ulimit -Hn`)",
			 name);
		break;
	default:
		snprintf(buf, len, "cannot open UDP port %d of %s: %s", AGENT_PORT, name,
			 strerror(-err));
	}
}
