# SPDX-License-Identifier: BSD-2-Clause
"""The commands of rocemu and their options, as --help prints them."""
import re
import subprocess

OPTION = re.compile(r"^  (?:-(\w), |    )--([\w-]+)(?:(\[=\S+\])| (\S+))?(?:  +(.*))?$")


class Option:
    def __init__(self, letter, name, optional, arg, text):
        self.letter, self.name, self.text = letter, name, text or ""
        self.optional, self.arg = optional, arg

    @property
    def head(self):
        """As the manual page has it: "-p, --pid PID"."""
        letter = f"-{self.letter}, " if self.letter else ""
        return f"{letter}--{self.name}{self.optional or ''}{' ' + self.arg if self.arg else ''}"

    @property
    def choices(self):
        found = re.search(r"\[values: ([^]]*)\]", self.text)
        return found[1].split() if found else []

    @property
    def variable(self):
        found = re.search(r"\[\$(\w+)\]", self.text)
        return found[1] if found else None


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False,
                          stdin=subprocess.DEVNULL)


def commands(rocemu):
    """name: line of `rocemu --help`"""
    return dict(re.findall(r"^  (\w+) +(.+)$", run(rocemu, "--help").stdout, re.M))


def options(text):
    """The options of a text of --help."""
    out = []
    section = re.search(r"^options:\n((?: .*\n)+)", text, re.M)[1]
    for line in section.splitlines():
        m = OPTION.match(line)
        if m:
            out.append(Option(*m.groups()))
        else:
            assert line.startswith(" " * 8), f"neither an option nor its text: {line!r}"
            out[-1].text = f"{out[-1].text} {line.strip()}".strip()
    return out
