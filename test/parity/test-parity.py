#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""rocemu parity on emulated devices: every scenario on two of them, and that differences, hangs and
errors of the command line are reported.

usage: test-parity.py ROCEMU [PATTERN]...
       test-parity.py ROCEMU --write-docs       the table of docs/parity.md, from a run

Runs in a network namespace of its own.
"""

import collections
import fnmatch
import json
import os
import socket
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(TOP, "test", "prog"), os.path.join(TOP, "test", "lib")]

import commands  # noqa: E402 # pylint: disable=wrong-import-position
import doctable  # noqa: E402 # pylint: disable=wrong-import-position
import netns  # noqa: E402 # pylint: disable=wrong-import-position

DOCUMENT = os.path.join(TOP, "docs", "parity.md")
LEAST_SCENARIOS = 150
TWO = ("--device", "a=127.0.0.1", "--device", "b=127.0.0.2")

ROCEMU = os.path.abspath(sys.argv[1])


class Result(commands.Result):
    def __init__(self, *args, env=None):
        super().__init__(ROCEMU, "parity", *args, env=env, timeout=1500)


def interface_of_other_mtu():
    """A veth with an address and MTU 1500, where iproute2 can make one."""
    if "par0" in [name for _, name in socket.if_nameindex()]:
        return "10.123.0.1"
    for command in ("ip link add par0 type veth peer name par1", "ip addr add 10.123.0.1/24 dev par0",
                    "ip link set par0 up", "ip link set par1 up"):
        if subprocess.run(command.split(), capture_output=True).returncode:
            return None
    return "10.123.0.1"


# ---- the command line ----


def command__help__0():
    assert "usage:" in Result("--help").expect(0).out


def command__one_device__2():
    Result("--device", "a=127.0.0.1").expect(2, "--device", "twice").one_line()


def command__three_devices__2():
    Result(*TWO, "--device", "c=127.0.0.3").expect(2, "--device", "not more").one_line()


def command__bad_values__2():
    for args in (["--gid", "x"], ["--timeout", "0"], ["--jobs", "0"], ["--jobs", "65"], ["--gid", "-1"], ["--known", "/no/such/file"], ["more"]):
        Result(*TWO, *args).expect(2, args[0]).one_line()


def command__no_such_device__2_and_names_those_there_are():
    Result("--device", "a=127.0.0.1", "--device", "nobody").expect(2, "nobody", "there is a").one_line()


def command__no_such_scenario__2():
    Result(*TWO, "--only", "nothing-like-that").expect(2, "nothing-like-that").one_line()


def command__list__names_without_a_device():
    names = Result("--list").expect(0).out.split()
    assert len(names) >= LEAST_SCENARIOS, "only %d scenarios" % len(names)
    assert len(names) == len(set(names)), "names appear twice: %s" % [n for n in set(names) if names.count(n) > 1]


def command__bad_line_in_known_file__2_and_its_number():
    with tempfile.NamedTemporaryFile("w") as f:
        f.write("# comment\n\ndata/* | only two fields\n")
        f.flush()
        Result(*TWO, "--known", f.name).expect(2, "line 3").one_line()


def command__known_name_that_is_none__2():
    Result(*TWO, "--known", "no-such-device").expect(2, "no-such-device").one_line()


# ---- comparing ----


def parity__two_emulated_devices__every_scenario_same():
    r = Result(*TWO, "--json", "--jobs", "4")
    d = json.loads(r.out)
    assert d["across"] == "both directions", d["across"]
    for verdict in ("differs", "known difference", "not supported", "failed", "unstable"):
        odd = [s for s in d["scenarios"] if s["verdict"] == verdict]
        for s in odd:
            print("        %s: %s: %s" % (verdict, s["name"], {k: v["transcript"] for k, v in s["runs"].items()}))
        assert not odd, "%d %s" % (len(odd), verdict)
    r.expect(0)
    assert d["summary"]["same"] >= LEAST_SCENARIOS, d["summary"]
    # What is across is across: both directions, for what needs two ends.
    runs = [set(s["runs"]) for s in d["scenarios"]]
    assert sum(r == {"A", "B", "A>B", "B>A"} for r in runs) >= LEAST_SCENARIOS, "few scenarios ran across"
    assert all(line for s in d["scenarios"] for line in s["runs"]["A"]["transcript"]), "an empty line"


def packets__two_emulated_devices__as_the_specification_has_them():
    """Every run of the scenario has the same packets, and they are these."""
    s = json.loads(Result(*TWO, "--only", "data/rc/write-imm/1025", "--json").expect(0).out)["scenarios"][0]
    for run in ("A", "B", "A>B", "B>A"):
        assert s["runs"][run]["packets"] == [
            "packet to 1: RC WRITE First psn 123456, 1024 bytes of 1025",
            "packet to 1: RC WRITE Last imm psn 123457, 1 bytes, imm 11223344, AckReq",
            "packet to 2: RC acknowledge psn 123457, 0 bytes, syndrome 1f msn 1"], s["runs"][run]


def packets__doubled_by_the_network__the_same():
    """What is on the wire twice counts once."""
    r = Result(*TWO, "--only", "data/rc/send/65541", "--only", "data/rc/read/1025", "--only", "data/rc/atomic", "--json",
               env={"ROCEMU_IMPAIR": "dup=50%,seed=1"}).expect(0)
    d = json.loads(r.out)
    assert d["summary"]["same"] == len(d["scenarios"]), r.out


def packets__not_wanted__none():
    s = json.loads(Result(*TWO, "--only", "data/rc/send/1025", "--no-packets", "--json").expect(0).out)["scenarios"][0]
    assert not any("packets" in run for run in s["runs"].values()), s


def parity__other_mtu__known_differences_only():
    address = interface_of_other_mtu()
    if not address:
        return "no veth can be made here"
    r = Result("--device", "a=127.0.0.1", "--device", "b=" + address, "--only", "query", "--only", "data/rc/send/6",
               "--json").expect(0)
    verdicts = {s["name"]: s["verdict"] for s in json.loads(r.out)["scenarios"]}
    assert verdicts["query/port"] == "known difference", verdicts
    assert verdicts["data/rc/send/65541"] == "same", verdicts
    return None


def parity__difference_with_strict__told_with_transcripts_and_1():
    address = interface_of_other_mtu()
    if not address:
        return "no veth can be made here"
    r = Result("--device", "a=127.0.0.1", "--device", "b=" + address, "--only", "query/port", "--strict").expect(1)
    assert "differs: B from A" in r.out, r.out
    assert "- req active_mtu 4096" in r.out and "+ req active_mtu 1024" in r.out, r.out
    return None


def known__file_explains_a_part_or_all__1_or_0():
    address = interface_of_other_mtu()
    if not address:
        return "no veth can be made here"
    for lines, code in (("active_*", 0), ("active_width*", 1)):
        with tempfile.NamedTemporaryFile("w") as f:
            f.write("query/port | req %s | other link\n" % lines)
            f.flush()
            r = Result("--device", "a=127.0.0.1", "--device", "b=" + address, "--strict", "--known", f.name, "--only",
                       "query/port").expect(code)
        assert code or "known difference: B from A (other link)" in r.out, r.out
    return None


def hang__told_and_1():
    # A network that loses everything: the scenario's own limits are longer than the one second given.
    r = Result(*TWO, "--alone", "--only", "data/uc/send/1024", "--timeout", "1", env={"ROCEMU_IMPAIR": "loss=100%"})
    r.expect(1)
    assert "did not end in time" in r.out, r.out


def unreachable__across_skipped_with_a_reason():
    r = Result(*TWO, "--only", "query/identity", "--only", "data/uc/send/0", env={"ROCEMU_IMPAIR": "loss=100%"})
    assert "no RC connection from a to b" in r.out, r.out


def known__rxe__explains_what_it_is_about_and_nothing_else():
    """The explanations of rxe's ways leave rocemu's own differences alone."""
    address = interface_of_other_mtu()
    if not address:
        return "no veth can be made here"
    r = Result("--device", "a=127.0.0.1", "--device", "b=" + address, "--strict", "--known", "rxe", "--only",
               "query/port").expect(1)
    assert "+ req active_mtu 1024" in r.out, r.out
    return None


# ---- documents ----


def subject(name):
    parts = name.split("/")
    return "/".join(parts[:2]) if parts[1] in ("rc", "uc", "ud") else parts[0]


def docs__tables__are_of_the_present_scenarios():
    """A table that is older than the list of scenarios is to be written again: see the comment before it."""
    names = Result("--list").expect(0).out.split()
    want = collections.Counter(subject(name) for name in names)
    want["all"] = len(names)
    for part in ("rocemu", "rxe"):
        text = doctable.read(DOCUMENT, part)
        have = {row[0]: int(row[1]) for row in doctable.rows(text) if len(row) > 2}
        assert have == want, "%s, table %s: %s" % (DOCUMENT, part, {k: (have.get(k), want.get(k)) for k in
                                                                     set(have) | set(want) if have.get(k) != want.get(k)})
        gone = [n for row in doctable.rows(text) if len(row) == 2 for n in row[1].replace("`", "").split(", ")
                if n not in names]
        assert not gone, "%s, table %s has scenarios that are no more: %s" % (DOCUMENT, part, gone)


def markdown__two_emulated_devices__counts_add_up():
    rows = doctable.rows(Result(*TWO, "--only", "query", "--only", "data/uc/send", "--markdown").expect(0).out)
    assert {row[0] for row in rows} == {"query", "data/uc", "all"}, rows
    assert all(int(row[1]) == sum(int(cell or 0) for cell in row[2:]) for row in rows), rows


def write_docs():
    doctable.write(DOCUMENT, "rocemu", Result(*TWO, "--markdown").expect(0).out)


def main():
    netns.namespace()
    if sys.argv[2:] == ["--write-docs"]:
        write_docs()
        return
    patterns = sys.argv[2:] or ["*"]
    failed = False
    for name, case in list(globals().items()):
        if "__" not in name or name.startswith("_") or not any(fnmatch.fnmatch(name, p) for p in patterns):
            continue
        try:
            why = case()
            print("%-7s %s%s" % ("skipped" if why else "ok", name, ": " + why if why else ""), flush=True)
        except (AssertionError, subprocess.TimeoutExpired) as e:
            failed = True
            print("FAILED  %s: %s" % (name, e), flush=True)
    sys.exit(1 if failed else 0)


main()
