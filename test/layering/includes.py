#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Fail on an #include that the map does not allow.

usage: includes.py SOURCE_ROOT

The tables "Which folder includes which" of src/README.md and lab/README.md have the rules: a folder includes itself and what
stands in its row, as far as it has use for it. Inside src and lab, a file is included by its folder's name ("wire/ip.h");
whatever has no folder in its name must be a header of the includer's own folder. Of the agent, others see AGENT_PUBLIC and
nothing else; of tools, TOOLS_PUBLIC. Outside of lab, LAB_USERS include its headers and no other file does.
"""
import pathlib
import re
import sys

MAPS = ("src/README.md", "lab/README.md")
TITLE = "## Which folder includes which\n"
AGENT_PUBLIC = {"agent/client.h", "agent/client-gsi.h", "agent/options.h", "agent/protocol.h"}
TOOLS_PUBLIC = {"tool.h"}
# The table of commands; the commands that print a capture's packets, and take on a personality.
LAB_USERS = {"tools/main.c", "tools/decode.c", "tools/like.c"}

# System headers that a layer must not include: those of sockets, clocks, threads, the loop.
FORBIDDEN_SYSTEM = {
    "base": r"infiniband/|ev\.h|pcap|sys/socket|rocemu/",
    "wire": r"infiniband/|ev\.h|pcap|sys/socket|sys/epoll|pthread|time\.h|sys/time|rocemu/endpoint\.h",
    "transport": r"ev\.h|pcap|sys/socket|netinet/|arpa/|sys/epoll|sys/timerfd|pthread|time\.h|sys/time|unistd|stdio|"
    r"threads\.h|fcntl|signal",
    "cm": r"ev\.h|pcap|sys/socket|netinet/|arpa/|sys/epoll|sys/timerfd|pthread|time\.h|sys/time|unistd|stdio|"
    r"threads\.h|fcntl|signal",
    "netdev": r"infiniband/|ev\.h|pcap",
    "fault": r"ev\.h|pcap|sys/socket|netinet/|sys/epoll|sys/timerfd",
    "examples": r"(?!stdio|stdlib|string|assert|rocemu/)",
    "examples/lessons": r"rocemu/",
    "lab/capture": r"infiniband/|ev\.h|sys/socket|sys/epoll|pthread|time\.h|sys/time|rocemu/endpoint\.h",
    "lab/verify": r"infiniband/|ev\.h|pcap|sys/socket|sys/epoll|pthread|rocemu/endpoint\.h",
    "lab/parity": r"rocemu/",
}
# Files of the agent that only decide: as the transport. And the client's side has no loop and no
# threads.
AGENT_PURE = ("gsi-mad", "gsi-ports", "gsi-reqs", "gsi-exit", "gsi-early", "gsi-sources", "seat-set")
FORBIDDEN_IN_FILE = {f"agent/{f}.{suffix}": FORBIDDEN_SYSTEM["transport"] for f in AGENT_PURE for suffix in "ch"}
FORBIDDEN_IN_FILE.update({f"agent/client-gsi.{suffix}": r"ev\.h|pthread|threads\.h" for suffix in "ch"})
# The files of the codec that print, and captures, which are files, are not in librocemu.
EXCEPT = {"wire/cm-print.c", "wire/text.c", "wire/capture.c", "wire/capture.h", "wire/print.c", "wire/print.h"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


def read_rules(root):
    """The tables: folder -> the folders whose headers it may include."""
    rules = {}
    for name in MAPS:
        if not (root / name).exists():
            continue
        text = (root / name).read_text(encoding="utf-8").split(TITLE)[1].split("\n## ")[0]
        for folder, others in re.findall(r"^\| `([^`]+)` \|(.*)\|$", text, re.M):
            names = {other.removeprefix("../") for other in re.findall(r"`([^`]+)`", others)} - {"include/rocemu"}
            rules[folder.removeprefix("../")] = names
    return rules


def map_of(layer):
    """The page that has a folder's rows."""
    return MAPS[in_lab(layer)]


def unused(files, root, rules):
    """Folders that one may include, and no file of it does."""
    used = {layer: set() for layer in rules}
    for path in files:
        used.setdefault(layer_of(root, path), set()).update(layer for _, layer in included(root, path))
    for layer in sorted(used):
        if layer not in rules:
            yield f"{map_of(layer)}: {layer} has no row in the table of includes"
        for other in sorted(rules.get(layer, set()) - used[layer]):
            yield f"{map_of(layer)}: {layer} may include {other}, and has no use for it"


def layer_of(root, path):
    parts = path.relative_to(root).parts[:-1]
    return "/".join(parts[1:2] if parts[0] == "src" else parts)


def included(root, path):
    """(name, folder) of each header that is included by its name in quotes; folder None: there is none. Some are generated."""
    for kind, target in INCLUDE.findall(path.read_text(encoding="utf-8")):
        if kind == '"':
            tried = (path.parent / target, *(root / top / target for top in ("src", "tools", "lab")))
            made = target.split("/")[0] if (root / "src" / target).parent.is_dir() and "/" in target else None
            yield target, next((layer_of(root, p) for p in tried if p.exists()), made)


def in_lab(layer):
    return layer.split("/")[0] == "lab"


def check(root, path, rules):
    layer = layer_of(root, path)
    name = f"{layer}/{path.name}"
    bad = FORBIDDEN_IN_FILE.get(name, FORBIDDEN_SYSTEM.get(layer))
    for kind, target in INCLUDE.findall(path.read_text(encoding="utf-8")):
        if kind == "<" and bad and name not in EXCEPT and re.match(bad, target):
            yield f"{name if name in FORBIDDEN_IN_FILE else layer} must not include <{target}>"
    for target, other in included(root, path):
        if other is None:
            yield f'"{target}" is not there: name its folder'
        elif ".." in target:
            yield f'"{target}": name the folder instead of a way through the tree'
        elif other not in {layer, *rules.get(layer, ())}:
            yield f"{layer} must not include {target}"
        elif other == "agent" and layer != "agent" and target not in AGENT_PUBLIC:
            yield f"{layer} reaches the agent through {' and '.join(sorted(AGENT_PUBLIC))} only, not {target}"
        elif other == "tools" and layer != "tools" and target not in TOOLS_PUBLIC:
            yield f"{layer} reaches tools through {' and '.join(sorted(TOOLS_PUBLIC))} only, not {target}"
        elif in_lab(other) and not in_lab(layer) and name not in LAB_USERS:
            yield f"{name} must not include {target}: only {' and '.join(sorted(LAB_USERS))} may"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    rules = read_rules(root)
    files = [p for top in ("src", "tools", "lab", "examples") for p in sorted((root / top).rglob("*.[ch]"))]
    errors = 0
    for path in files:
        for text in check(root, path, rules):
            print(f"{path.relative_to(root)}: {text}", file=sys.stderr)
            errors += 1
    missing = sorted(n for n in {*AGENT_PUBLIC, *FORBIDDEN_IN_FILE, *EXCEPT} if n.endswith("h") and not (root / "src" / n).exists())
    for text in [*unused(files, root, rules), *(f"{n} has a rule and is not there" for n in missing)]:
        print(text, file=sys.stderr)
        errors += 1
    print(f"{len(files)} files, {errors} includes that must not be")
    return 1 if errors or not files else 0


if __name__ == "__main__":
    sys.exit(main())
