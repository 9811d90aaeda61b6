/* SPDX-License-Identifier: BSD-2-Clause */
#include "user.h"

#include <grp.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

enum { CANNOT_BECOME = 1, CANNOT_RUN };

int user_become(uid_t uid)
{
	if (setgroups(0, NULL) || setresgid(uid, uid, uid))
		return -1;
	return setresuid(uid, uid, uid);
}

void user_act_as(uid_t uid)
{
	assert_int_equal(seteuid(uid), 0);
}

void user_return(void)
{
	assert_int_equal(seteuid(0), 0);
}

void user_need(uid_t uid, const char *program)
{
	int status;
	pid_t pid;

	if (geteuid() != 0) {
		print_message("skipped: a second user needs root\n");
		skip();
	}
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (user_become(uid))
			_exit(CANNOT_BECOME);
		_exit(program && access(program, X_OK) ? CANNOT_RUN : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status == 0)
		return;
	if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_RUN)
		print_message("skipped: user %u cannot run %s; build in a directory that other "
			      "users can enter\n",
			      uid, program);
	else
		print_message("skipped: root cannot become user %u here\n", uid);
	skip();
}
