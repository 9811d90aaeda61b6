#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Are the commands in the documentation run by a test, or marked, and do they at least parse?

usage: commands.py BUILD

- A block with a command of ours is a console block (console.py runs it), has `not run: REASON`,
  or stands in a page that another test runs (pages.RUN_BY).
- Of each `rocemu SUB ...`, in blocks and in code within sentences, SUB exists and `rocemu SUB
  --help` has each option. Of each tools/ or test/ program the file exists, and a file beside it
  or in test/ has each option.
"""
import functools
import json
import os
import re
import shlex
import subprocess
import sys

import pages

SPAN = re.compile(r'(?<!`)`((?:build/tools/)?rocemu(?:-parity)? [^`]+)`(?!`)')
OPTION = re.compile(r'^\[?(--?[a-z][\w-]*)')


@functools.lru_cache(None)
def help_of(rocemu, sub):
    """What `rocemu SUB --help` prints; None where there is no such command."""
    argv = [rocemu, sub, '--help'] if sub else [rocemu, '--help']
    p = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return p.stdout if p.returncode == 0 else None


def words_of(text):
    text = re.sub(r'\s+#.*', '', text)
    try:
        return shlex.split(
            text.replace('|', ' | ').replace('&', ' & ').replace(';', ' ; ').replace('[', ' ')
        )
    except ValueError:
        return text.split()


def options_of(words, end=('--', '|', '&', ';', '>')):
    """Options up to the program that is run."""
    for word in words:
        if word in end or word.startswith('>'):
            return
        m = OPTION.match(word)
        if m:
            yield m[1]


def check_rocemu(rocemu, program, rest):
    words = words_of(rest)
    sub = 'parity' if program.endswith('rocemu-parity') else words[0] if words else ''
    if sub in ('...', '…') or (sub.isupper() and sub.isalpha()) or re.fullmatch(r'[-<(]*', sub):
        return None
    if sub in ('--help', '--version'):
        return None
    text = help_of(rocemu, sub)
    if text is None:
        return f'rocemu has no command "{sub}"'
    for option in options_of(words):
        if option != '--help' and not re.search(rf'(?<![\w-]){re.escape(option)}(?![\w-])', text):
            return f'rocemu {sub} --help has no {option}'
    return None


@functools.lru_cache(None)
def targets_of(build):
    """Files that the build makes, or would make."""
    with open(os.path.join(build, 'meson-info', 'intro-targets.json'), encoding='utf-8') as f:
        return {name for target in json.load(f) for name in target['filename']}


@functools.lru_cache(None)
def sources_beside(path):
    found = ''
    for entry in sorted(path.parent.iterdir()):
        if entry.suffix in ('.py', '.sh', '.c') and entry.is_file():
            found += entry.read_text(encoding='utf-8', errors='replace')
    return found


def check_script(build, program, rest):
    if program.startswith('build/'):
        return (
            None
            if os.path.join(build, program[6:]) in targets_of(build)
            else f'no target {program}'
        )
    path = pages.TOP / program
    if not path.exists():
        return f'no {program}'
    for option in options_of(words_of(rest)):
        at = re.escape(option)
        # test/conftest.py has options of all that pytest runs.
        text = sources_beside(path) + sources_beside(pages.TOP / 'test/run.sh')
        if (
            path.is_file()
            and option != '--help'
            and not re.search(rf'(?<![\w-]){at}(?![\w-])', text)
        ):
            return f'no file beside {program} has {option}'
    return None


def check_command(build, command):
    m = pages.OURS.match(command)
    if not m:
        return None
    if 'rocemu' in m[1].rsplit('/', 1)[-1]:
        return check_rocemu(os.path.join(build, 'tools', 'rocemu'), m[1], m[2])
    return check_script(build, m[1], m[2])


def check_page(build, name):
    """(where, what is wrong), and how many commands are run, marked and within sentences."""
    wrong, counts = [], {'run': 0, 'elsewhere': 0, 'marked': 0, 'named': 0}
    for block in pages.blocks(name):
        for number, command in block.commands():
            kind = (
                'run'
                if block.runs
                else 'marked'
                if block.reason
                else 'elsewhere'
                if pages.run_by(name)
                else None
            )
            if kind is None:
                wrong.append(
                    (f'{name}:{number}', f'nothing runs this, and nothing says why: {command}')
                )
            else:
                counts[kind] += 1
            problem = check_command(build, command)
            if problem:
                wrong.append((f'{name}:{number}', problem))
    text = re.sub(
        r'^( *)```.*?^\1```$',
        lambda m: '\n' * m[0].count('\n'),
        (pages.TOP / name).read_text(encoding='utf-8'),
        flags=re.M | re.S,
    )
    for m in SPAN.finditer(text):
        counts['named'] += 1
        problem = check_command(build, m[1])
        if problem:
            wrong.append((f'{name}:{text.count(chr(10), 0, m.start()) + 1}', problem))
    return wrong, counts


def main():
    build = os.path.abspath(sys.argv[1])
    wrong, total = [], {}
    for name in pages.names():
        some, counts = check_page(build, name)
        wrong += some
        for kind, n in counts.items():
            total[kind] = total.get(kind, 0) + n
    for where, text in wrong:
        print(f'{where}: {text}', file=sys.stderr)
    print(
        f'commands: {total["run"]} run, {total["elsewhere"]} run by other tests, '
        f'{total["marked"]} marked as not run, '
        f'{total["named"]} within sentences; {len(wrong)} wrong'
    )
    return 1 if wrong or not total['run'] else 0


if __name__ == '__main__':
    sys.exit(main())
