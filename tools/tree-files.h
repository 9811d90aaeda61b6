/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes the files of a tree (tree.h) below its root. Most of them have one of a few contents ("0",
 * "RoCE v2", nothing): these are links to one file for each content, since a link takes a tenth of
 * the time of a file, and no memory. After an error all calls do nothing: err is the first one.
 */
#ifndef TOOLS_TREE_FILES_H
#define TOOLS_TREE_FILES_H

#include <stdbool.h>

enum { TREE_CONTENTS = 64, TREE_CONTENT_LEN = 64 };

/* There, and locked, while the tree is filled. */
#define TREE_FILLING "filling"

struct tree_files {
	char root[512];
	int fd;	 /* owned: of root; -1: not open */
	int err; /* 0 or -errno */
	/* The contents that files share, and the number of the file of each. */
	struct tree_content {
		char line[TREE_CONTENT_LEN];
		unsigned file;
	} content[TREE_CONTENTS];
	unsigned ncontents, nfiles;
	bool no_links; /* the file system has none */
};

/** Begin in a directory. err: whether it could be opened. */
void tree_files_open(struct tree_files *f, const char *root);
/** Open root again, in a process whose descriptors were closed. */
void tree_files_reopen(struct tree_files *f);
void tree_files_close(struct tree_files *f);

/** A directory below root, made with those above it where they are not there. @return a descriptor
 * of the caller's, which the calls below take; -1 after an error. */
int tree_dir(struct tree_files *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** The same, below another one. */
int tree_dir_in(struct tree_files *f, int dir, const char *name);

/** A symbolic link; one that is there stays. */
void tree_link(struct tree_files *f, int dir, const char *name, const char *target);

/**
 * A file of one line, or of none for "", whole at every moment. common: of a content that many
 * files have.
 */
void tree_put(struct tree_files *f, int dir, const char *name, const char *line);
void tree_put_common(struct tree_files *f, int dir, const char *name, const char *line);

/** Move what is at one place below root to another one, where nothing is. */
void tree_move(struct tree_files *f, const char *from, const char *to);

#endif
