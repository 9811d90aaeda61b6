/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lesson 1: devices and ports. A program lists the devices, opens one, and queries its limits, the
 * state of its port and the port's addresses.
 *
 *     cc lesson-1.c -o lesson-1 -libverbs -lrdmacm
 *     rocemu run --device dev0=lo -- ./lesson-1
 *
 * Exercises: --no-such-port, --over-limit
 */
#include <arpa/inet.h>

#include "lesson.h"

/** The port: is it up, how large are its packets, which network is it on. */
static void port_print(struct ibv_context *ctx, uint8_t port)
{
	struct ibv_port_attr attr;
	int error = ibv_query_port(ctx, port, &attr);

	/* Most verbs return 0 or an errno value; they do not set errno. */
	if (error) {
		printf("port %d: ibv_query_port failed: %s\n", port, strerror(error));
		return;
	}
	printf("port %d: %s\n", port, ibv_port_state_str(attr.state));
	/* The enum's values are 1 to 5, for 256 to 4096 bytes. */
	printf("  largest packet (MTU): %d bytes of payload\n", 128 << attr.active_mtu);
	printf("  network: %s\n", attr.link_layer == IBV_LINK_LAYER_ETHERNET
					  ? "Ethernet, so this is RoCE"
					  : "InfiniBand");
}

/** The GID table. With RoCE v2 each entry is an IP address of the port's interface. */
static void gids_print(struct ibv_context *ctx)
{
	struct ibv_port_attr attr;
	struct ibv_gid_entry entry;
	char text[INET6_ADDRSTRLEN];

	check0(ibv_query_port(ctx, PORT, &attr));
	printf("addresses of port %d:\n", PORT);
	for (uint32_t i = 0; i < (uint32_t)attr.gid_tbl_len; i++) {
		/* An empty entry: ENODATA. */
		if (ibv_query_gid_ex(ctx, PORT, i, &entry, 0) != 0)
			continue;
		/* A GID has the form of an IPv6 address; an IPv4 address is mapped into one. */
		check(inet_ntop(AF_INET6, entry.gid.raw, text, sizeof(text)));
		printf("  GID %u: %s, %s\n", i, text,
		       entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2" : "not RoCE v2");
	}
}

/** The device's limits. A request for more than that is refused. */
static void limits_print(struct ibv_context *ctx, bool over_limit)
{
	struct ibv_device_attr attr;

	check0(ibv_query_device(ctx, &attr));
	printf("limits:\n");
	printf("  requests in a queue: %d\n", attr.max_qp_wr);
	printf("  pieces of memory in a request: %d\n", attr.max_sge);
	printf("  completions in a completion queue: %d\n", attr.max_cqe);
	printf("  atomic operations: %s\n", attr.atomic_cap == IBV_ATOMIC_NONE ? "no" : "yes");

	if (over_limit) {
		/* Verbs that create an object return NULL and set errno. */
		struct ibv_cq *cq = ibv_create_cq(ctx, attr.max_cqe + 1, NULL, NULL, 0);

		printf("a completion queue for one more: %s\n", cq ? "created" : strerror(errno));
	}
}

int main(int argc, char **argv)
{
	enum { NO_SUCH_PORT = 1, OVER_LIMIT };
	const char *name;
	int exercise = args_read(argc, argv, "--no-such-port", "--over-limit", &name);
	int count;

	struct ibv_device **list = ibv_get_device_list(&count);
	check(list);
	printf("devices: %d\n", count);
	for (int i = 0; i < count; i++)
		printf("  %s\n", ibv_get_device_name(list[i]));
	ibv_free_device_list(list);

	/* All objects are made in a context, which is an open device. */
	struct ibv_context *ctx = device_open(name);
	printf("open: %s\n", ibv_get_device_name(ctx->device));

	limits_print(ctx, exercise == OVER_LIMIT);
	port_print(ctx, exercise == NO_SUCH_PORT ? PORT + 1 : PORT);
	gids_print(ctx);

	check0(ibv_close_device(ctx));
	return 0;
}
