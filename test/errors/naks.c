/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which NAK crossed the wire: read from the capture that an emulated device writes of what it sends
 * and receives (classic pcap, raw IP).
 */
#include <errno.h>
#include <stdlib.h>

#include "errors.h"

enum {
	FILE_HEADER = 24,
	RECORD_HEADER = 16,
	RECORD_LENGTH = 8, /* its place in the record's header, in this machine's byte order */
	IPV4_HEADER = 20,
	IPV6_HEADER = 40,
	UDP_HEADER = 8,
	BTH = 12,
	PACKET_MAX = 65536,
	RC_ACKNOWLEDGE = 0x11,
	AETH_KIND = 0x60, /* of the syndrome: 00 ACK, 01 RNR NAK, 11 NAK */
};

/** The syndrome of a packet that is a NAK, else 0. */
static int nak_of(const uint8_t *p, size_t len)
{
	const size_t bth = (p[0] >> 4 == 4 ? IPV4_HEADER : IPV6_HEADER) + UDP_HEADER;

	if (len <= bth + BTH || p[bth] != RC_ACKNOWLEDGE)
		return 0;
	return p[bth + BTH] & AETH_KIND ? p[bth + BTH] : 0;
}

/** The next packet's length, 0 at the end of the file, -EIO. */
static int next_packet(FILE *f, uint8_t packet[PACKET_MAX])
{
	union {
		uint8_t bytes[RECORD_HEADER];
		uint32_t word[RECORD_HEADER / 4];
	} record;
	uint32_t len;

	if (fread(record.bytes, sizeof(record), 1, f) != 1)
		return feof(f) ? 0 : -EIO;
	len = record.word[RECORD_LENGTH / 4];
	if (!len || len > PACKET_MAX || fread(packet, len, 1, f) != 1)
		return -EIO;
	return (int)len;
}

int err_nak_in_capture(const char *path)
{
	uint8_t *packet = malloc(PACKET_MAX);
	FILE *f = fopen(path, "re");
	int len, nak = 0;

	len = packet && f && !fseek(f, FILE_HEADER, SEEK_SET) ? 1 : -EIO;
	while (len > 0 && !nak) {
		len = next_packet(f, packet);
		if (len > 0)
			nak = nak_of(packet, (size_t)len);
	}
	if (f)
		fclose(f);
	free(packet);
	return len < 0 ? len : nak;
}
