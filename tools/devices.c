/* SPDX-License-Identifier: BSD-2-Clause */
/* rocemu devices: the list that programs will get from ibv_get_device_list(). */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli.h"
#include "base/json.h"
#include "base/util.h"
#include "devices.h"
#include "netdev/netdev.h"
#include "tool.h"
#include "wire/print.h"

enum { OPT_DEVICE = 'd', OPT_JSON = 'j', OPT_GID_LAYOUT = CLI_LONG };

static const struct cli_option options[] = {
	{OPT_DEVICE, "device", "SPEC",
	 "Devices to list, as for \"rocemu run\" (default: one for each interface with an address; "
	 "loopback only where no other is up, no ports of bridges)",
	 CLI_INTERFACE, .env = "ROCEMU_DEVICES"},
	{OPT_GID_LAYOUT, "gid-layout", "LAYOUT",
	 "Which address has which GID index, as for \"rocemu run\"", .choices = "common mlx5 rxe",
	 .env = "ROCEMU_GID_LAYOUT"},
	{OPT_JSON, "json", NULL, "Print a JSON array"},
	CLI_HELP,
	{0},
};

const struct cli devices_cli = {
	.name = "devices",
	.brief = "list the devices that programs will see",
	.usage = "[OPTIONS]",
	.about = "Lists the RDMA devices that programs under \"rocemu run\" see, emulated and real "
		 "ones: name, interface, state, MTU of the interface and the largest path MTU, and "
		 "the GID table. Real devices are those of this machine's libibverbs; "
		 "ROCEMU_REAL=off leaves them out.",
	.options = options,
};

static void fill_port(struct port_info *p, const struct netdev *d)
{
	memset(p, 0, sizeof(*p));
	snprintf(p->name, sizeof(p->name), "%s", d->name);
	snprintf(p->ifname, sizeof(p->ifname), "%s", d->ifname);
	p->port = 1;
	p->state = d->active ? "active" : "down";
	p->mtu = d->mtu;
	p->path_mtu = 128u << netdev_active_mtu(d->mtu);
	p->guid = d->guid;
	_Static_assert(PORT_GIDS_MAX >= (int)ROCEMU_MAX_GID, "all of a device's GIDs");
	for (unsigned j = 0; j < ROCEMU_MAX_GID; j++) {
		struct port_gid *g = &p->gids[p->ngids];

		if (!d->gids[j].here || d->gids[j].v1)
			continue;
		g->index = j;
		print_gid(g->text, sizeof(g->text), &d->gids[j].gid);
		p->ngids++;
	}
}

/** The emulated devices first, then the real ones, as in ibv_get_device_list(). */
static struct port_info *all_ports(const char *who, const struct netdev *devs, unsigned ndevs,
				   unsigned *n)
{
	struct port_info *real, *all;
	unsigned nreal = real_ports(who, &real);

	all = calloc(ndevs + nreal + 1, sizeof(*all));
	*n = all ? ndevs + nreal : 0;
	for (unsigned i = 0; all && i < ndevs; i++)
		fill_port(&all[i], &devs[i]);
	if (all && nreal)
		memcpy(all + ndevs, real, nreal * sizeof(*all));
	free(real);
	return all;
}

static void print_number(int width, unsigned value)
{
	if (value)
		printf("  %*u", width, value);
	else
		printf("  %*s", width, "-");
}

static void print_table(const struct port_info *ports, unsigned n)
{
	int name_width = 6, if_width = 9;
	char state[8];

	for (unsigned i = 0; i < n; i++) {
		name_width = MAX(name_width, (int)strlen(ports[i].name));
		if_width = MAX(if_width, (int)strlen(ports[i].ifname));
	}
	printf("%-*s  kind      port  %-*s  %-7s  %5s  %8s  %s\n", name_width, "device", if_width,
	       "interface", "state", "MTU", "path MTU", "GIDs");
	for (unsigned i = 0; i < n; i++) {
		const struct port_info *p = &ports[i];

		printf("%-*s  %-8s  %4u  %-*s  ", name_width, p->name,
		       p->real ? "real" : "emulated", p->port, if_width,
		       *p->ifname ? p->ifname : "-");
		snprintf(state, sizeof(state), "%-7s", p->state);
		if (!strcmp(p->state, "active"))
			fputs(state, stdout);
		else
			out_bad(stdout, state);
		print_number(5, p->mtu);
		print_number(8, p->path_mtu);
		putchar(' ');
		for (unsigned j = 0; j < p->ngids; j++)
			printf("%s %u:%s", j ? "," : "", p->gids[j].index, p->gids[j].text);
		putchar('\n');
	}
}

static void print_port_json(struct json *j, const struct port_info *p)
{
	char guid[17];

	snprintf(guid, sizeof(guid), "%016llx", (unsigned long long)p->guid);
	json_open(j, NULL, '{');
	json_text(j, "name", p->name);
	json_text(j, "kind", p->real ? "real" : "emulated");
	json_u64(j, "port", p->port);
	json_text(j, "interface", p->ifname);
	json_text(j, "state", p->state);
	json_u64(j, "mtu", p->mtu);
	json_u64(j, "path_mtu", p->path_mtu);
	json_text(j, "guid", guid);
	json_open(j, "gids", '[');
	for (unsigned i = 0; i < p->ngids; i++)
		json_text(j, NULL, p->gids[i].text);
	json_close(j, ']');
	json_open(j, "gid_index", '[');
	for (unsigned i = 0; i < p->ngids; i++)
		json_u64(j, NULL, p->gids[i].index);
	json_close(j, ']');
	json_close(j, '}');
}

static void print_json(const struct port_info *ports, unsigned n)
{
	struct json j = {.f = stdout};

	json_open(&j, NULL, '[');
	for (unsigned i = 0; i < n; i++) {
		json_line(&j);
		print_port_json(&j, &ports[i]);
	}
	json_close(&j, ']');
	putchar('\n');
}

int tool_devices(int argc, char **argv)
{
	const char *spec = getenv("ROCEMU_DEVICES"), *layout = getenv("ROCEMU_GID_LAYOUT");
	struct port_info *ports;
	struct netdev *devs;
	bool json = false;
	char err[768];
	unsigned n;
	int opt;

	while ((opt = cli_next(&devices_cli, argc, argv)) != CLI_END) {
		switch (opt) {
		case OPT_DEVICE:
			spec = optarg;
			break;
		case OPT_GID_LAYOUT:
			layout = optarg;
			break;
		case OPT_JSON:
			json = true;
			break;
		case 'h':
			cli_print_help(&devices_cli, stdout);
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
	if (netdev_list(spec, &devs, &n, err, sizeof(err)) < 0 ||
	    netdev_set_layout(layout, devs, n, err, sizeof(err)) < 0) {
		fprintf(stderr, "%s: %s\n", argv[0], err);
		return TOOL_USAGE;
	}
	ports = all_ports(argv[0], devs, n, &n);
	free(devs);
	if (json)
		print_json(ports, n);
	else if (n)
		print_table(ports, n);
	free(ports);
	if (n)
		return TOOL_OK;
	fprintf(stderr, "%s: no device: %s\n", argv[0], err);
	return TOOL_FAILED;
}
