/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/stash.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "peer.h"
#include "test.h"

enum { SEEN_MAX = 256 };

struct seen {
	unsigned records, sockets;
	unsigned first[SEEN_MAX];
	uint32_t scope[SEEN_MAX];
	ino_t inode[SEEN_MAX]; /* of a record's first socket */
	int result;	       /* to be returned, from record fail_at on */
	unsigned fail_at;
};

static ino_t inode_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_ino;
}

static int note(void *user, const struct rocemu_gid *addr, uint32_t scope_id, unsigned first,
		const int *fds, unsigned n)
{
	struct seen *s = user;

	(void)addr;
	if (s->result && s->records == s->fail_at)
		return s->result;
	assert_in_range(s->records, 0, SEEN_MAX - 1);
	s->first[s->records] = first;
	s->scope[s->records] = scope_id;
	s->inode[s->records] = inode_of(fds[0]);
	s->records++;
	s->sockets += n;
	for (unsigned i = 0; i < n; i++)
		close(fds[i]);
	return 0;
}

static void make(struct stash *s, struct agent_realm *realm)
{
	env_enter();
	assert_int_equal(agent_realm_init(realm, false), 0);
	assert_int_equal(stash_init(s, realm), 0);
}

TEST(stash, read_twice__same_records_in_order)
{
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct seen seen;
	struct agent_realm realm;
	struct stash s;
	int fds[STASH_BATCH], open_before;
	ino_t inode;

	make(&s, &realm);
	open_before = count_fds(getpid());
	for (unsigned i = 0; i < STASH_BATCH; i++)
		fds[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	inode = inode_of(fds[0]);
	assert_int_equal(stash_append(&s, &addr, 1, 0, fds, 1), 0);
	assert_int_equal(stash_append(&s, &addr, 2, 1, fds, STASH_BATCH), 0);
	assert_int_equal(stash_append(&s, &addr, 3, 254, fds, 2), 0);
	for (unsigned i = 0; i < STASH_BATCH; i++)
		close(fds[i]);
	for (unsigned round = 0; round < 2; round++) {
		seen = (struct seen){0};
		assert_int_equal(stash_load(&s, note, &seen), 0);
		assert_int_equal(seen.records, 3);
		assert_int_equal(seen.sockets, 1 + STASH_BATCH + 2);
		for (unsigned i = 0; i < 3; i++) {
			assert_int_equal(seen.scope[i], i + 1);
			assert_true(seen.inode[i] == inode);
		}
		assert_int_equal(seen.first[2], 254);
	}
	assert_int_equal(count_fds(getpid()), open_before);
	stash_fini(&s);
}

TEST(stash, as_many_records_as_fit__all_read_and_then_full)
{
	struct rocemu_gid addr = gid_v6_loopback();
	struct seen seen = {0};
	struct agent_realm realm;
	struct stash s;
	unsigned n = 0;
	int fd, r, bytes = 65536;

	make(&s, &realm);
	/* Small, so that the limit is near. */
	assert_int_equal(setsockopt(s.w, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
	fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	while ((r = stash_append(&s, &addr, 0, n, &fd, 1)) == 0)
		n++;
	assert_int_equal(r, -ENOBUFS);
	assert_true(n > 50);
	assert_int_equal(stash_load(&s, note, &seen), 0);
	assert_int_equal(seen.records, n);
	close(fd);
	stash_fini(&s);
}

TEST(stash, empty__reads_nothing)
{
	struct seen seen = {0};
	struct agent_realm realm;
	struct stash s;

	make(&s, &realm);
	assert_int_equal(stash_load(&s, note, &seen), 0);
	assert_int_equal(seen.records, 0);
	stash_fini(&s);
}

TEST(stash, reader_refuses_a_record__its_sockets_are_closed_and_all_stay_in)
{
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct seen seen = {.result = -EBADMSG, .fail_at = 1};
	struct agent_realm realm;
	struct stash s;
	int fd, open_before;

	make(&s, &realm);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(stash_append(&s, &addr, 0, i, &fd, 1), 0);
	open_before = count_fds(getpid());
	assert_int_equal(stash_load(&s, note, &seen), -EBADMSG);
	assert_int_equal(seen.records, 1);
	assert_int_equal(count_fds(getpid()), open_before);
	seen = (struct seen){0};
	assert_int_equal(stash_load(&s, note, &seen), 0);
	assert_int_equal(seen.records, 3);
	close(fd);
	stash_fini(&s);
}

TEST(stash, one_lives__no_second_one)
{
	struct agent_realm realm;
	struct stash s, t;
	int copy;

	make(&s, &realm);
	assert_true(stash_is(s.r, s.w, &realm));
	assert_false(stash_is(s.w, s.r, &realm));
	copy = dup(s.r);
	stash_fini(&s);
	/* Somebody, a client, still has it. */
	assert_int_equal(stash_init(&t, &realm), -EADDRINUSE);
	close(copy);
	assert_int_equal(stash_init(&t, &realm), 0);
	stash_fini(&t);
}

TEST(stash, garbage_in_it__refused)
{
	struct seen seen = {0};
	struct agent_realm realm;
	struct stash s;

	make(&s, &realm);
	assert_int_equal(send(s.w, "garbage garbage garbage garbage garbage", 39, 0), 39);
	assert_int_equal(stash_load(&s, note, &seen), -EBADMSG);
	stash_fini(&s);
}
