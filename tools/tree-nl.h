/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Serves NETLINK_RDMA to the programs of a `rocemu run`: librocemu-paths.so gives them a socket of
 * NETLINK_USERSOCK instead, and sends messages for the kernel to the socket here. The link
 * "netlink" in the tree identifies it: its target is the port number. Every user can send to it;
 * objects are shown to the tree's user and to root only.
 */
#ifndef TOOLS_TREE_NL_H
#define TOOLS_TREE_NL_H

#include "tree.h"

/** Open the socket and make the link. @return the socket, -errno. */
int tree_nl_open(struct tree *t);

/** Answer what has come in. */
void tree_nl_answer(struct tree *t, int fd);

#endif
