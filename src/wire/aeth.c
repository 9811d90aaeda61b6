/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The time codes of the wire: RNR NAK timer (AETH) and local ACK timeout (exchanged when
 * connecting).
 */
#include <rocemu/wire.h>

/* IBTA vol. 1, 9.7.5.2.8, table 46, in units of 10 us. Code 0 is the longest time, not none. */
/* clang-format off */
static const uint32_t rnr_timer_10us[32] = {
	65536, 1,    2,    3,    4,    6,    8,    12,    16,    24,    32,
	48,    64,   96,   128,  192,  256,  384,  512,   768,   1024,  1536,
	2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};
/* clang-format on */

uint64_t rocemu_rnr_timer_ns(uint8_t code)
{
	return (uint64_t)rnr_timer_10us[code & ROCEMU_AETH_VALUE_MASK] * 10000;
}

uint64_t rocemu_ack_timeout_ns(uint8_t code)
{
	code &= 0x1f;
	return code == 0 ? 0 : (uint64_t)4096 << code;
}
