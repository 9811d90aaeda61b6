#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests from which libibverbs the drop-in takes real devices, and its message when it cannot: by ibv_devices.

usage: test-real-load.py OUR_LIBRARY FAKE_LIBRARY SYSTEM_LIBRARY ROCEMU
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))

from netns import namespace, skip  # noqa: E402 # pylint: disable=wrong-import-position

OURS, FAKE, SYSTEM, ROCEMU = (os.path.realpath(p) for p in sys.argv[1:])


def ibv_devices(**env):
    """Names of the devices that it lists, and its stderr."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("ROCEMU_")}
    env = {**clean, "LD_LIBRARY_PATH": os.path.dirname(OURS), **env}
    p = subprocess.run(["ibv_devices"], capture_output=True, text=True, timeout=60, env=env)
    assert p.returncode == 0, p.stderr
    return [line.split()[0] for line in p.stdout.splitlines()[2:]], p.stderr


def refused(path, why):
    devices, err = ibv_devices(ROCEMU_REAL_LIBIBVERBS=path)
    assert devices == ["rocemu_lo"], devices
    assert err.count("\n") == 1, "not one line: %r" % err
    assert why in err and path in err and "ROCEMU_REAL=off" in err, err


def fake__named__listed_after_ours():
    devices, err = ibv_devices(ROCEMU_REAL_LIBIBVERBS=FAKE)
    assert devices == ["rocemu_lo", "fakenic0", "fakenic1"] and not err, (devices, err)


def fake__switched_off__not_listed():
    devices, err = ibv_devices(ROCEMU_REAL_LIBIBVERBS=FAKE, ROCEMU_REAL="off")
    assert devices == ["rocemu_lo"] and not err, (devices, err)


def switch__nonsense__said_and_on():
    devices, err = ibv_devices(ROCEMU_REAL_LIBIBVERBS=FAKE, ROCEMU_REAL="maybe")
    assert len(devices) == 3 and "ROCEMU_REAL=maybe: expected on or off" in err, (devices, err)


def system_library__loaded_beside_ours__all_symbols():
    devices, err = ibv_devices(ROCEMU_REAL_LIBIBVERBS=SYSTEM, ROCEMU_LOG="info")
    assert devices[0] == "rocemu_lo", devices
    found, _, all_of = err.rpartition(": ")[2].split()[:3]
    assert int(found) == int(all_of) > 70, err


def system_library__under_rocemu_run__not_replaced_by_ours():
    """Its auditor gives rocemu's library for each file of this name."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("ROCEMU_")}
    p = subprocess.run([ROCEMU, "run", "ibv_devices"], capture_output=True, text=True, timeout=60, check=True,
                       env={**clean, "ROCEMU_REAL_LIBIBVERBS": SYSTEM, "ROCEMU_LOG": "info"})
    found = re.search("real devices by %s: ([0-9]+) of ([0-9]+) symbols" % re.escape(SYSTEM), p.stderr)
    assert "rocemu_lo" in p.stdout and found and found[1] == found[2], p.stderr


def no_such_file__refused():
    refused("/nonexistent/libibverbs.so.1", "cannot open shared object file")


def relative_path__refused():
    refused("libibverbs.so.1", "expected an absolute path")


def another_library__refused():
    # The C library's, wherever it is.
    with open("/proc/self/maps", encoding="utf-8") as maps:
        libc = next(line.split()[-1] for line in maps if re.search(r"/libc[.-][^/]*so[^/]*$", line.rstrip()))
    refused(libc, "this is not a libibverbs")


def our_own__refused():
    refused(OURS, "this is rocemu's own library")


def copy_of_our_own__refused():
    with tempfile.TemporaryDirectory() as d:
        copy = shutil.copy(OURS, os.path.join(d, "libibverbs.so.1"))
        refused(copy, "this is rocemu's own library")


def not_a_library__refused():
    refused(os.path.realpath(__file__), "invalid ELF header")


def nothing_named__no_devices_in_the_kernel__not_loaded():
    """Under rocemu run, whose preloaded library shows emulated devices in /sys/class/infiniband."""
    if os.path.exists("/sys/class/infiniband") and os.listdir("/sys/class/infiniband"):
        return
    clean = {k: v for k, v in os.environ.items() if not k.startswith("ROCEMU_")}
    p = subprocess.run([ROCEMU, "run", "ibv_devices"], capture_output=True, text=True, timeout=60, check=True,
                       env={**clean, "ROCEMU_LOG": "info"})
    assert "rocemu_lo" in p.stdout and "real devices by" not in p.stderr, p.stderr


def rocemu_devices__real_ones__marked():
    clean = {k: v for k, v in os.environ.items() if not k.startswith("ROCEMU_")}
    p = subprocess.run([ROCEMU, "devices", "--json"], capture_output=True, text=True, timeout=60, check=True,
                       env={**clean, "ROCEMU_REAL_LIBIBVERBS": FAKE})
    kinds = [(d["name"], d["kind"], d["port"]) for d in json.loads(p.stdout)]
    assert kinds == [("rocemu_lo", "emulated", 1), ("fakenic0", "real", 1), ("fakenic1", "real", 1)], kinds


def main():
    if not shutil.which("ibv_devices"):
        skip("ibv_devices is not installed (package ibverbs-utils)")
    namespace()
    try:
        ibv_devices()
    except AssertionError as e:
        # A sanitizer's runtime must be the program's own, for instance.
        skip("ibv_devices does not run with this build of the library: %s" % str(e).strip())
    failed = 0
    for name, test in sorted(globals().items()):
        if "__" not in name or not callable(test):
            continue
        try:
            test()
            print("ok   " + name)
        except AssertionError as e:
            failed += 1
            print("FAIL %s: %s" % (name, e))
    sys.exit(1 if failed else 0)


main()
