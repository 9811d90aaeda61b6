/* SPDX-License-Identifier: BSD-2-Clause */
#include "netns.h"

#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

void netns_enter(void)
{
	struct ifreq ifr = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	int fd;

	if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET)) {
		print_message("skipped: no network namespace can be made here (neither root nor "
			      "user namespaces)\n");
		skip();
	}
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &ifr), 0);
	close(fd);
}

void netns_enter_once(void)
{
	static bool done;

	if (done)
		return;
	netns_enter();
	done = true;
}

void netns_need_ipv6(void)
{
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0) {
		print_message("skipped: no sockets of IPv6 here\n");
		skip();
	}
	close(fd);
}

void netns_ip(const char *args)
{
	char line[200];

	if (system("ip link set lo up") != 0) {
		print_message("skipped: no ip, or no right to change interfaces\n");
		skip();
	}
	snprintf(line, sizeof(line), "ip %s", args);
	assert_int_equal(system(line), 0);
}
