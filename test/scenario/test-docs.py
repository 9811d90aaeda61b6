#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The page of the language: its examples run, and it has all words.

usage: test-docs.py PAGE SCENARIO_PROGRAM
"""
import re
import subprocess
import sys
import tempfile


def main():
    page, program = sys.argv[1:]
    with open(page, encoding='utf-8') as f:
        text = f.read()
    examples = re.findall(r'^```scenario\n(.*?)^```$', text, re.M | re.S)
    with tempfile.NamedTemporaryFile('w', suffix='.scenario') as f:
        f.write('\n'.join(examples))
        f.flush()
        ran = subprocess.run([program, f.name], check=False).returncode
    shown = set(re.findall(r'[\w<]+', ' '.join(re.findall(r'`([^`\n]+)`', text))))
    words = subprocess.run([program, '--words'], capture_output=True, text=True, check=True).stdout
    missing = [w for line in words.splitlines() for w in line.split(':')[1].split() if not shown.issuperset(w.split('.'))]
    for word in missing:
        print(f'{page}: the word {word} is missing')
    print(f'{len(examples)} examples')
    return 1 if ran or missing or len(examples) < 10 else 0


if __name__ == '__main__':
    sys.exit(main())
