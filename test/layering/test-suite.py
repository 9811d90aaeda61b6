#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Does test/run.sh --quick take what it is to take, and do its last lines have what was flaky?

usage: test-suite.py SOURCE_ROOT BUILD_ROOT
"""
import contextlib
import io
import os
import pathlib
import sys

SKIPPED = 77
ROOT = pathlib.Path(sys.argv[1]).resolve()
BUILD = str(pathlib.Path(sys.argv[2]).resolve())
os.chdir(ROOT)  # where test/run.sh runs it
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "test"))

import suite  # noqa: E402 # pylint: disable=wrong-import-position


def check_last_lines():
    tally = suite.Tally()
    tally.add("pass", "plain/one")
    tally.add_flaky("plain/two", "timeout")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = tally.finish()
    lines = out.getvalue().splitlines()
    assert code == 0 and "1 flaky, failed and then passed alone:" in lines, lines
    assert "  plain/two: the first time: timeout" in lines and lines[-1] == "1 passed, 0 failed, 0 skipped", lines


def main():
    check_last_lines()
    tests = suite.introspect(BUILD, "tests")
    suites = {t["suite"][0].split(":")[-1] for t in tests}
    # meson test takes names without suites: it would run a namesake that is not built yet.
    names = [t["name"] for t in tests]
    assert len(names) == len(set(names)), sorted(n for n in set(names) if names.count(n) > 1)
    if not {"parity", "rsocket", "verify"} <= suites:
        print("this build leaves parts out")
        return SKIPPED
    named = {s for _, more in suite.CONCERNS for s in more}
    assert named <= suites, f"CONCERNS has suites that there are not: {named - suites}"

    found = suite.suites_of(["src/transport/qp.c", "lab/verify/flow.c", "README.md", "test/suite.py"])
    assert found == {"layering", "transport", "sim", "verify", "fuzz"}, found

    first, rest = suite.quick_batches(BUILD, {"wire"})
    quick = {*first[1], *rest[1]}
    left_out = sorted(t["name"] for t in tests if t["name"] not in quick)
    assert left_out == sorted(name.split("/")[1] for name in suite.SLOW), left_out
    assert set(first[1]) == {t["name"] for t in tests if t["suite"][0].endswith(":wire")} - set(left_out), first[1]
    assert "tools/rocemu" in rest[2] and "tools/rocemu" not in first[2], first[2]
    assert "test/prog/verbs-check" in rest[2], rest[2]
    assert not any("shortage" in name for name in first[2] + rest[2]), rest[2]
    print(f"{len(quick)} tests, {len(left_out)} are left out")
    return 0


if __name__ == "__main__":
    sys.exit(main())
