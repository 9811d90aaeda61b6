#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The completion scripts in their shells: what a user who presses TAB is offered.

usage: completion.py SHELL ROCEMU DIRECTORY

SHELL is bash, zsh or fish; skipped where there is none. DIRECTORY has the scripts that are
installed. bash and zsh run on a terminal of the test's own, and report each completion through a
pipe when it is made; fish prints completions by itself.
"""
import fcntl
import os
import pty
import shutil
import subprocess
import sys
import tempfile
import termios
import threading

import helptext

SKIP = 77
HANG_S = 120
DONE = "\x04"
PROGRAM = "rocemu-test-program"
ODD = "odd$(kill;$$)"  # a word that a shell must not run

BASH = r"""
PS1='' PROMPT_COMMAND='ready'
ready() { printf '\4\n' >&"$REPORT"; }
%s
. "$SCRIPT"
report() {
	_rocemu "$@"
	[[ ! ${COMPREPLY[*]} ]] || printf '%%s\n' "${COMPREPLY[@]}" >&"$REPORT"
	ready
}
complete -F report rocemu
show() { printf '%%s\n' "$@" >&"$REPORT"; }
bind 'set completion-query-items 0'
bind 'set page-completions off'
bind 'set enable-bracketed-paste off' 2>/dev/null
"""
# The function compadd sees what is offered; comppostfuncs run when a completion is done.
ZSH = r"""
PS1='' RPS1=''
unsetopt zle_bracketed_paste 2>/dev/null; unset zle_bracketed_paste
fpath=($DIRECTORY $fpath)
autoload -Uz compinit
compinit -u -D
bindkey -e
bindkey '^I' complete-word
setopt no_list_beep no_beep
LISTMAX=10000
compadd() {
	if (( ${argv[(I)-[OAD]*]} && ${argv[(I)-[OAD]*]} < ${argv[(i)-(|-)]} )); then
		builtin compadd "$@"
		return
	fi
	local -a offered
	builtin compadd -A offered "$@"
	(( $#offered )) && print -rl -- $offered >&$REPORT
	builtin compadd "$@"
}
ready() { print -r -- $'\4' >&$REPORT }
done_completing() { ready; comppostfuncs=(done_completing) }
comppostfuncs=(done_completing)
zle-line-init() { ready }
zle -N zle-line-init
show() { print -rl -- "$@" >&$REPORT }
"""


def guard(process):
    timer = threading.Timer(HANG_S, process.kill)
    timer.daemon = True
    timer.start()


class Terminal:
    """An interactive bash or zsh."""

    def __init__(self, command, env):
        self.report, report = os.pipe()
        self.master, slave = pty.openpty()
        self.got = b""

        def session():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        size = {"TERM": "dumb", "COLUMNS": "200", "LINES": "60"}
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave,
                                        pass_fds=[report], preexec_fn=session,
                                        env={**env, **size, "REPORT": str(report)})
        os.close(slave)
        os.close(report)
        self.screen = b""
        threading.Thread(target=self.drain, daemon=True).start()
        guard(self.process)
        self.reported()

    def drain(self):
        try:
            while chunk := os.read(self.master, 65536):
                self.screen += chunk
        except OSError:
            pass

    def reported(self):
        """Lines until the next mark."""
        while DONE.encode() not in self.got:
            chunk = os.read(self.report, 65536)
            assert chunk, f"the shell has ended; on its screen: {self.screen[-2000:]!r}"
            self.got += chunk
        lines, _, self.got = self.got.partition(DONE.encode() + b"\n")
        return [line for line in lines.decode().split("\n") if line]

    def offered(self, line):
        os.write(self.master, line.encode() + b"\t")
        found = self.reported()
        os.write(self.master, b"\x15")
        return found

    def accepted(self, line):
        """The words that the command `show` gets when the line is completed and entered."""
        os.write(self.master, line.encode() + b"\t")
        self.reported()
        os.write(self.master, b"\x01show \n")
        return self.reported()

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)


class Fish:
    """fish prints the completions of a line that it reads."""

    LOOP = r"source $argv[1]; while read -l line; complete -C $line; printf '\4\n'; end"

    def __init__(self, script, env):
        self.process = subprocess.Popen(["fish", "-c", self.LOOP, script], env=env,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        guard(self.process)

    def offered(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        found = []
        while (answer := self.process.stdout.readline()) != DONE + "\n":
            assert answer, "fish has ended"
            found.append(answer.rstrip("\n").split("\t")[0])
        return found

    def accepted(self, line):
        """What fish does with the only completion of a line."""
        found = self.offered(line)
        assert len(found) == 1, f"{line!r}: {found}"
        return [*line.split()[:-1], found[0]]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Checks:
    def __init__(self, shell, rocemu, home):
        self.shell, self.rocemu, self.home, self.n, self.wrong = shell, rocemu, home, 0, []

    def words(self, line):
        """What is offered, without what the shell puts in front of and behind it."""
        head = line.rsplit(" ", 1)[1]
        before = head[: max(head.rfind(c) for c in "=,") + 1]
        return {w.removeprefix(before).rstrip("=") for w in self.shell.offered(line)}

    def expect(self, line, wanted, got=None):
        got = self.words(line) if got is None else got
        self.n += 1
        if got != wanted:
            missing, extra = sorted(wanted - got), sorted(got - wanted)[:20]
            self.wrong.append(f"{line!r}: missing {missing}, too much {extra}")

    def expect_line(self, line, *wanted):
        got = self.shell.accepted(line)
        self.n += 1
        if got != list(wanted):
            self.wrong.append(f"{line!r} becomes {got}, not {list(wanted)}")

    def first_words(self, *command):
        return {line.split()[0] for line in helptext.run(self.rocemu, *command).stdout.splitlines()}

    def options(self, name):
        return helptext.options(helptext.run(self.rocemu, name, "--help").stdout)

    def commands_and_options(self):
        names = helptext.commands(self.rocemu)
        self.expect("rocemu ", set(names), self.words("rocemu ") - {"--help", "--version"})
        for name in names:
            options = self.options(name)
            self.expect(f"rocemu {name} --", {f"--{o.name}" for o in options})
            for o in options:
                if o.choices:
                    self.expect(f"rocemu {name} --{o.name} ", set(o.choices))
                    self.expect(f"rocemu {name} --{o.name}=", set(o.choices))
                    self.expect(f"rocemu {name} --{o.name}={o.choices[0][:1]}",
                                {c for c in o.choices if c.startswith(o.choices[0][:1])})
                if o.choices and o.letter:
                    self.expect(f"rocemu {name} -{o.letter} ", set(o.choices))

    def lists(self):
        interfaces = {n for n in os.listdir("/sys/class/net") if n.startswith("l")}
        devices = self.first_words("devices") - {"device"}
        findings = self.first_words("verify", "--list")
        scenarios = self.first_words("parity", "--list")
        for line in ("run --device l", "run -d l", "run --device name=l", "run --device=name=l",
                     "run --device x,l", "devices --json --device l", "verify -i l"):
            self.expect("rocemu " + line, interfaces)
        self.expect("rocemu stat --device ", devices)
        self.expect("rocemu parity --device ", devices)
        self.expect("rocemu stat --json --pid ", {"4711", "17"})
        self.expect("rocemu stat --dump 4", {"4711"})
        self.expect("rocemu verify --explain p", {f for f in findings if f.startswith("p")})
        self.expect_line("rocemu verify --explain od", "rocemu", "verify", "--explain", ODD)
        self.expect("rocemu parity --only data/rc/w",
                    {s for s in scenarios if s.startswith("data/rc/w")})
        cases = {c for c in self.first_words("conform", "--list") if c.startswith("seq/g")}
        if not cases:
            self.wrong.append("rocemu conform --list has no seq/g...")
        self.expect("rocemu conform --only seq/g", cases)
        self.expect("rocemu completion ", {"bash", "zsh", "fish"})
        self.expect("rocemu run --lanes ", set())

    def files(self):
        capture = os.path.join(self.home, "capture.pcap")
        start = capture[:-7]
        for line in ("decode ", "verify --json ", "explain --limit 5 ", "run --pcap ",
                     "verify --html "):
            self.expect_line(f"rocemu {line}{start}", "rocemu", *line.split(), capture)
        self.expect_line(f"rocemu run --pcap={start}", "rocemu", "run", f"--pcap={capture}")

    def programs(self):
        for line in ("run ", "run -- ", "run --device lo ", "run --device dev0=lo --lanes 4 -- ",
                     "run --device=dev0=lo --summary "):
            self.expect_line(f"rocemu {line}{PROGRAM[:-4]}", "rocemu", *line.split(), PROGRAM)
        options = {f"--{o.name}" for o in self.options("run")}
        for line in (f"run {PROGRAM} --", f"run -d lo -- {PROGRAM} --", f"run {PROGRAM} x --"):
            self.expect("rocemu " + line, set(), self.words("rocemu " + line) & options)


def start(shell, directory, home, env):
    scripts = {"bash": "rocemu", "zsh": "_rocemu", "fish": "rocemu.fish"}
    script = os.path.join(directory, scripts[shell.split("+")[0]])
    if shell == "fish":
        return Fish(script, env)
    if shell == "zsh":
        with open(os.path.join(home, ".zshrc"), "w", encoding="ascii") as f:
            f.write(ZSH)
        return Terminal(["zsh", "-d", "-i"], {**env, "ZDOTDIR": home, "DIRECTORY": directory})
    rc = os.path.join(home, "bashrc")
    with open(rc, "w", encoding="ascii") as f:
        f.write(BASH % ("" if shell == "bash" else f". {BASH_COMPLETION}"))
    return Terminal(["bash", "--noprofile", "--rcfile", rc, "-i"], {**env, "SCRIPT": script})


BASH_COMPLETION = "/usr/share/bash-completion/bash_completion"


def prepare(home, rocemu):
    """Programs for the shells: one to be run; rocemu, with two processes and an odd name."""
    for name, text in ((PROGRAM, ""), ("rocemu", f"""
case "$1 $2" in
"stat --json") echo '{{"processes": [{{"pid": 4711, "uid": 0}}, {{"pid": 17, "uid": 0}}]}}' ;;
"verify --list") echo '{ODD} error'; exec {rocemu} "$@" ;;
*) exec {rocemu} "$@" ;;
esac
""")):
        with open(os.path.join(home, "bin", name), "w", encoding="ascii") as f:
            f.write("#!/bin/sh\n" + text)
            os.fchmod(f.fileno(), 0o755)
    with open(os.path.join(home, "capture.pcap"), "w", encoding="ascii"):
        pass


def main():
    shell, rocemu, directory = sys.argv[1], *map(os.path.abspath, sys.argv[2:])
    if not shutil.which(shell):
        print(f"skipped: there is no {shell}")
        return SKIP
    shells = [shell]
    if shell == "bash" and os.path.exists(BASH_COMPLETION):
        shells.append("bash+completion")
    os.environ["ROCEMU_REAL"] = "off"  # what this machine has is not ours to try
    failed = False
    for variant in shells:
        with tempfile.TemporaryDirectory(prefix="rocemu-completion-") as home:
            os.mkdir(os.path.join(home, "bin"))
            prepare(home, rocemu)
            env = {**os.environ, "HOME": home, "PATH": f"{home}/bin:{os.environ['PATH']}",
                   "XDG_CONFIG_HOME": home, "XDG_DATA_HOME": home, "LC_ALL": "C.UTF-8"}
            checks = Checks(start(variant, directory, home, env), rocemu, home)
            for check in (checks.commands_and_options, checks.lists, checks.files, checks.programs):
                check()
            checks.shell.close()
        for text in checks.wrong:
            print(f"{variant}: {text}", file=sys.stderr)
        print(f"{variant}: {checks.n} completions, {len(checks.wrong)} wrong")
        failed |= bool(checks.wrong) or not checks.n
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
