#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The test of `rocemu conform`: cases pass with an honest device, and each fails with a mutant.

usage: self-test.py ROCEMU RESPONDER [--only PATTERN] [--case FILE]... [--jobs N] [--verbose]

The device is RESPONDER, at an address of 127.0.0.0/8. First all cases are carried out against the
honest one: none may fail, and none may be left out. Then each mutant runs, and the case that it
names has to fail; of a case that only measures, what it reports has to change. A case without such
a mutant is an error, unless WITHOUT has the reason.
"""
import argparse
import concurrent.futures
import fnmatch
import itertools
import json
import os
import select
import subprocess
import sys

GOOD = ("pass", "measured")
RAW = "CAP_NET_RAW"  # without it cases that need it are left out
REACHES = "gsi/hello"  # a device without this is reported as such, and no case is carried out
UNREACHABLE = "does not answer a connection request"

# Cases that no mutant kills, or that are not carried out: why not.
IPV4 = "the device has an IPv4 address, since ::1 is the only address of IPv6 that lo has"
WITHOUT = {
    "gsi/hello-v6": IPV4,
    "ud/grh-v6": IPV4,
    "gsi/udp-checksum": "a UDP socket does not show the checksum of what it receives",
    "req/timeout-floor": "it measures a time, and nothing else",
    "robust/guessable": "the numbers of queue pairs are others in each run",
}

# TCP ports of the servers at the device; the usual ones may be another program's.
PORTS = {"rc_pingpong": ("rc", 28515), "uc_pingpong": ("uc", 28516), "ud_pingpong": ("ud", 28517), "conform_peer": ("cp", 28520),
         "write_bw": ("wr", 28521), "read_bw": ("rd", 28522), "atomic_bw": ("at", 28523)}


class Device:
    """The responder, on an address that no other one of this test has."""

    numbers = itertools.count(1)

    def __init__(self, program, mutant=None):
        first, n = f"127.{64 + os.getpid() % 128}", next(Device.numbers)
        self.address, self.tester = (f"{first}.{n // 100}.{2 * (n % 100) + i}" for i in (1, 2))
        self.command = [program, "--address", self.address, "--ports", ",".join(f"{name}={port}" for name, port in PORTS.values())]
        self.command += ["--mutant", mutant] if mutant else []

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        ready, _, _ = select.select([self.process.stdout], [], [], 20)
        if not ready or self.process.stdout.readline() != "ready\n":
            self.__exit__()
            raise RuntimeError(f"{' '.join(self.command)}: not ready")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Run:
    """What `rocemu conform` found: each case by its ID, as --json has it."""

    def __init__(self, args, device, *options, timeout=120):
        cases = itertools.chain.from_iterable(("--case", f) for f in args.case or [])
        ports = itertools.chain.from_iterable(("--port", f"{peer}={port}") for peer, (_, port) in PORTS.items())
        command = [args.rocemu, "conform", "--json", "-", "--strict", "--may-break-it", *ports, *cases, *options]
        done = subprocess.run([*command, "--from", device.tester, device.address], capture_output=True, text=True, timeout=timeout)
        self.error = done.stderr.strip()
        self.case = {c["id"]: c for c in json.loads(done.stdout)["cases"]} if done.stdout else {}

    def verdict(self, case):
        return self.case.get(case, {}).get("verdict", "not carried out")

    def text(self, case):
        """For people: the verdict and the reason."""
        return " ".join([self.verdict(case), self.case.get(case, {}).get("text", ""), self.error]).strip()

    def lacks_right(self, case):
        return self.verdict(case) == "unsupported" and RAW in self.text(case)

    def found(self, case):
        """What a case that measures has found, without times."""
        c = self.case[case]
        return {k: v for k, v in c["measured"].items() if not k.endswith("_ns")}, "text" in c


def list_cases(args):
    files = itertools.chain.from_iterable(("--case", f) for f in args.case or [])
    out = subprocess.run([args.rocemu, "conform", *files, "--list"], capture_output=True, text=True, check=True).stdout
    level = {line.split()[0]: line.split()[1] for line in out.splitlines()}
    return {case: level[case] for case in level if fnmatch.fnmatch(case, args.only)}


def list_mutants(args):
    out = subprocess.run([args.responder, "--list-mutants"], capture_output=True, text=True, check=True).stdout
    rows = [line.split("\t") for line in out.splitlines()]
    rows = [(name, [c for c in cases.split() if fnmatch.fnmatch(c, args.only)], text) for name, cases, text in rows]
    return [row for row in rows if row[1]]


def honest(args, cases):
    """Lines of errors, and the run."""
    with Device(args.responder) as device:
        run = Run(args, device, "--only", args.only, timeout=900)
    return [f"honest device: {case}: {run.text(case)}" for case in cases
            if run.verdict(case) not in GOOD + (("unsupported",) if case in WITHOUT else ()) and not run.lacks_right(case)], run


def kills(run, good, level, case):
    """Does the case fail? One that only measures: does it find something else?"""
    if level == "MEASURE" and case in run.case and case in good.case:
        return run.verdict(case) == "measured" and run.found(case) != good.found(case)
    return run.verdict(case) == "FAIL"


def try_mutant(args, good, levels, name, cases):
    """For each of the cases None if it fails, or what came instead."""
    with Device(args.responder, name) as device:
        run = Run(args, device, *itertools.chain.from_iterable(("--only", case) for case in cases), timeout=600)

    def lives(case):
        dead = kills(run, good, levels[case], case) or (case == REACHES and UNREACHABLE in run.error)
        return None if dead else run.text(case)

    return {case: lives(case) for case in cases}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("rocemu")
    parser.add_argument("responder")
    parser.add_argument("--only", default="*")
    parser.add_argument("--case", action="append", help="cases of a file instead of the program's")
    parser.add_argument("--jobs", type=int, default=12, help="devices at a time; most of the time they wait")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    cases = list_cases(args)
    errors, good = honest(args, cases)
    for case in cases:
        if args.verbose:
            print(f"{good.verdict(case):10} {case}")
    left_out = [case for case in cases if good.lacks_right(case)]
    cases = {case: level for case, level in cases.items() if case not in left_out}
    mutants, killed = [(name, [c for c in names if c not in left_out], text) for name, names, text in list_mutants(args)], {}
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        tried = {name: pool.submit(try_mutant, args, good, cases, name, [c for c in names if c in cases])
                 for name, names, _ in mutants if any(c in cases for c in names)}
        for name, names, text in mutants:
            lives = tried[name].result() if name in tried else {}
            for case in names:
                wrong = lives.get(case, "there is no such case")
                if wrong:
                    errors.append(f"mutant {name} ({text}): {case}: {wrong}")
                else:
                    killed.setdefault(case, []).append(name)
                if args.verbose:
                    print(f"{'lives' if wrong else 'killed':10} {case:24} {name}")
    for case in cases:
        if case not in killed and case not in WITHOUT:
            errors.append(f"{case}: no mutant is killed by it")
    errors += [f"{case}: WITHOUT has it, and a mutant is killed by it" for case in WITHOUT if case in killed]
    print(*errors, sep="\n")
    print(f"{len(cases)} cases, {len({m for k in killed.values() for m in k})} of {len(mutants)} mutants killed, "
          f"{len(cases) - len(killed)} cases without one" + (f", {len(left_out)} left out: no {RAW}" if left_out else ""))
    return 1 if errors or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
