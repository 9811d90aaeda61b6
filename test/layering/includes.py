#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Fail on an #include that points to the right in the order of the layers.

usage: includes.py SOURCE_ROOT

    base -> wire -> transport -> engine -> verbs -> rdmacm -> rsocket -> tools
            wire -> netdev, fault -> engine

A layer includes itself and what stands to its left, as far as it has use for it. The connection manager (cm) stands beside the
engine: it knows nothing of it. rsocket knows rdma_cm and verbs by their public headers alone. The agent stands beside verbs and
rdmacm, above the engine's addresses: its clients see AGENT_PUBLIC of it and nothing else. Inside src, a file is included by its
layer's name ("wire/ip.h"); whatever has no layer in its name must be a header of the includer's own folder. map.py holds the
order against src/README.md.
"""
import pathlib
import re
import sys

ALLOWED = {
    "base": {"base"},
    "wire": {"base", "wire"},
    "transport": {"base", "wire", "transport"},
    "netdev": {"base", "wire", "netdev"},
    "fault": {"base", "wire", "fault"},
    "engine": {"base", "wire", "netdev", "fault", "engine", "agent"},  # the endpoint by its public headers
    "agent": {"base", "wire", "netdev", "agent"},
    "verbs": {"base", "netdev", "fault", "engine", "verbs"},
    "cm": {"base", "transport", "cm"},
    "rdmacm": {"base", "netdev", "fault", "engine", "agent", "verbs", "cm", "rdmacm"},
    "tools": {"base", "wire", "netdev", "fault", "engine", "verbs", "tools"},
    "rsocket": {"base", "rsocket"},  # rdma_cm and verbs through their public headers, as programs see them
    "interpose": {"base", "interpose"},
    "examples": set(),
    "lessons": set(),  # examples/lessons: programs for any adapter
}
AGENT_PUBLIC = {"agent/client.h", "agent/client-gsi.h", "agent/protocol.h"}

# System headers that a layer has no business with: it must not know sockets, clocks, threads, the loop.
FORBIDDEN_SYSTEM = {
    "base": r"infiniband/|ev\.h|pcap|sys/socket|rocemu/",
    "wire": r"infiniband/|ev\.h|sys/socket|sys/epoll|pthread|time\.h|sys/time|rocemu/endpoint\.h",
    "transport": r"ev\.h|pcap|sys/socket|netinet/|arpa/|sys/epoll|sys/timerfd|pthread|time\.h|sys/time|unistd|stdio|"
    r"threads\.h|fcntl|signal",
    "cm": r"ev\.h|pcap|sys/socket|netinet/|arpa/|sys/epoll|sys/timerfd|pthread|time\.h|sys/time|unistd|stdio|"
    r"threads\.h|fcntl|signal",
    "netdev": r"infiniband/|ev\.h|pcap",
    "fault": r"ev\.h|pcap|sys/socket|netinet/|sys/epoll|sys/timerfd",
    "examples": r"(?!stdio|stdlib|string|assert|rocemu/)",
    "lessons": r"rocemu/",
}
# Files of the agent that decide and do nothing: as the transport. And the client's side has neither loop nor threads.
AGENT_PURE = ("gsi-mad", "gsi-ports", "gsi-reqs", "gsi-exit", "gsi-early", "gsi-sources", "seat-set")
FORBIDDEN_IN_FILE = {f"agent/{f}.{suffix}": FORBIDDEN_SYSTEM["transport"] for f in AGENT_PURE for suffix in "ch"}
FORBIDDEN_IN_FILE.update({f"agent/client-gsi.{suffix}": r"ev\.h|pthread|threads\.h" for suffix in "ch"})
# The files of the codec that print, and captures, which are files, are not in librocemu.
EXCEPT = {"wire/cm-print.c", "wire/text.c", "wire/capture.c", "wire/capture.h", "wire/print.c", "wire/print.h"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


def unused(files, root):
    """Layers that one may include, and no file of it does."""
    used = {layer: {layer} for layer in ALLOWED}
    for path in files:
        heads = (target.split("/")[0] for kind, target in INCLUDE.findall(path.read_text(encoding="utf-8")) if kind == '"')
        used[layer_of(root, path)].update(heads)
    for layer, allowed in ALLOWED.items():
        for other in sorted(allowed - used[layer]):
            yield f"{layer} may include {other}, and has no use for it"


def layer_of(root, path):
    parts = path.relative_to(root).parts
    return parts[1] if parts[0] in ("src", "examples") and len(parts) > 2 else parts[0]


def check(root, path, layer):
    name = f"{layer}/{path.name}"
    for kind, target in INCLUDE.findall(path.read_text(encoding="utf-8")):
        if kind == "<":
            bad = FORBIDDEN_IN_FILE.get(name, FORBIDDEN_SYSTEM.get(layer))
            if bad and name not in EXCEPT and re.match(bad, target):
                yield f"{name if name in FORBIDDEN_IN_FILE else layer} must not know <{target}>"
            continue
        head = target.split("/")[0]
        if "/" not in target:
            if not (path.parent / target).exists():
                yield f'"{target}" is not beside it; say its layer'
        elif target.startswith("."):
            yield f'"{target}": say the layer instead of a way through the tree'
        elif head not in ALLOWED[layer] and not (path.parent / target).exists():
            yield f"{layer} must not include {target}"
        elif head == "agent" and layer != "agent" and target not in AGENT_PUBLIC:
            yield f"{layer} reaches the agent through {' and '.join(sorted(AGENT_PUBLIC))} only, not {target}"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    files = [p for top in ("src", "tools", "examples") for p in sorted((root / top).rglob("*.[ch]"))]
    errors = 0
    for path in files:
        for text in check(root, path, layer_of(root, path)):
            print(f"{path.relative_to(root)}: {text}", file=sys.stderr)
            errors += 1
    missing = sorted(n for n in {*AGENT_PUBLIC, *FORBIDDEN_IN_FILE, *EXCEPT} if n.endswith("h") and not (root / "src" / n).exists())
    for text in [*unused(files, root), *(f"{n} has a rule and is not there" for n in missing)]:
        print(text, file=sys.stderr)
        errors += 1
    print(f"{len(files)} files, {errors} includes that must not be")
    return 1 if errors or not files else 0


if __name__ == "__main__":
    sys.exit(main())
