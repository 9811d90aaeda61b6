#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks that each refused call prints the reason. usage: refusals.py SOURCE_ROOT

In src/verbs, src/rdmacm and src/rsocket a statement that makes EINVAL or EOPNOTSUPP of its own does
so by REFUSE() (base/why.h), whose text names the call, the values, the rule and the remedy,
separated by ": ". Statements that only compare with one are none of these. ELSEWHERE has those
whose reason is printed by another function.
"""
import collections
import pathlib
import re
import sys

MADE = re.compile(r"\bE(INVAL|OPNOTSUPP)\b")
COMPARED = re.compile(r"[!=]=\s*-?E(INVAL|OPNOTSUPP)\b")
# file: how many, and who prints it.
ELSEWHERE = {
    "verbs/context.c": (1, "gid_get(): ibv_query_gid() or nobody, who reads zeros"),
    "verbs/port.c": (1, "vb_port_gid(): its callers"),
    "verbs/real.c": (1, "absent_ERRNO(): absent()"),
    "verbs/stub.h": (2, "STUB_WHY() itself, and the message of STUB_VOID()"),
    "verbs/lanes.c": (1, "log_error()"),
    "verbs/orphan.c": (1, "a mark that is never called"),
    "rdmacm/conn.c": (1, "rcm_orphan_refuse()"),
    "rdmacm/core.c": (2, "rcm_orphan_refuse()"),
    "rdmacm/id.c": (1, "rcm_orphan_refuse()"),
}


def statements(text):
    """Code between ";", "{" and "}", without comments; strings are kept."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    strings = []

    def hide(match):
        strings.append(match[0])
        return f"\0{len(strings) - 1}\0"

    text = re.sub(r'"(?:\\.|[^"\\])*"', hide, text)
    for part in re.split(r"[;{}]", text):
        yield part, "".join(strings[int(n)][1:-1] for n in re.findall(r"\0(\d+)\0", part))


def main():
    root = pathlib.Path(sys.argv[1]) / "src"
    silent, errors, refused = collections.Counter(), 0, 0
    for path in sorted([*(root / "verbs").glob("*.[ch]"), *(root / "rdmacm").glob("*.[ch]"), *(root / "rsocket").glob("*.[ch]")]):
        name = str(path.relative_to(root))
        for code, text in statements(path.read_text(encoding="utf-8")):
            if "REFUSE(" in code and "define" not in code:
                refused += 1
                if text.count(": ") < 1:
                    print(f"{name}: not the call and the rule: {text}", file=sys.stderr)
                    errors += 1
            elif MADE.search(COMPARED.sub("", code)):
                silent[name] += 1
                if silent[name] > ELSEWHERE.get(name, (0,))[0]:
                    print(f"{name}: does not say why: {' '.join(code.split())[-100:]}", file=sys.stderr)
                    errors += 1
    for name, (n, _) in ELSEWHERE.items():
        if silent[name] != n:
            print(f"refusals.py: {name} has {silent[name]} of the {n} of ELSEWHERE", file=sys.stderr)
            errors += 1
    print(f"{refused} refusals, {errors} errors")
    return 1 if errors or not refused else 0


if __name__ == "__main__":
    sys.exit(main())
