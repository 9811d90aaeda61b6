/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prints how librdmacm handles addresses: a table, a line per case, that differs only where the
 * implementations do: addresses are printed by names, ports by whether they were requested. Usage:
 * see usage(); the interface's own addresses, those of another host on its link, and an unused one
 * of its networks.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cm-addr.h"

enum { EPHEMERAL = 32768 }; /* from here on ports are given out */

/* text NULL: an argument */
static const struct {
	const char *name, *text;
} NAMES[] = {
	{"own4", NULL},	      {"peer4", NULL},	     {"dead4", NULL},
	{"own6", NULL},	      {"peer6", NULL},	     {"ll6", NULL},
	{"any4", "0.0.0.0"},  {"any6", "::"},	     {"lo4", "127.0.0.1"},
	{"lo6", "::1"},	      {"far4", "192.0.2.1"}, {"far6", "2001:db8::1"},
	{"mc4", "239.9.8.7"}, {"mc6", "ff15::987"},  {"bc4", "255.255.255.255"},
};
enum { NNAMES = sizeof(NAMES) / sizeof(NAMES[0]), NARGS = 6 };

static const char *values[NNAMES];
static unsigned ifindex;

static void usage(void)
{
	fprintf(stderr, "usage: cm-addr IFNAME OWN4 PEER4 DEAD4 OWN6 PEER6 LINKLOCAL6\n");
	exit(2);
}

/* ---- addresses by name ---- */

static bool parse(struct sockaddr_storage *ss, const char *text, uint16_t port)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ss;
	struct sockaddr_in *in = (struct sockaddr_in *)ss;

	memset(ss, 0, sizeof(*ss));
	if (inet_pton(AF_INET, text, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		return true;
	}
	if (inet_pton(AF_INET6, text, &in6->sin6_addr) != 1)
		return false;
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(port);
	return true;
}

/* A GID of the address, with the service ID of a port in TCP's port space or none. */
static void to_ib(struct sockaddr_storage *ss)
{
	struct sockaddr_storage ip = *ss;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&ip;
	struct sockaddr_in *in = (struct sockaddr_in *)&ip;
	struct sockaddr_ib *ib = (struct sockaddr_ib *)ss;
	uint16_t port = ntohs(ip.ss_family == AF_INET ? in->sin_port : in6->sin6_port);

	memset(ss, 0, sizeof(*ss));
	ib->sib_family = AF_IB;
	ib->sib_pkey = htobe16(0xffff);
	if (ip.ss_family == AF_INET6)
		memcpy(&ib->sib_addr, &in6->sin6_addr, 16);
	else if (in->sin_addr.s_addr) {
		ib->sib_addr.sib_addr16[5] = 0xffff;
		memcpy(&ib->sib_addr.sib_addr8[12], &in->sin_addr, 4);
	}
	if (port) {
		ib->sib_sid = htobe64((uint64_t)RDMA_PS_TCP << 16 | port);
		ib->sib_sid_mask = htobe64(UINT64_MAX);
	}
}

struct sockaddr *address(const char *name, uint16_t port)
{
	static struct sockaddr_storage ring[4];
	static unsigned next;
	struct sockaddr_storage *ss = &ring[next++ % 4];
	bool ib = strncmp(name, "ib:", 3) == 0;
	const char *scope = strchr(name, '%');
	char base[16];

	if (strcmp(name, "-") == 0)
		return NULL;
	snprintf(base, sizeof(base), "%s", name + (ib ? 3 : 0));
	base[strcspn(base, "%")] = 0;
	for (int i = 0; i < NNAMES; i++) {
		if (strcmp(NAMES[i].name, base) != 0)
			continue;
		if (!parse(ss, values[i], port))
			usage();
		if (scope)
			((struct sockaddr_in6 *)ss)->sin6_scope_id =
				scope[1] ? (uint32_t)atoi(scope + 1) : ifindex;
		if (ib)
			to_ib(ss);
		return (struct sockaddr *)ss;
	}
	fprintf(stderr, "cm-addr: what is %s?\n", name);
	exit(2);
}

/* "ll6%" has the interface's name. */
const char *node_text(const char *node)
{
	static char scoped[INET6_ADDRSTRLEN + 1 + IF_NAMESIZE];
	char name[IF_NAMESIZE];

	for (int i = 0; node && i < NNAMES; i++) {
		size_t len = strlen(NAMES[i].name);

		if (strncmp(NAMES[i].name, node, len) != 0)
			continue;
		if (strcmp(node + len, "%") == 0) {
			snprintf(scoped, sizeof(scoped), "%s%%%s", values[i],
				 if_indextoname(ifindex, name));
			return scoped;
		}
		return values[i];
	}
	return node;
}

socklen_t length(const struct sockaddr *sa)
{
	if (!sa)
		return 0;
	return sa->sa_family == AF_INET	   ? sizeof(struct sockaddr_in)
	       : sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					   : sizeof(struct sockaddr_ib);
}

static void print_port(unsigned port)
{
	printf(port >= EPHEMERAL ? ":+" : ":%u", port);
}

static const char *name_of(const void *addr, int family)
{
	static char ring[2][INET6_ADDRSTRLEN];
	static unsigned next;
	char *text = ring[next++ % 2];
	unsigned char want[16], have[16];

	memcpy(want, addr, family == AF_INET ? 4 : 16);
	for (int i = 0; i < NNAMES; i++)
		if (inet_pton(family, values[i], have) == 1 &&
		    memcmp(want, have, family == AF_INET ? 4 : 16) == 0)
			return NAMES[i].name;
	return inet_ntop(family, addr, text, INET6_ADDRSTRLEN);
}

static const char *name_of_gid(const void *gid)
{
	const struct in6_addr *in6 = gid;

	return IN6_IS_ADDR_V4MAPPED(in6) ? name_of(&in6->s6_addr[12], AF_INET)
					 : name_of(gid, AF_INET6);
}

void print_address(const char *what, const struct sockaddr *sa)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)sa;
	const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)sa;
	const struct sockaddr_ib *ib = (const struct sockaddr_ib *)(const void *)sa;

	printf(" %s ", what);
	if (!sa || !sa->sa_family) {
		printf("-");
	} else if (sa->sa_family == AF_INET) {
		printf("%s", name_of(&in->sin_addr, AF_INET));
		print_port(ntohs(in->sin_port));
	} else if (sa->sa_family == AF_INET6) {
		printf("%s", name_of(&in6->sin6_addr, AF_INET6));
		if (in6->sin6_scope_id)
			printf(in6->sin6_scope_id == ifindex ? "%%" : "%%?");
		print_port(ntohs(in6->sin6_port));
	} else if (sa->sa_family == AF_IB) {
		uint64_t sid = be64toh(ib->sib_sid);

		printf("ib:%s", name_of_gid(&ib->sib_addr));
		printf(":%llx", (unsigned long long)sid >> 16);
		print_port(sid & 0xffff);
		printf("/%llx", (unsigned long long)be64toh(ib->sib_sid_mask));
	} else {
		printf("family %u", sa->sa_family);
	}
}

/* ---- outcomes ---- */

void print_error(const char *what, int ret)
{
	if (ret)
		printf(" %s %s", what, ret == -1 ? strerrorname_np(errno) : "?");
	else
		printf(" %s ok", what);
}

void print_id(struct rdma_cm_id *id)
{
	print_address("from", rdma_get_local_addr(id));
	print_address("to", rdma_get_peer_addr(id));
	printf(" ports");
	print_port(ntohs(rdma_get_src_port(id)));
	print_port(ntohs(rdma_get_dst_port(id)));
	printf("%s", id->verbs ? " device" : "");
}

void print_path(const struct ibv_sa_path_rec *path)
{
	printf(" path %s %s pkey %x", name_of_gid(path->sgid.raw), name_of_gid(path->dgid.raw),
	       ntohs(path->pkey));
}

int main(int argc, char **argv)
{
	if (argc != 2 + NARGS)
		usage();
	ifindex = if_nametoindex(argv[1]);
	if (!ifindex)
		usage();
	for (int i = 0; i < NNAMES; i++)
		values[i] = NAMES[i].text ? NAMES[i].text : argv[2 + i];
	setvbuf(stdout, NULL, _IOLBF, 0);
	calls();
	lookups();
	return 0;
}
