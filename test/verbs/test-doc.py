#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Is docs/verbs.md what the header has and what verbs-probe finds?

usage: test-doc.py DOC HEADER_DIR STUBS.c RXE_PROBE PROBE ROCEMU
       test-doc.py DOC HEADER_DIR STUBS.c RXE_PROBE            (without trying: no device can be had)

Runs in a network namespace of its own.
"""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))

import netns  # noqa: E402 # pylint: disable=wrong-import-position

STATES = ("works", "differs", "refused")


def rows(doc):
    """{name: (rocemu, soft-roce)} of the tables."""
    found = {}
    with open(doc, encoding="utf-8") as f:
        for line in f:
            m = re.match(r"\| `(\w+)` \| (\w*) \| (\w*) \|", line)
            if m:
                assert m.group(1) not in found, m.group(1) + " is there twice"
                found[m.group(1)] = m.group(2, 3)
    return found


def calls(header):
    """The functions that verbs.h declares or defines."""
    with open(header, encoding="utf-8") as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    inline = re.findall(r"static inline [^;{]*?\b(ibv_\w+)\s*\([^*]", text)
    declared = re.findall(r"^(?:const |struct |enum |int |void|char|uint\w+|__be\w+|ssize_t)[^;{}=()]*?\b(ibv_\w+)\s*\([^*]", text, re.M)
    return set(inline) | set(declared)


def probed(text):
    """{name: works or refused}; a call that fails in another way than by refusing is there, too."""
    found = {}
    for line in text.splitlines():
        name, verdict = line.split()[:2]
        found[name] = "refused" if verdict == "refused" else "works"
    return found


def try_it(probe, rocemu):
    env = dict(os.environ, ROCEMU_DEVICES="probe0=lo")
    p = subprocess.run([rocemu, "run", "--", probe, "probe0"], capture_output=True, text=True, env=env, check=False)
    if p.returncode != 0:
        sys.exit("%s: exit code %d: %s" % (probe, p.returncode, p.stderr.strip()))
    return probed(p.stdout)


def main():
    doc, header_dir, stubs, rxe = sys.argv[1:5]
    have = rows(doc)
    want = calls(os.path.join(header_dir, "infiniband", "verbs.h"))
    bad = ["%s is not in the document" % n for n in sorted(want - have.keys())]
    bad += ["%s: %r is no state" % (n, s[0]) for n, s in have.items() if s[0] not in STATES]
    with open(stubs, encoding="utf-8") as f:
        refused = set(re.findall(r"^STUB_\w+\((\w+)\)", f.read(), re.M))
    bad += ["%s is a stub, not what the document says: %s" % (n, have[n][0])
            for n in sorted(refused & have.keys()) if have[n][0] != "refused"]
    with open(rxe, encoding="utf-8") as f:
        theirs = probed(f.read())
    bad += ["%s: Soft-RoCE: %s, in the document %r" % (n, s, have.get(n, ("", ""))[1])
            for n, s in theirs.items() if have.get(n, ("", ""))[1] != s]
    if len(sys.argv) > 5:
        netns.namespace()
        ours = try_it(*sys.argv[5:7])
        assert ours.keys() == theirs.keys(), "only one of the two probes tells of %s: was %s made by an older program?" % (
            ", ".join(sorted(ours.keys() ^ theirs.keys())), rxe)
        bad += ["%s: %s, in the document %s" % (n, s, have.get(n)) for n, s in ours.items()
                if n not in have or (have[n][0] == "refused") != (s == "refused")]
    print("%d calls and flags, %d probed" % (len(have), len(theirs)))
    for line in bad:
        print("FAIL " + line)
    sys.exit(1 if bad or not want else 0)


main()
