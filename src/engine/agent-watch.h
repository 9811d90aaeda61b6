/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keeps a lane's connection to the agent alive without the data path waiting for it: the connection
 * is watched in the lane's loop, but finding, spawning and talking to the next agent, which may
 * take seconds, happens on a helper thread that lives as long as that takes. When no agent can be
 * had, it is tried again with a growing pause.
 *
 * All functions but agent_watch_look() are called on the loop's thread, or when there is none. Who
 * has the loop calls agent_watch_woken() when it was woken.
 */
#ifndef ENGINE_AGENT_WATCH_H
#define ENGINE_AGENT_WATCH_H

struct agent_client;
struct loop;
struct agent_watch;

/** Watch a client (borrowed; the watch's alone until it is freed). @return 0 or -errno. */
int agent_watch_new(struct agent_watch **out, struct loop *loop, struct agent_client *client);
/** Waits for a helper thread that is at work. NULL is allowed. */
void agent_watch_free(struct agent_watch *w);
/** The client was used by another thread, and may have another connection now. From any thread. */
void agent_watch_look(struct agent_watch *w);
/** The loop was woken, perhaps for the watch. */
void agent_watch_woken(struct agent_watch *w);

#endif
