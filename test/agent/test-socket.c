/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peer.h"
#include "test.h"

static int get_int(int fd, int level, int option)
{
	int value = -1;
	socklen_t len = sizeof(value);

	assert_int_equal(getsockopt(fd, level, option, &value, &len), 0);
	return value;
}

TEST(data_socket, ipv4__options_the_data_path_relies_on)
{
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	int fd;

	env_enter();
	fd = data_socket_open(&addr, 0, AGENT_PORT);
	assert_true(fd >= 0);
	assert_int_equal(get_int(fd, SOL_SOCKET, SO_REUSEPORT), 0);
	assert_int_equal(data_socket_share(fd), 0);
	assert_int_equal(get_int(fd, SOL_SOCKET, SO_REUSEPORT), 1);
	assert_int_equal(get_int(fd, IPPROTO_IP, IP_MTU_DISCOVER), IP_PMTUDISC_DO);
	assert_int_equal(get_int(fd, IPPROTO_IP, IP_RECVTOS), 1);
	assert_int_equal(get_int(fd, IPPROTO_IP, IP_RECVTTL), 1);
	assert_int_equal(get_int(fd, SOL_SOCKET, SO_RXQ_OVFL), 1);
	assert_true(get_int(fd, SOL_SOCKET, SO_RCVBUF) >= 212992);
	close(fd);
}

TEST(data_socket, ipv6__options_the_data_path_relies_on)
{
	struct rocemu_gid addr = gid_v6_loopback();
	int fd;

	env_enter();
	fd = data_socket_open(&addr, 0, AGENT_PORT);
	assert_true(fd >= 0);
	assert_int_equal(get_int(fd, SOL_SOCKET, SO_REUSEPORT), 0);
	assert_int_equal(get_int(fd, IPPROTO_IPV6, IPV6_V6ONLY), 1);
	assert_int_equal(get_int(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER), IPV6_PMTUDISC_DO);
	assert_int_equal(get_int(fd, IPPROTO_UDP, 102), 1); /* UDP_NO_CHECK6_RX */
	assert_int_equal(get_int(fd, IPPROTO_IPV6, IPV6_RECVTCLASS), 1);
	assert_int_equal(get_int(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT), 1);
	close(fd);
}

TEST(data_socket, address_text__as_people_write_it)
{
	struct rocemu_gid v4 = gid_v4(10, 0, 0, 1), v6 = {.raw = {0xfe, 0x80, [15] = 1}};
	char buf[AGENT_ADDR_STRLEN];

	assert_string_equal(data_addr_str(&v4, 0, buf), "10.0.0.1");
	assert_string_equal(data_addr_str(&v6, 0, buf), "fe80::1");
	assert_string_equal(data_addr_str(&v6, 7, buf), "fe80::1%7");
}

TEST(data_socket, each_error__one_line_that_names_the_address)
{
	static const int errors[] = {EADDRINUSE, EADDRNOTAVAIL, EACCES, EPERM, EMFILE, ENOMEM};
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	char text[400];

	env_enter();
	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		data_socket_explain(-errors[i], &addr, 0, text, sizeof(text));
		assert_non_null(strstr(text, "127.0.0.1"));
		assert_null(strchr(text, '\n'));
	}
}
