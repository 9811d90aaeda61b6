/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/unixnames.h"

#include <string.h>

void unix_names_open(struct unix_names *u)
{
	u->file = fopen("/proc/net/unix", "re");
	if (u->file)
		(void)setvbuf(u->file, NULL, _IOFBF, 1 << 16);
}

void unix_names_close(struct unix_names *u)
{
	if (u->file)
		fclose(u->file);
}

/* Lines are "Num RefCount Protocol Flags Type St Inode Path", an abstract name begins with '@'. */
const char *unix_names_next(struct unix_names *u, const char *prefix)
{
	enum { ACCEPTS = 1 << 16, SEQPACKET = 5 }; /* the kernel's numbers */
	const size_t n = strlen(prefix);
	char line[256];
	unsigned flags, type;

	while (u->file && fgets(line, sizeof(line), u->file)) {
		/* Most lines are of sockets without a name, or with another one. */
		if (!strstr(line, prefix))
			continue;
		if (sscanf(line, "%*s %*s %*s %x %x %*s %*s %111s", &flags, &type, u->name) == 3 &&
		    (flags & ACCEPTS) && type == SEQPACKET && u->name[0] == '@' &&
		    !strncmp(u->name + 1, prefix, n))
			return u->name + 1 + n;
	}
	return NULL;
}
