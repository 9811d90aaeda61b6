/* SPDX-License-Identifier: BSD-2-Clause */
/* rocemu devices: the list that programs will get from ibv_get_device_list(). */
#include <netinet/in.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "engine/netdev.h"
#include "tool.h"
#include "wire/print.h"

static void usage(FILE *f)
{
	fputs("usage: rocemu devices [--device SPEC] [--json]\n"
	      "\n"
	      "Lists the RDMA devices that programs under \"rocemu run\" see: name, interface, "
	      "state, MTU of the\n"
	      "interface and the largest path MTU, and the GID table.\n"
	      "\n"
	      "  --device SPEC   as for \"rocemu run\" (default: what ROCEMU_DEVICES says, or all "
	      "interfaces)\n"
	      "  --json          as a JSON array\n"
	      "  --help\n",
	      f);
}

static unsigned path_mtu(const struct netdev *d)
{
	return 128u << netdev_active_mtu(d->mtu);
}

static void print_table(const struct netdev *devs, unsigned n)
{
	int name_width = 6, if_width = 9;
	char gid[INET6_ADDRSTRLEN];

	for (unsigned i = 0; i < n; i++) {
		name_width = MAX(name_width, (int)strlen(devs[i].name));
		if_width = MAX(if_width, (int)strlen(devs[i].ifname));
	}
	printf("%-*s  %-*s  %-6s  %5s  %8s  %s\n", name_width, "device", if_width, "interface",
	       "state", "MTU", "path MTU", "GIDs");
	for (unsigned i = 0; i < n; i++) {
		const struct netdev *d = &devs[i];

		printf("%-*s  %-*s  ", name_width, d->name, if_width, d->ifname);
		if (d->active)
			printf("%-6s", "active");
		else
			out_bad(stdout, "down  ");
		printf("  %5u  %8u ", d->mtu, path_mtu(d));
		for (unsigned j = 0; j < d->ngids; j++) {
			print_gid(gid, sizeof(gid), &d->gids[j].gid);
			printf("%s %u:%s", j ? "," : "", j, gid);
		}
		putchar('\n');
	}
}

static void print_json(const struct netdev *devs, unsigned n)
{
	char gid[INET6_ADDRSTRLEN];

	printf("[");
	for (unsigned i = 0; i < n; i++) {
		const struct netdev *d = &devs[i];

		printf("%s\n  {\"name\": ", i ? "," : "");
		out_json_string(stdout, d->name);
		printf(", \"interface\": ");
		out_json_string(stdout, d->ifname);
		printf(", \"state\": \"%s\", \"mtu\": %u, \"path_mtu\": %u, \"guid\": \"%016llx\", "
		       "\"gids\": [",
		       d->active ? "active" : "down", d->mtu, path_mtu(d),
		       (unsigned long long)d->guid);
		for (unsigned j = 0; j < d->ngids; j++) {
			print_gid(gid, sizeof(gid), &d->gids[j].gid);
			printf("%s\"%s\"", j ? ", " : "", gid);
		}
		printf("]}");
	}
	printf("%s]\n", n ? "\n" : "");
}

int tool_devices(int argc, char **argv)
{
	static const struct option longs[] = {
		{"device", required_argument, NULL, 'd'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	const char *spec = getenv("ROCEMU_DEVICES");
	struct netdev *devs;
	bool json = false;
	char err[768];
	unsigned n;
	int opt;

	while ((opt = getopt_long(argc, argv, "d:jh", longs, NULL)) != -1) {
		switch (opt) {
		case 'd':
			spec = optarg;
			break;
		case 'j':
			json = true;
			break;
		case 'h':
			usage(stdout);
			return TOOL_OK;
		default:
			return TOOL_USAGE;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "%s: unexpected argument \"%s\"; see --help\n", argv[0],
			argv[optind]);
		return TOOL_USAGE;
	}
	if (netdev_list(spec, &devs, &n, err, sizeof(err)) < 0) {
		fprintf(stderr, "%s: %s\n", argv[0], err);
		return TOOL_USAGE;
	}
	if (json)
		print_json(devs, n);
	else
		print_table(devs, n);
	free(devs);
	return TOOL_OK;
}
