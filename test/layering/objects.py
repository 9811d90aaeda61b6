#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Fail on files of a folder that need each other in a circle, on a name that two files define, and on getenv().

usage: objects.py NM ARCHIVE...

A file needs another when it has an undefined symbol that the other one defines: read from the object files, so it holds for what
was compiled. The folder is that of the archive; several archives may be of one folder. A circle is a set of files, each of which
needs, directly or through others, all of the set.

A set-user-ID program that is linked with the libraries must not heed its caller's variables: they use secure_getenv().
"""
import pathlib
import subprocess
import sys

# Circles that may be, by folder. What is left of one may be smaller; one that is cut must go from here.
ALLOWED = {
    # Requester, completer and responder call each other, and the QP calls and is called by all (src/README.md). Whatever fails gives
    # its reason (why), which is an event of the endpoint.
    "transport": [
        "comp comp-read cq credit ep mcast peer qp qp-state read-budget recover req req-build resp resp-early resp-exec "
        "resp-out resp-read resp-uc resp-ud retry rq why why-resp xrc"
    ],
    "verbs": [
        # ibv_reg_mr_ex() makes all kinds of regions; a PD's end takes its null regions along.
        "buf dmabuf mr pd real-forward",
        # A device that fails on purpose is a port that is gone, which is an event; CQs overflow on purpose.
        "cq event fault port",
        # The first QP gives the context its lane; a context that lends QPs ends with the last of them.
        "open qp xrc",
    ],
    # A peer has a QP's address handle, which is made when the peer is first sent to.
    "rsocket": ["dgram-qp dgram-udp"],
}
# Names that two folders define.
SHARED = set()


def objects(nm, archive):
    """By object file: the external symbols that it defines, and those that it uses."""
    out, name = {}, None
    for line in subprocess.run([nm, "-P", "-g", archive], check=True, capture_output=True, text=True).stdout.splitlines():
        fields = line.split()
        if line.endswith("]:"):
            member = line[line.rindex("[") + 1 : -2]
            name = pathlib.Path(member).name.removesuffix(".o").removesuffix(".c")
            out[name] = (set(), set())
        elif len(fields) >= 2:
            out[name][fields[1] in "Uwv"].add(fields[0])
    return out


def circles(files):
    """Strongly connected sets of two and more files, with the names that tie them."""
    owner = {symbol: name for name, (defined, _) in files.items() for symbol in defined}
    needs = {name: {owner[s] for s in used if s in owner} - {name} for name, (_, used) in files.items()}
    reach = {}
    for name in files:
        todo, seen = list(needs[name]), set()
        while todo:
            other = todo.pop()
            if other not in seen:
                seen.add(other)
                todo += needs[other]
        reach[name] = seen
    found = {frozenset(b for b in reach[a] if a in reach[b]) for a in files if a in reach[a]}
    for ring in sorted(found, key=sorted):
        ties = [f"{a} -> {b}: {' '.join(sorted(s for s in files[a][1] if owner.get(s) == b))}"
                for a in sorted(ring) for b in sorted(needs[a] & ring)]
        yield ring, ties


def check_circles(layer, files):
    unseen = [set(ring.split()) for ring in ALLOWED.get(layer, [])]
    allowed = list(unseen)
    for ring, ties in circles(files):
        home = [a for a in allowed if ring <= a]
        unseen = [a for a in unseen if not ring <= a]
        if not home:
            yield f"{layer}: a circle of {len(ring)} files: {' '.join(sorted(ring))}" + "".join(f"\n    {t}" for t in ties)
    for ring in unseen:
        yield f"{layer}: there is no circle any more in \"{' '.join(sorted(ring))}\": remove it from {sys.argv[0]}"


def check_names(layers):
    first = {}
    for layer, files in layers.items():
        for name, (defined, _) in files.items():
            for symbol in defined:
                where = first.setdefault(symbol, f"{layer}/{name}.c")
                if where != f"{layer}/{name}.c" and symbol not in SHARED:
                    yield f"{symbol} is defined by {where} and by {layer}/{name}.c"


def check_environment(layers):
    for layer, files in layers.items():
        for name, (_, used) in files.items():
            if "getenv" in used:
                yield f"{layer}/{name}.c calls getenv(): use secure_getenv()"


def main():
    nm, archives = sys.argv[1], sys.argv[2:]
    layers = {}
    for archive in archives:
        layers.setdefault(pathlib.Path(archive).parent.name, {}).update(objects(nm, archive))
    errors = [text for layer, files in layers.items() for text in check_circles(layer, files)]
    errors += check_names(layers)
    errors += check_environment(layers)
    for text in errors:
        print(text, file=sys.stderr)
    count = sum(len(files) for files in layers.values())
    print(f"{len(layers)} folders, {count} files, {len(errors)} errors")
    return 1 if errors or not count else 0


if __name__ == "__main__":
    sys.exit(main())
