/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keeps a lane's connection to the agent alive without the data path waiting for it: a copy of the
 * connection's descriptor is watched in the lane's loop, but a helper thread finds, spawns and
 * registers with the next agent, which may take seconds, and then ends. Without an agent, it is
 * tried again with a growing pause.
 *
 * All functions but agent_watch_look() are called on the loop's thread, or when there is none. The
 * loop's owner calls agent_watch_woken() when it was woken.
 */
#ifndef ENGINE_AGENT_WATCH_H
#define ENGINE_AGENT_WATCH_H

struct agent_client;
struct loop;
struct agent_watch;

/** Watch a client (borrowed; used by the watch alone until it is freed). @return 0 or -errno. */
int agent_watch_new(struct agent_watch **out, struct loop *loop, struct agent_client *client);
/** Waits for a running helper thread. NULL is allowed. */
void agent_watch_free(struct agent_watch *w);
/** In a forked child: close the child's descriptor. The watch is not used any more. */
void agent_watch_forget(struct agent_watch *w);
/** Another thread used the client, which may have another connection now. From any thread. */
void agent_watch_look(struct agent_watch *w);
/** The loop was woken, perhaps for the watch. */
void agent_watch_woken(struct agent_watch *w);

#endif
