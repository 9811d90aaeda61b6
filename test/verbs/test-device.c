/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests queries of devices, and errors of wrong queries. */
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dev.h"
#include "netdev/netdev.h"
#include "netns.h"

const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode); /* not in every version's verbs.h */

enum gid_type { TYPE_ROCE_V1, TYPE_ROCE_V2 }; /* of ibv_query_gid_type(), in no header */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned index,
		       enum gid_type *type);

/* ---- the list ---- */

TEST(netdev, mtu_of_interface__largest_path_mtu_that_fits)
{
	static const struct {
		unsigned mtu;
		enum ibv_mtu path;
	} t[] = {
		{65536, IBV_MTU_4096}, {9000, IBV_MTU_4096}, {4200, IBV_MTU_4096},
		{4180, IBV_MTU_4096},  {4179, IBV_MTU_2048}, {1500, IBV_MTU_1024},
		{1400, IBV_MTU_1024},  {1107, IBV_MTU_512},  {576, IBV_MTU_256},
		{68, IBV_MTU_256},
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		assert_int_equal(netdev_active_mtu(t[i].mtu), t[i].path);
}

TEST(netdev, speed_of_interface__nearest_rate_and_10_gbit_where_not_known)
{
	static const unsigned t[][2] = {
		{0, 10000},	  {10, 2500},	    {1000, 2500},     {2500, 2500},
		{5000, 5000},	  {10000, 10000},   {20000, 20000},   {25000, 25000},
		{40000, 40000},	  {50000, 50000},   {56000, 56000},   {100000, 100000},
		{200000, 200000}, {400000, 400000}, {800000, 800000},
	};
	unsigned lanes_of_width[17] = {[1] = 1, [2] = 4, [4] = 8, [16] = 2};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		const struct netdev_speed s = netdev_link_speed(t[i][0]);

		assert_int_equal(s.lanes * s.lane_mbps, t[i][1]);
		assert_int_equal(lanes_of_width[s.width], s.lanes);
	}
}

static void expect_spec_error(const char *spec, const char *part)
{
	struct netdev *devs = NULL;
	char err[768] = "";
	unsigned n;

	dev_namespace();
	assert_int_equal(netdev_list(spec, &devs, &n, err, sizeof(err)), -EINVAL);
	assert_null(devs);
	if (!strstr(err, part))
		fail_msg("\"%s\" does not name %s", err, part);
}

TEST(netdev, bad_spec__names_the_bad_part)
{
	expect_spec_error("nosuch", "nosuch");
	expect_spec_error("a=nosuch", "lo (127.0.0.1");
	expect_spec_error("a=10.99.98.97", "10.99.98.97");
	expect_spec_error("lo,,lo", "expected name=interface");
	expect_spec_error("a=", "\"a=\"");
	expect_spec_error("=lo", "\"=lo\"");
	expect_spec_error("a/b=lo", "a/b");
	expect_spec_error("..=lo", "..");
	expect_spec_error("a=lo,a=127.0.0.2", "\"a\"");
	expect_spec_error("127.0.0.1,127.0.0.2", "rocemu_lo");
}

TEST(netdev, random_specs__no_crash)
{
	static const char alphabet[] = "lo=,.:%a1270fe\n";
	char spec[24], err[64];
	unsigned seed = 1;

	dev_namespace();
	for (int i = 0; i < 300; i++) {
		struct netdev *devs;
		unsigned n, len = (unsigned)rand_r(&seed) % sizeof(spec);

		for (unsigned j = 0; j < len; j++)
			spec[j] = alphabet[(unsigned)rand_r(&seed) % (sizeof(alphabet) - 1)];
		spec[len] = 0;
		if (netdev_list(spec, &devs, &n, err, sizeof(err)) == 0)
			free(devs);
	}
}

TEST(netdev, several_loopback_addresses__several_devices_with_one_gid)
{
	struct netdev *devs;
	char err[768];
	unsigned n;

	netns_need_ipv6();
	dev_namespace();
	assert_int_equal(netdev_list("a=127.0.0.1,b=127.0.0.2,c=::1", &devs, &n, err, sizeof(err)),
			 0);
	assert_int_equal(n, 3);
	assert_string_equal(devs[1].name, "b");
	assert_string_equal(devs[1].ifname, "lo");
	assert_int_equal(devs[1].naddrs, 1);
	assert_int_equal(devs[1].gids[0].gid.raw[15], 2);
	assert_int_equal(devs[2].gids[0].gid.raw[10], 0);
	assert_true(devs[0].guid != devs[1].guid && devs[1].guid != devs[2].guid);
	free(devs);
}

TEST(device_list, bad_environment__null_and_einval)
{
	int n = 7;

	setenv("ROCEMU_DEVICES", "x=nosuch", 1);
	assert_null(ibv_get_device_list(&n));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(n, 0);
	unsetenv("ROCEMU_DEVICES");
}

TEST(device_list, taken_again_while_open__same_pointer)
{
	struct ibv_device **list;
	struct dev d;
	int n;

	dev_open(&d);
	list = ibv_get_device_list(&n);
	assert_int_equal(n, 1);
	assert_null(list[1]);
	assert_ptr_equal(list[0], d.ctx->device);
	assert_string_equal(ibv_get_device_name(list[0]), "rocemu_lo");
	assert_true(ibv_get_device_guid(list[0]) != 0);
	ibv_free_device_list(list);
	dev_close(&d);
}

/* ---- questions ---- */

TEST(port, other_than_1__einval)
{
	struct ibv_port_attr attr;
	union ibv_gid gid;
	__be16 pkey;
	struct dev d;

	dev_open(&d);
	assert_int_equal(ibv_query_port(d.ctx, 0, &attr), EINVAL);
	assert_int_equal(ibv_query_port(d.ctx, 2, &attr), EINVAL);
	assert_int_equal(ibv_query_gid(d.ctx, 2, 0, &gid), -1);
	assert_int_equal(ibv_query_pkey(d.ctx, 2, 0, &pkey), -1);
	dev_close(&d);
}

TEST(port, of_lo__active_ethernet)
{
	struct ibv_port_attr attr;
	struct dev d;

	dev_open(&d);
	assert_int_equal(ibv_query_port(d.ctx, 1, &attr), 0);
	assert_int_equal(attr.state, IBV_PORT_ACTIVE);
	assert_int_equal(attr.active_mtu, IBV_MTU_4096);
	assert_int_equal(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(attr.pkey_tbl_len, 1);
	assert_int_equal(attr.gid_tbl_len, ROCEMU_MAX_GID);
	dev_close(&d);
}

TEST(gid, index_0__ipv4_mapped)
{
	static const uint8_t want[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};
	struct ibv_gid_entry e, table[64];
	union ibv_gid gid;
	struct dev d;

	dev_open(&d);
	assert_int_equal(ibv_query_gid(d.ctx, 1, 0, &gid), 0);
	assert_memory_equal(gid.raw, want, 16);
	assert_int_equal(ibv_query_gid_ex(d.ctx, 1, 0, &e, 0), 0);
	assert_memory_equal(e.gid.raw, want, 16);
	assert_int_equal(e.gid_type, IBV_GID_TYPE_ROCE_V2);
	assert_true(e.ndev_ifindex > 0);
	assert_true(ibv_query_gid_table(d.ctx, table, 64, 0) >= 1);
	assert_memory_equal(table[0].gid.raw, want, 16);
	dev_close(&d);
}

TEST(gid, empty_entry__zeros_or_no_data_and_skipped)
{
	static const uint8_t none[16];
	enum gid_type type;
	struct ibv_gid_entry e, table[64];
	union ibv_gid gid;
	unsigned used = 0;
	struct dev d;
	ssize_t n;

	dev_open(&d);
	n = ibv_query_gid_table(d.ctx, table, 64, 0);
	for (unsigned i = 0; i < ROCEMU_MAX_GID; i++) {
		assert_int_equal(ibv_query_gid(d.ctx, 1, (int)i, &gid), 0);
		assert_int_equal(ibv_query_gid_type(d.ctx, 1, i, &type), 0);
		if (ibv_query_gid_ex(d.ctx, 1, i, &e, 0) == 0) {
			assert_int_equal(type, TYPE_ROCE_V2);
			assert_int_equal(e.gid_type, IBV_GID_TYPE_ROCE_V2);
			assert_int_equal(table[used].gid_index, i);
			assert_memory_equal(gid.raw, table[used++].gid.raw, 16);
			continue;
		}
		assert_int_equal(ibv_query_gid_ex(d.ctx, 1, i, &e, 0), ENODATA);
		assert_int_equal(type, TYPE_ROCE_V1);
		assert_memory_equal(gid.raw, none, 16);
	}
	assert_int_equal(used, n);
	assert_true(used < ROCEMU_MAX_GID);
	dev_close(&d);
}

TEST(gid, layout_of_mlx5__both_versions)
{
	enum gid_type type;
	struct ibv_gid_entry e;
	struct dev d;

	setenv("ROCEMU_GID_LAYOUT", "mlx5", 1);
	dev_open(&d);
	unsetenv("ROCEMU_GID_LAYOUT");
	assert_int_equal(ibv_query_gid_ex(d.ctx, 1, 0, &e, 0), ENODATA); /* lo: no link-local */
	assert_int_equal(ibv_query_gid_ex(d.ctx, 1, 2, &e, 0), 0);
	assert_int_equal(e.gid_type, IBV_GID_TYPE_ROCE_V1);
	assert_int_equal(ibv_query_gid_type(d.ctx, 1, 2, &type), 0);
	assert_int_equal(type, TYPE_ROCE_V1);
	assert_int_equal(ibv_query_gid_ex(d.ctx, 1, 3, &e, 0), 0);
	assert_int_equal(e.gid_type, IBV_GID_TYPE_ROCE_V2);
	assert_int_equal(ibv_query_gid_type(d.ctx, 1, 3, &type), 0);
	assert_int_equal(type, TYPE_ROCE_V2);
	dev_close(&d);
}

TEST(device_list, unknown_gid_layout__null_and_einval)
{
	dev_namespace();
	setenv("ROCEMU_GID_LAYOUT", "mlx4", 1);
	assert_null(ibv_get_device_list(NULL));
	assert_int_equal(errno, EINVAL);
	unsetenv("ROCEMU_GID_LAYOUT");
}

TEST(gid, index_beyond_table__error)
{
	struct ibv_gid_entry e;
	union ibv_gid gid;
	struct dev d;

	dev_open(&d);
	assert_int_equal(ibv_query_gid(d.ctx, 1, 64, &gid), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_query_gid(d.ctx, 1, -1, &gid), -1);
	assert_int_equal(ibv_query_gid_ex(d.ctx, 1, 64, &e, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(d.ctx, 1, 0, &e, 1), EOPNOTSUPP);
	dev_close(&d);
}

TEST(pkey, table__one_default_entry)
{
	__be16 pkey;
	struct dev d;

	dev_open(&d);
	assert_int_equal(ibv_query_pkey(d.ctx, 1, 0, &pkey), 0);
	assert_int_equal(pkey, 0xffff);
	assert_int_equal(ibv_get_pkey_index(d.ctx, 1, 0xffff), 0);
	assert_int_equal(ibv_get_pkey_index(d.ctx, 1, htons(0x8001)), -1);
	assert_int_equal(ibv_query_pkey(d.ctx, 1, 1, &pkey), -1);
	dev_close(&d);
}

TEST(device_attr, part_id_in_environment__reported)
{
	struct ibv_device_attr_ex ex;
	struct ibv_device_attr attr;
	struct dev d;

	dev_open(&d);
	setenv("ROCEMU_VENDOR_PART_ID", "4119", 1);
	assert_int_equal(ibv_query_device(d.ctx, &attr), 0);
	assert_int_equal(attr.vendor_part_id, 4119);
	assert_true(attr.vendor_id != 0);
	setenv("ROCEMU_VENDOR_PART_ID", "nonsense", 1);
	assert_int_equal(ibv_query_device_ex(d.ctx, NULL, &ex), 0);
	assert_int_equal(ex.orig_attr.vendor_part_id, 1);
	assert_int_equal(ex.phys_port_cnt_ex, 1);
	unsetenv("ROCEMU_VENDOR_PART_ID");
	dev_close(&d);
}

TEST(strings, any_value__some_text)
{
	assert_string_equal(ibv_wc_status_str(IBV_WC_SUCCESS), "success");
	assert_string_equal(ibv_wc_status_str((enum ibv_wc_status) - 1), "unknown");
	assert_string_equal(ibv_wc_status_str((enum ibv_wc_status)1000), "unknown");
	assert_string_equal(ibv_node_type_str(IBV_NODE_UNKNOWN), "unknown");
	assert_non_null(ibv_port_state_str(IBV_PORT_ACTIVE));
	assert_non_null(ibv_event_type_str(IBV_EVENT_QP_FATAL));
	assert_string_equal(ibv_wr_opcode_str(IBV_WR_SEND), "send");
	assert_string_equal(ibv_wr_opcode_str((enum ibv_wr_opcode)15), "atomic write");
	assert_string_equal(ibv_wr_opcode_str((enum ibv_wr_opcode) - 1), "unknown");
	assert_string_equal(ibv_wr_opcode_str((enum ibv_wr_opcode)16), "unknown");
	assert_int_equal(ibv_rate_to_mbps(IBV_RATE_100_GBPS), 103125);
	assert_int_equal(mult_to_ibv_rate(ibv_rate_to_mult(IBV_RATE_40_GBPS)), IBV_RATE_40_GBPS);
	assert_int_equal(ibv_rate_to_mult(IBV_RATE_MAX), -1);
}
