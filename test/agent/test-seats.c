/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/seats.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

enum { ANN = 1000, BOB = 1001 };

static struct seats seats;

/* Give a place to a user. @return the user's end of the token. */
static int give(unsigned place, uint32_t uid)
{
	struct seat *s = &seats.seat[place];
	int theirs;

	if (s->token >= 0)
		close(s->token);
	assert_int_equal(seats_new_token(&s->token, &theirs), 0);
	s->uid = uid;
	return theirs;
}

static int lowest(uint32_t uid)
{
	struct seats_used used;

	seats_look(&seats, &used);
	return seats_pick_lowest(&seats, &used, uid);
}

static unsigned count(uint32_t uid)
{
	struct seats_used used;

	seats_look(&seats, &used);
	return seats_count(&seats, &used, uid);
}

TEST(seats, token_closed_everywhere__place_is_free)
{
	int token, copy;

	seats_init(&seats);
	token = give(1, ANN);
	copy = dup(token);
	assert_int_equal(lowest(ANN), 2);
	assert_int_equal(count(ANN), 1);
	close(token);
	assert_int_equal(lowest(ANN), 2);
	close(copy);
	assert_int_equal(lowest(ANN), 1);
	assert_int_equal(count(ANN), 0);
	seats_fini(&seats);
}

TEST(seats, freed_place__goes_to_the_same_user_first_and_to_others_last)
{
	int tokens[AGENT_SEATS];

	seats_init(&seats);
	close(give(1, ANN));
	close(give(2, BOB));
	assert_int_equal(lowest(ANN), 1);
	assert_int_equal(lowest(BOB), 2);
	for (unsigned i = 3; i < AGENT_SEATS; i++)
		tokens[i] = give(i, BOB);
	close(tokens[5]);
	/* No unused place is left: only then another user's. */
	tokens[1] = give(1, ANN);
	assert_int_equal(lowest(ANN), 2);
	tokens[2] = give(2, ANN);
	assert_int_equal(lowest(ANN), 5);
	tokens[5] = give(5, ANN);
	assert_int_equal(lowest(ANN), -ENOSPC);
	assert_int_equal(count(ANN), 3);
	for (unsigned i = 1; i < AGENT_SEATS; i++)
		close(tokens[i]);
	seats_fini(&seats);
}

static void show(int token, uint64_t nonce)
{
	assert_int_equal(send(token, &nonce, sizeof(nonce), MSG_NOSIGNAL), sizeof(nonce));
}

TEST(seats, proof__what_the_owner_wrote_last_and_once)
{
	int ann, bob;

	seats_init(&seats);
	ann = give(1, ANN);
	bob = give(2, BOB);
	assert_false(seats_prove(&seats, 1, 7));
	assert_false(seats_prove(&seats, 1, 0));
	assert_false(seats_prove(&seats, 3, 7)); /* never used */
	show(bob, 7);
	assert_false(seats_prove(&seats, 1, 7));
	show(ann, 8);
	show(ann, 7); /* 8 was for a worker that has died */
	assert_false(seats_prove(&seats, 1, 8));
	assert_true(seats_prove(&seats, 1, 7));
	assert_false(seats_prove(&seats, 1, 7));
	/* Wrong guesses do not affect the owner. */
	show(ann, 9);
	assert_false(seats_prove(&seats, 1, 10));
	assert_true(seats_prove(&seats, 1, 9));
	show(ann, 0);
	assert_false(seats_prove(&seats, 1, 0));
	close(ann);
	close(bob);
	seats_fini(&seats);
}

TEST(seats, numbering__moves_on_and_comes_round_to_every_start)
{
	uint16_t first;
	unsigned n = 0;

	seats_init(&seats);
	first = seats.seat[4].next_index;
	do {
		seats.seat[4].next_index = seats_following_index(&seats, 4);
		n++;
	} while (seats.seat[4].next_index != first);
	assert_int_equal(n, AGENT_INDEXES);
	seats_fini(&seats);
}
