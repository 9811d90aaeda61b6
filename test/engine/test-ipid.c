/* SPDX-License-Identifier: BSD-2-Clause */
/* The identification of a socket's next packet, where none can be read off. */
#include "test.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/ipid.h"

TEST(ipid_next, no_packet_leaves__unknown)
{
	const struct sockaddr_in none = {.sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(0xf0000001)};
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_int_equal(ipid_next(fd, &none), -1);
	close(fd);
}
