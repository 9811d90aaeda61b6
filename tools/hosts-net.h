/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A network of hosts on this machine: network namespaces whose interfaces eth0 are ports of one
 * bridge, in a namespace of its own. A process that sleeps holds each host's namespaces (network,
 * mounts, host name), so that others can enter them by its ID.
 */
#ifndef TOOLS_HOSTS_NET_H
#define TOOLS_HOSTS_NET_H

#include <stddef.h>
#include <sys/types.h>

enum { HOSTS_MAX = 9 };

struct hosts_net {
	unsigned n;
	pid_t holder[HOSTS_MAX]; /* children, which end with this process */
};

/**
 * Make n hosts. A user without privileges gets a user namespace in which programs that are executed
 * keep the capabilities to manage these networks. Not to be called with threads.
 * @return 0, or -1 with a line in errbuf; then the caller has to exit.
 */
int hosts_net_make(struct hosts_net *net, unsigned n, unsigned mtu, char *errbuf, size_t errlen);

/** Go into the host whose holder this is. @return 0, or -1 with a line in errbuf. */
int hosts_net_enter(pid_t holder, char *errbuf, size_t errlen);

void hosts_net_end(struct hosts_net *net);

#endif
