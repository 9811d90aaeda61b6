/* SPDX-License-Identifier: BSD-2-Clause */
/* Expected ports: read off packets recorded from the kernel's driver (test/golden). */
#include "test.h"

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
