# SPDX-License-Identifier: BSD-2-Clause
"""Parts of documents that runs write: between <!-- NAME: ... --> and <!-- end of NAME -->."""
import re


def _part(name):
    return re.compile(rf'(<!-- {re.escape(name)}:[^\n]*-->\n)(.*?)(<!-- end of {re.escape(name)} -->)', re.S)


def read(path, name):
    """What stands there now."""
    with open(path, encoding='utf-8') as f:
        found = _part(name).search(f.read())
    if not found:
        raise LookupError(f'{path} has no part {name}')
    return found.group(2)


def write(path, name, text):
    with open(path, encoding='utf-8') as f:
        old = f.read()
    if not _part(name).search(old):
        raise LookupError(f'{path} has no part {name}')
    with open(path, 'w', encoding='utf-8') as f:
        f.write(_part(name).sub(lambda m: m.group(1) + text.rstrip('\n') + '\n' + m.group(3), old))


def items(text):
    """The items of its lists, each in one line."""
    return [' '.join(item.split()) for item in re.findall(r'^- (.*(?:\n +\S.*)*)', text, re.M)]


def rows(text):
    """The cells of the tables' rows, without heads and rules."""
    lines = text.splitlines()
    table = [[cell.strip() for cell in line.strip('|').split('|')] for line in lines if line.startswith('|')]
    rules = [i for i, row in enumerate(table) if row and all(re.fullmatch(r'-+', cell) for cell in row)]
    return [row for i, row in enumerate(table) if i not in rules and i + 1 not in rules]
