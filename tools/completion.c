/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rocemu completion: scripts for shells. The tables in them are those of the options; what does
 * not depend on them is in completion/.
 */
#include <getopt.h>
#include <string.h>

#include "base/cli.h"
#include "base/util.h"
#include "tool.h"

static const struct cli_option options[] = {
	CLI_HELP,
	{0},
};

const struct cli completion_cli = {
	.name = "completion",
	.brief = "print a script for completion in a shell",
	.usage = "bash | zsh | fish",
	.about = "Prints a script by which the shell completes the commands and options of rocemu. "
		 "An installed rocemu has it in place. Else, in bash:\n"
		 "  . <(rocemu completion bash)",
	.options = options,
	.operand = CLI_SHELL,
};

/* A list by its name in the scripts, and a command that prints it, the same in each shell. */
static const struct list {
	const char *name, *command;
} lists[CLI_VALUES] = {
	[CLI_OTHER] = {"other", NULL},
	[CLI_FILE] = {"file", NULL},
	[CLI_PROGRAM] = {"program", NULL},
	[CLI_PID] =
		{"pid",
		 "rocemu stat --json 2>/dev/null | grep -o '\"pid\": [0-9]*' | cut -d ' ' -f 2"},
	[CLI_INTERFACE] = {"interface", "command ls /sys/class/net"},
	[CLI_DEVICE] = {"device", "rocemu devices 2>/dev/null | sed 1d | cut -d ' ' -f 1"},
	[CLI_FINDING] = {"finding", "rocemu verify --list 2>/dev/null | cut -d ' ' -f 1"},
	[CLI_SCENARIO] = {"scenario", "rocemu parity --list 2>/dev/null"},
	[CLI_CASE] = {"case", "rocemu conform --list 2>/dev/null | cut -d ' ' -f 1"},
	[CLI_SHELL] = {"shell", "printf '%s\\n' bash zsh fish"},
};

static void print_lists(const char *before, const char *between, const char *after)
{
	for (unsigned i = 0; i < CLI_VALUES; i++)
		if (lists[i].command)
			printf("%s%s%s%s%s\n", before, lists[i].name, between, lists[i].command,
			       after);
}

/* The first part of an option's text. */
static int brief_len(const char *help)
{
	static const char *const ends[] = {"; ", ": ", " ("};
	size_t len = strlen(help);

	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		const char *end = strstr(help, ends[i]);

		if (end && (size_t)(end - help) < len)
			len = (size_t)(end - help);
	}
	return (int)len;
}

/* In single quotes, where zsh's _arguments and fish take these for more than themselves. */
static void print_escaped(const char *text, int len, const char *special)
{
	for (int i = 0; i < len; i++) {
		if (text[i] == '\'')
			fputs("'\\'", stdout);
		else if (strchr(special, text[i]))
			putchar('\\');
		putchar(text[i]);
	}
}

/* ---- bash ---- */

static void bash_kinds(const struct cli *c)
{
	cli_for_each (o, c) {
		if (!cli_takes_value(o))
			continue;
		printf("\t\"%s --%s\"", c->name, o->name);
		if (o->key < CLI_LONG)
			printf(" | \"%s -%c\"", c->name, o->key);
		printf(") kind=\"%s\" ;;\n", o->choices ? o->choices : lists[o->value].name);
	}
	if (c->operand)
		printf("\t\"%s \") kind=\"%s\" ;;\n", c->name, lists[c->operand].name);
}

static void print_bash(void)
{
	printf("# rocemu: completion for bash. Printed by \"rocemu completion bash\".\n"
	       "\n"
	       "_rocemu_commands() {\n"
	       "\tprintf '%%s\\n' --help --version");
	for (const struct command *c = tool_commands; c->cli; c++)
		printf(" %s", c->cli->name);
	printf("\n}\n\n_rocemu_options() {\n\tcase $1 in\n");
	for (const struct command *c = tool_commands; c->cli; c++) {
		printf("\t%s) printf '%%s\\n'", c->cli->name);
		cli_for_each (o, c->cli)
			printf(" --%s", o->name);
		printf(" ;;\n");
	}
	printf("\tesac\n}\n"
	       "\n"
	       "# What the value of a subcommand's option is; without an option, its operands. "
	       "Empty:\n"
	       "# there is none.\n"
	       "_rocemu_kind() {\n\tkind=\"\"\n\tcase \"$1 $2\" in\n");
	for (const struct command *c = tool_commands; c->cli; c++)
		bash_kinds(c->cli);
	printf("\tesac\n}\n\n_rocemu_list() {\n\tcase $1 in\n");
	print_lists("\t", ") ", " ;;");
	printf("\tesac\n}\n%s", completion_bash);
}

/* ---- zsh ---- */

static void zsh_value(enum cli_value value, const char *choices)
{
	if (choices)
		printf("(%s)", choices);
	else if (value == CLI_FILE)
		printf("_files");
	else if (lists[value].command)
		printf("__rocemu_pick %s", lists[value].name);
	else
		putchar(' ');
}

static void zsh_option(const struct cli_option *o)
{
	const bool optional = o->arg && !cli_takes_value(o);

	printf(" \\\n\t\t'*'");
	if (o->key < CLI_LONG)
		printf("{-%c%s,", o->key, o->arg ? "+" : "");
	printf("--%s%s", o->name, optional ? "=-" : o->arg ? "=" : "");
	printf(o->key < CLI_LONG ? "}'[" : "'[");
	print_escaped(o->help, brief_len(o->help), "[]");
	putchar(']');
	if (o->arg) {
		printf(optional ? "::" : ":");
		print_escaped(o->arg, (int)strlen(o->arg), "[]:");
		putchar(':');
		zsh_value(o->value, o->choices);
	}
	putchar('\'');
}

static void zsh_command(const struct cli *c)
{
	printf("\n__rocemu_%s() {\n\t_arguments -s -S", c->name);
	cli_for_each (o, c)
		zsh_option(o);
	if (c->operand == CLI_PROGRAM) {
		printf(" \\\n\t\t'(-)1: :_command_names -e' '*:: :_normal'");
	} else if (c->operand) {
		printf(" \\\n\t\t'*:%s:", lists[c->operand].name);
		zsh_value(c->operand, NULL);
		putchar('\'');
	}
	printf("\n}\n");
}

static void print_zsh(void)
{
	printf("#compdef rocemu\n"
	       "# rocemu: completion for zsh. Printed by \"rocemu completion zsh\".\n"
	       "\n"
	       "__rocemu_commands() {\n"
	       "\tlocal -a list=(");
	for (const struct command *c = tool_commands; c->cli; c++) {
		printf("\n\t\t'%s:", c->cli->name);
		print_escaped(c->cli->brief, (int)strlen(c->cli->brief), ":");
		putchar('\'');
	}
	printf("\n\t)\n\t_describe -t commands command list\n}\n");
	for (const struct command *c = tool_commands; c->cli; c++)
		zsh_command(c->cli);
	printf("\n__rocemu_list() {\n\tcase $1 in\n");
	print_lists("\t", ") ", " ;;");
	printf("\tesac\n}\n%s", completion_zsh);
}

/* ---- fish ---- */

static void fish_value(enum cli_value value, const char *choices)
{
	if (choices)
		printf(" -x -a '%s'", choices);
	else if (value == CLI_FILE)
		printf(" -r -F");
	else if (value == CLI_INTERFACE)
		printf(" -x -a '(__rocemu_interfaces)'");
	else if (lists[value].command)
		printf(" -x -a '(__rocemu_list %s)'", lists[value].name);
	else
		printf(" -x");
}

static void fish_command(const struct cli *c)
{
	cli_for_each (o, c) {
		printf("complete -c rocemu -n '__rocemu_at %s' -l %s", c->name, o->name);
		if (o->key < CLI_LONG)
			printf(" -s %c", o->key);
		if (cli_takes_value(o))
			fish_value(o->value, o->choices);
		printf(" -d '");
		print_escaped(o->help, brief_len(o->help), "\\");
		printf("'\n");
	}
	if (c->operand == CLI_FILE)
		printf("complete -c rocemu -n '__rocemu_at %s' -F\n", c->name);
	else if (c->operand == CLI_PROGRAM)
		printf("complete -c rocemu -n '__rocemu_at %s' -a '(__rocemu_complete_program)'\n",
		       c->name);
	else if (lists[c->operand].command)
		printf("complete -c rocemu -n '__rocemu_at %s' -a '(__rocemu_list %s)'\n", c->name,
		       lists[c->operand].name);
}

/* Where the program that a command runs begins, is seen only by its options' values. */
static void fish_with_value(const struct cli *c)
{
	printf("        case %s\n            printf '%%s\\n'", c->name);
	cli_for_each (o, c) {
		if (!cli_takes_value(o))
			continue;
		printf(" --%s", o->name);
		if (o->key < CLI_LONG)
			printf(" -%c", o->key);
	}
	putchar('\n');
}

static void print_fish(void)
{
	printf("# rocemu: completion for fish. Printed by \"rocemu completion fish\".\n"
	       "\n"
	       "# Options of a subcommand that runs a program whose value is the next word.\n"
	       "function __rocemu_with_value\n    switch $argv[1]\n");
	for (const struct command *c = tool_commands; c->cli; c++)
		if (c->cli->operand == CLI_PROGRAM)
			fish_with_value(c->cli);
	printf("        case '*'\n            return 1\n    end\nend\n");
	printf("\nfunction __rocemu_list\n    switch $argv[1]\n");
	print_lists("        case ", "\n            ", "");
	printf("    end\nend\n%s\n", completion_fish);
	for (const struct command *c = tool_commands; c->cli; c++) {
		printf("complete -c rocemu -n __rocemu_first -a %s -d '", c->cli->name);
		print_escaped(c->cli->brief, (int)strlen(c->cli->brief), "\\");
		printf("'\n");
		fish_command(c->cli);
	}
}

int tool_completion(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*print)(void);
	} shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
	const char *shell;
	int opt;

	while ((opt = cli_next(&completion_cli, argc, argv)) != CLI_END) {
		if (opt != 'h')
			return TOOL_USAGE;
		cli_print_help(&completion_cli, stdout);
		return TOOL_OK;
	}
	if (optind + 1 != argc) {
		fprintf(stderr, "%s: expected one shell: bash, zsh or fish\n", argv[0]);
		return TOOL_USAGE;
	}
	shell = argv[optind];
	for (size_t i = 0; i < ARRAY_LEN(shells); i++) {
		if (strcmp(shell, shells[i].name) != 0)
			continue;
		shells[i].print();
		return TOOL_OK;
	}
	fprintf(stderr, "%s: \"%s\": expected bash, zsh or fish\n", argv[0], shell);
	return TOOL_USAGE;
}
