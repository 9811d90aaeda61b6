/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests faults by time: netmon's listeners are notified of each change, and read the state. */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/timed-faults.h"
#include "netdev/netmon.h"
#include "netns.h"

enum { PATIENCE_S = 20, TEXT_LEN = 256 };

struct ear {
	struct netmon_listener listener;
	pthread_mutex_t lock;
	pthread_cond_t got;
	char text[TEXT_LEN]; /* "up", "down", "fatal": the state at each event; guarded by lock */
};

static void on_event(void *user, const struct netmon_event *event)
{
	struct ear *e = user;
	const struct timed_faults f = timed_faults_now();
	const char *word = f.fatal ? "fatal " : f.down ? "down " : "up ";

	if (event->what != NETMON_TIMER)
		return;
	pthread_mutex_lock(&e->lock);
	strncat(e->text, word, sizeof(e->text) - strlen(e->text) - 1);
	pthread_cond_signal(&e->got);
	pthread_mutex_unlock(&e->lock);
}

static void ear_init(struct ear *e)
{
	memset(e, 0, sizeof(*e));
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->got, NULL);
	e->listener.notify = on_event;
	e->listener.user = e;
}

/** Wait until it has got this many events. */
static void wait_for(struct ear *e, size_t len, char text[TEXT_LEN])
{
	struct timespec end;
	int err = 0;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += PATIENCE_S;
	pthread_mutex_lock(&e->lock);
	while (!err && strlen(e->text) < len)
		err = pthread_cond_timedwait(&e->got, &e->lock, &end);
	strcpy(text, e->text);
	pthread_mutex_unlock(&e->lock);
}

static void listen_with(struct ear *e, const char *impairment)
{
	netns_enter_once();
	ear_init(e);
	setenv("ROCEMU_IMPAIR_SUMMARY", "off", 1);
	setenv("ROCEMU_IMPAIR", impairment, 1);
	timed_faults_enable();
	assert_int_equal(netmon_add(&e->listener), 0);
	unsetenv("ROCEMU_IMPAIR");
}

/* When it begins is a matter of how long the process has been running; from then on ups and downs
 * take turns. */
TEST(timed_faults, ports_flap__told_in_turns_until_the_last_listener_goes)
{
	char text[TEXT_LEN];
	const char *turns;
	struct ear e;

	listen_with(&e, "flap=20ms..40ms/10ms..20ms,seed=3");
	wait_for(&e, strlen("down up down up "), text);
	netmon_remove(&e.listener);
	turns = text + (text[0] == 'u' ? strlen("up ") : 0);
	assert_int_equal(strncmp(turns, "down up down ", strlen("down up down ")), 0);
	assert_false(timed_faults_now().down);
}

TEST(timed_faults, devices_fail__all_told_and_they_stay_so)
{
	char text[TEXT_LEN];
	struct ear e;

	listen_with(&e, "");
	assert_false(timed_faults_now().fatal);
	timed_faults_fail_devices();
	assert_true(timed_faults_now().fatal);
	wait_for(&e, strlen("fatal "), text);
	assert_string_equal(text, "fatal ");
	netmon_remove(&e.listener);
	assert_false(timed_faults_now().fatal);
	/* There is no device. */
	timed_faults_fail_devices();
	assert_false(timed_faults_now().fatal);
}

TEST(timed_faults, rules_by_time__addresses_and_device_go)
{
	char text[TEXT_LEN];
	struct ear e;

	listen_with(&e, "gid-remove index=1 after=1us; device-fatal after=1us");
	/* Usually both are due when the thread begins, without an event. */
	if (!timed_faults_now().fatal)
		wait_for(&e, strlen("fatal "), text);
	assert_true(timed_faults_now().fatal);
	assert_int_equal(timed_faults_now().gids, 2);
	netmon_remove(&e.listener);
	assert_int_equal(timed_faults_now().gids, 0);
}
