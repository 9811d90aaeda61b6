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

/** A packet of 9 bytes in two pieces, and 3 of pad. */
static struct rocemu_tx packet(const struct rocemu_path *path, const uint8_t *bytes)
{
	return (struct rocemu_tx){
		.path = path,
		.payload_len = 9,
		.hdr_len = 12,
		.trailer_len = 3 + ROCEMU_ICRC_LEN,
		.niov = 2,
		.hdr = {4, 0x43, 0xff, 0xff, [11] = 9},
		.iov = {{.iov_base = (void *)(uintptr_t)bytes, .iov_len = 5},
			{.iov_base = (void *)(uintptr_t)(bytes + 20), .iov_len = 4}},
	};
}

TEST(path_seal, of_pieces_and_of_a_copy__the_same_icrc)
{
	const struct rocemu_path path = {.sgid = {{[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}},
					 .dgid = {{[10] = 0xff, [11] = 0xff, 127, 0, 0, 2}},
					 .sport = 0xc123};
	struct rocemu_ep *ep = rocemu_ep_new(&(struct rocemu_ep_config){.seed = 1});
	static const uint8_t bytes[] = "abcdefghijklmnopqrstuvwxyz";
	struct rocemu_tx pieces = packet(&path, bytes), again = pieces, copy = pieces;
	uint8_t linear[12 + 9 + 3] = {0};

	memcpy(linear, pieces.hdr, 12);
	memcpy(linear + 12, "abcdeuvwx", 9);
	rocemu_tx_seal(&pieces, 7);
	assert_memory_not_equal(pieces.trailer + 3, "\0\0\0", 4);
	assert_true(rocemu_ep_seal(ep, &again, 7));
	assert_memory_equal(again.trailer, pieces.trailer, 7);
	rocemu_ep_seal_copy(ep, &copy, linear, 7);
	assert_memory_equal(copy.trailer, pieces.trailer, 7);
	rocemu_ep_seal_copy(ep, &copy, linear, 8);
	assert_memory_not_equal(copy.trailer, pieces.trailer, 7);
	rocemu_ep_free(ep);
}

TEST(path_flatten, pieces__one_with_their_bytes_and_none_of_none)
{
	static const uint8_t bytes[] = "abcdefghijklmnopqrstuvwxyz";
	struct rocemu_tx t = packet(NULL, bytes), own = t, empty = t;
	struct rocemu_ep *ep = rocemu_ep_new(&(struct rocemu_ep_config){.seed = 1});
	uint8_t to[16] = {0};

	assert_true(rocemu_ep_flatten(ep, &t, to));
	assert_int_equal(t.niov, 1);
	assert_ptr_equal(t.iov[0].iov_base, to);
	assert_int_equal(t.iov[0].iov_len, 9);
	assert_memory_equal(to, "abcdeuvwx", 9);
	memset(to, 0, sizeof(to));
	own.own = true;
	assert_true(rocemu_ep_flatten(ep, &own, to));
	assert_memory_equal(to, "abcdeuvwx", 9);
	empty.niov = 0;
	rocemu_tx_flatten(&empty, to);
	assert_int_equal(empty.niov, 0);
	rocemu_ep_free(ep);
}
