#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Does test/run.sh --quick take what it is to take, do its last lines have what was flaky, and what do cases end as?

usage: test-suite.py SOURCE_ROOT BUILD_ROOT
"""
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile

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
    tally.add_flaky("plain/two", "timeout\nhung", "42 packets")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = tally.finish()
    lines = out.getvalue().splitlines()
    assert code == 0 and "1 flaky, failed and then passed alone:" in lines, lines
    at = lines.index("  plain/two")
    assert lines[at + 1:at + 4] == ["    first: timeout", "    first: hung", "    then: 42 packets"], lines
    assert lines[-1] == "1 passed, 0 failed, 0 skipped", lines


CASES = """
import os, subprocess
from harness import Case, Failure, Skip

def fails(config, lab):
    raise Failure("too few")

def skips(config, lab):
    raise Skip("no such thing")

def leaves(config, lab):
    with open(os.path.join(os.environ["TMPDIR"], "some"), "w") as f:
        subprocess.Popen(["sleep", "12347"], start_new_session=True)

def breaks(config, lab):
    raise ValueError("a mistake")

def cases():
    return [Case(f"t/{name}", function) for name, function in
            (("passes", lambda config, lab: "a note"), ("fails", fails), ("skips", skips), ("leaves", leaves), ("breaks", breaks))]
"""


def check_cases(where):
    """What the rows have, with and without workers."""
    (where / "cases_some.py").write_text(CASES)
    for workers in ("0", "2"):
        argv = ["/usr/bin/python3", "-m", "pytest", "-c", "test/pytest.ini", "-p", "conftest", "-n", workers, "--build", BUILD, "--patience", "1",
                "--json", str(where / "rows"), str(where)]
        p = subprocess.run(argv, env={**os.environ, "PYTHONPATH": str(ROOT / "test")}, capture_output=True, text=True, check=False)
        assert p.returncode == 1, (p.returncode, p.stdout, p.stderr)
        rows = {row["name"]: row for row in json.loads((where / "rows").read_text())}
        ends = {name: row["outcome"] for name, row in rows.items()}
        assert ends == {"t/passes": "pass", "t/fails": "fail", "t/skips": "skip", "t/leaves": "fail", "t/breaks": "fail"}, p.stdout
        assert [rows[f"t/{name}"]["text"] for name in ("passes", "fails", "skips")] == ["a note", "too few", "no such thing"], rows
        assert "sleep 12347" in rows["t/leaves"]["text"] and "/some" in rows["t/leaves"]["text"], rows["t/leaves"]
        assert "ValueError: a mistake" in rows["t/breaks"]["text"], rows["t/breaks"]


def main():
    check_last_lines()
    with tempfile.TemporaryDirectory() as where:
        check_cases(pathlib.Path(where))
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
    assert "test/scenario/scenario-verbs" in rest[2], rest[2]
    assert not any("shortage" in name for name in first[2] + rest[2]), rest[2]
    print(f"{len(quick)} tests, {len(left_out)} are left out")
    return 0


if __name__ == "__main__":
    sys.exit(main())
