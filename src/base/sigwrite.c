/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/sigwrite.h"

#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/syssocket.h"

enum { KERNEL_SIGSET = _NSIG / 8 /* bytes of the kernel's set of signals */ };

static sigset_t signals_of_writes(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGXFSZ);
	sigaddset(&set, SIGPIPE);
	return set;
}

void sigwrite_begin(struct sigwrite *s)
{
	const sigset_t set = signals_of_writes();

	pthread_sigmask(SIG_BLOCK, &set, &s->mask);
	sigpending(&s->pending);
}

void sigwrite_end(const struct sigwrite *s)
{
	const int64_t at_once[2] = {0, 0}; /* a struct timespec of any width */
	const int saved = errno;
	sigset_t ours = signals_of_writes();

	if (sigismember(&s->pending, SIGXFSZ) == 1)
		sigdelset(&ours, SIGXFSZ);
	if (sigismember(&s->pending, SIGPIPE) == 1)
		sigdelset(&ours, SIGPIPE);
	/* The C library's sigtimedwait() is a cancellation point. */
	while (syscall(SYS_rt_sigtimedwait, &ours, NULL, at_once, KERNEL_SIGSET) > 0 ||
	       errno == EINTR)
		;
	pthread_sigmask(SIG_SETMASK, &s->mask, NULL);
	errno = saved;
}

ssize_t sigwrite(int fd, const void *data, size_t len)
{
	struct sigwrite s;
	ssize_t n;

	sigwrite_begin(&s);
	n = sys_write(fd, data, len);
	sigwrite_end(&s);
	return n;
}

int sigwrite_resize(int fd, size_t size)
{
	struct sigwrite s;
	int r;

	sigwrite_begin(&s);
	r = ftruncate(fd, (off_t)size);
	sigwrite_end(&s);
	return r;
}
