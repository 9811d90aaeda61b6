/* SPDX-License-Identifier: BSD-2-Clause */
/* Expected ports: read off packets recorded from the kernel's driver (test/golden). */
#include "test.h"

#include <string.h>

#include "transport/path.h"

TEST(path_sport, connected_without_flow_label__as_the_kernel)
{
	assert_int_equal(path_sport_connected(0, 0x11, 0x11), 49441);
	assert_int_equal(path_sport_connected(0, 0x12, 0x12), 49476);
	assert_int_equal(path_sport_connected(0, 0x1234, 0x99),
			 path_sport_connected(0, 0x99, 0x1234));
}

TEST(path_sport, flow_label__as_the_kernel)
{
	assert_int_equal(path_sport_connected(0xbc5b5, 1, 2), 50586);
}

TEST(path_sport, datagram__as_the_kernel)
{
	assert_int_equal(path_sport_datagram(0, 1), 55410);
	assert_int_equal(path_sport_datagram(0, 0x48), 57369);
}

TEST(path_sport, any__within_roce_range)
{
	for (uint32_t i = 1; i < 100000; i += 17) {
		assert_in_range(path_sport_connected(0, i, i * 3), 0xc000, 0xffff);
		assert_in_range(path_sport_connected(i, 1, 1), 0xc000, 0xffff);
		assert_in_range(path_sport_datagram(0, i), 0xc000, 0xffff);
	}
}

TEST(path_resolve, values_wider_than_their_fields__cut)
{
	static const struct rocemu_gid gid = {{[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}};
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.grh = {.flow_label = 0xfff12345, .traffic_class = 3, .hop_limit = 7}};
	struct rocemu_ep *ep = rocemu_ep_new(&(struct rocemu_ep_config){.seed = 1});
	struct rocemu_path path;

	memcpy(attr.grh.dgid.raw, gid.raw, sizeof(gid.raw));
	assert_int_equal(rocemu_ep_set_gid(ep, 0, &gid), 0);
	assert_int_equal(rocemu_path_resolve(ep, &attr, &path), 0);
	assert_int_equal(path.flow_label, 0x12345);
	assert_int_equal(path.tclass, 3);
	assert_int_equal(path.hop_limit, 7);
	attr.grh.hop_limit = 0;
	assert_int_equal(rocemu_path_resolve(ep, &attr, &path), 0);
	assert_int_equal(path.hop_limit, 64);
	rocemu_ep_free(ep);
}
