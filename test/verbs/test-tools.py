#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The rocemu program as a user meets it: exit codes, messages, what it hands to the program it runs.

usage: test-tools.py ROCEMU [PATTERN]...

Runs in a network namespace of its own, where there is lo and, when iproute2 is there, a veth pair.
"""

import fnmatch
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))

import commands  # noqa: E402 # pylint: disable=wrong-import-position
import netns  # noqa: E402 # pylint: disable=wrong-import-position

ROCEMU = os.path.abspath(sys.argv[1])


class Result(commands.Result):
    def __init__(self, *args, env=None):
        super().__init__(ROCEMU, *args, env=env)


def shell(script, *options, env=None):
    return Result("run", *options, "--", "sh", "-c", script, env=env)


# ---- rocemu ----


def rocemu__no_or_unknown_command__usage_and_2():
    Result().expect(2, "usage: rocemu")
    Result("frobnicate").expect(2, '"frobnicate"').one_line()


def rocemu__help_and_version__0():
    for args in (["--help"], ["run", "--help"], ["devices", "--help"], ["decode", "--help"], ["agent", "--help"]):
        assert "usage:" in Result(*args).expect(0).out
    assert Result("--version").expect(0).out.startswith("rocemu ")


def rocemu__unknown_option__one_line_and_2():
    for command in ("run", "devices", "decode"):
        Result(command, "--frob").expect(2, "rocemu %s" % command, "--frob").one_line()


# ---- run ----


def run__command_exits__its_code():
    for code in (0, 1, 2, 77, 255):
        shell("exit %d" % code).expect(code)


def run__command_killed__same_signal():
    for sig in (signal.SIGTERM, signal.SIGKILL):
        shell("kill -%d $$" % sig).expect(-sig)


def run__no_command__2():
    Result("run").expect(2, "no command").one_line()
    Result("run", "--device", "lo", "--").expect(2, "no command").one_line()


def run__command_not_found__127():
    Result("run", "--", "rocemu-no-such-program").expect(127, "rocemu-no-such-program").one_line()


def run__command_not_executable__126():
    with tempfile.NamedTemporaryFile() as f:
        Result("run", "--", f.name).expect(126, f.name).one_line()


def run__options_of_the_command__not_taken():
    assert Result("run", "sh", "-c", "echo $1", "sh", "--help").expect(0).out == "--help\n"


def run__bad_device__2_and_what_there_is():
    Result("run", "--device", "nosuch0", "--", "true").expect(2, "nosuch0", "lo (127.0.0.1").one_line()
    Result("run", "--device", "", "--", "true").expect(2, "--device").one_line()
    Result("run", "--device", "lo,", "--", "true").expect(2, "--device").one_line()


def run__bad_impair__2_and_what_was_expected():
    r = Result("run", "--impair", "loss=101%", "--", "true").expect(2, "loss=101%", "expected")
    assert r.err.splitlines()[1:] == ["  loss=101%", "  ^~~~~~~~~"], r.err
    Result("run", "--impair", "los=1%", "--", "true").expect(2, "los", "one of the keys loss,")
    r = Result("run", "--impair", "dup; drop nht=3", "--", "true").expect(2, "line 1, column 11", "nht=3", "nth=")
    assert r.err.splitlines()[1:] == ["  dup; drop nht=3", "            ^~~~~"], r.err
    Result("run", "--impair", "queue=64k", "--", "true").expect(2, "queue without rate").one_line()
    Result("run", "--impair", "@/nonexistent", "--", "true").expect(2, "/nonexistent", "No such file").one_line()
    with tempfile.NamedTemporaryFile("w") as f:
        f.write("# rules\ndrop nth=3\n dup every=0\n")
        f.flush()
        r = Result("run", "--impair-file", f.name, "--", "true").expect(2, f.name + ": line 3, column 6", "every=0")
        assert r.err.splitlines()[1:] == ["   dup every=0", "       ^~~~~~~"], r.err
    Result("run", "--impair-log", "/nonexistent/x", "--", "true").expect(2, "--impair-log", "/nonexistent").one_line()


def run__bad_time_scale__2_and_what_was_expected():
    for bad in ("0", "fast", "-1", "1e3", "2000000", "0.00001"):
        Result("run", "--time-scale", bad, "--", "true").expect(2, "--time-scale", f'"{bad}"', "0.0001 to 1000000").one_line()
    r = shell("ibv_rc_pingpong -g 0", env={"ROCEMU_TIME_SCALE": "fast"})
    assert r.code and "ROCEMU_TIME_SCALE" in r.err and '"fast"' in r.err, r.err


def run__like__limits_and_what_is_not_emulated():
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
        f.write("name small\nmax_sge 4 | x\nmax_qp_wr 100\nmax_qp_rd_atom 2\nmax_inline_data 64\npartial_write begun\nhalf gap\n")
        f.flush()
        r = shell("ibv_devinfo -v", "--like", f.name).expect(0, "not emulated: 'partial_write', 'half'")
        for name, value in ("max_sge", 4), ("max_qp_wr", 100), ("max_qp_rd_atom", 2), ("max_qp_init_rd_atom", 2):
            assert re.search(rf"^\s*{name}:\s+{value}$", r.out, re.M), (name, r.out)
        r = shell("ibv_rc_pingpong -g 0 -r 101", "--log", "why", "--like", f.name)
        assert r.code and "max_recv_wr 101" in r.err and "at most 100, 100, 4, 4 and 64" in r.err, r.err
        assert "Couldn't create QP" in r.err, r.err
    assert shell('echo "$ROCEMU_LIKE"', "--like", "rxe-6.1").expect(0).out.startswith("recovery goes_back\n")


def run__bad_like__2_and_what_was_expected():
    for text, why in (("recovery maybe", "expected keeps or goes_back"), ("nak_delay 7", "expected a time"), ("a", "line 1"),
                      ("status tried", "measured or published"), ("a 1\n" * 64, "more than 63 traits")):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
            f.write(text)
            f.flush()
            Result("run", "--like", f.name, "--", "true").expect(2, "--like", why).one_line()
    Result("run", "--like", "no-such-nic", "--", "true").expect(2, "--like no-such-nic: no such file").one_line()
    r = shell("ibv_devinfo", env={"ROCEMU_LIKE": "max_sge many"})
    assert r.code and "ROCEMU_LIKE: max_sge many" in r.err, r.err


def run__bad_lanes__2_and_what_was_expected():
    for bad in ("0", "65", "two", "", "1x", "4294967297"):
        Result("run", "--lanes", bad, "--", "true").expect(2, "--lanes", f'"{bad}"', "1 to 64").one_line()
    assert shell("echo $ROCEMU_LANES", "--lanes", "3").expect(0).out == "3\n"
    r = shell("ibv_rc_pingpong -g 0", env={"ROCEMU_LANES": "fast"})
    assert r.code and "ROCEMU_LANES=fast" in r.err, r.err


def run__pcap_cannot_be_written__2_and_the_path():
    Result("run", "--pcap", "/proc/nonexistent/x.pcap", "--", "true").expect(2, "/nonexistent/x.pcap").one_line()
    Result("run", "--pcap", "/tmp", "--", "true").expect(2, "/tmp", "directory").one_line()
    Result("run", "--pcap", "", "--", "true").expect(2, "--pcap").one_line()


def run__options__in_the_environment():
    r = shell(
        'echo "$ROCEMU_DEVICES|$ROCEMU_PCAP|$ROCEMU_IMPAIR|$ROCEMU_TIME_SCALE"',
        "--device", "a=lo", "--device", "127.0.0.2", "--pcap", "/tmp/%p.pcap", "--impair", "loss=1%",
        "--time-scale", "0.5",
    ).expect(0)
    # The seed is chosen for all that the command starts.
    assert re.fullmatch(r"a=lo,127\.0\.0\.2\|/tmp/%p\.pcap\|loss=1%,seed=\d+\|0\.5\n", r.out), r.out
    with tempfile.NamedTemporaryFile("w") as f:
        f.write("drop nth=3 # why\ndup every=2")
        f.flush()
        r = shell(
            'echo "$ROCEMU_IMPAIR|$ROCEMU_IMPAIR_LOG"',
            "--impair", "loss=1%", "--impair", "@" + f.name, "--impair", "seed=7;mark", "--impair-log", "x.log",
        ).expect(0)
        log = os.path.join(os.getcwd(), "x.log")
        assert r.out == f"loss=1%\ndrop nth=3 # why\ndup every=2\nseed=7;mark\nseed=7|{log}\n", r.out
    r = shell('echo "$ROCEMU_IMPAIR"', "--impair", "fail verb=ibv_reg_mr").expect(0)
    assert re.fullmatch(r"fail verb=ibv_reg_mr\nseed=\d+\n", r.out), r.out
    assert shell('echo "[$ROCEMU_IMPAIR]"', "--impair", "", env={"ROCEMU_IMPAIR": "loss=1%"}).expect(0).out == "[]\n"
    r = shell('cd / && echo "$ROCEMU_PCAP"', "--pcap", "x.pcap").expect(0)
    assert r.out.strip() == os.path.join(os.getcwd(), "x.pcap"), r.out


def run__library_path_set__ours_before_it():
    r = shell('echo "$LD_LIBRARY_PATH"', env={"LD_LIBRARY_PATH": "/some/where"}).expect(0)
    first, last = r.out.strip().split(":")[0], r.out.strip().split(":")[-1]
    assert os.path.exists(os.path.join(first, "libibverbs.so.1")), r.out
    assert last == "/some/where", r.out


def run__ibv_devices__ours_listed():
    if not shutil.which("ibv_devices"):
        return "ibv_devices is not installed"
    assert "myname" in Result("run", "--device", "myname=127.0.0.3", "ibv_devices").expect(0).out
    Result("run", "ibv_devinfo", "-v", env={"ROCEMU_DEVICES": "x=nosuch0"}).expect(255, "nosuch0")
    return None


def run__port_taken_by_another_program__one_line_says_so():
    if not shutil.which("ibv_rc_pingpong"):
        return "ibv_rc_pingpong is not installed"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.77", 4791))
        r = Result("run", "--device", "127.0.0.77", "ibv_rc_pingpong", "-g", "0")
        r.expect(1, "4791", "127.0.0.77")
        assert r.err.count("rocemu: ") == 1, r.err
    return None


# ---- devices ----


def devices__lo_only__127_0_0_1_is_index_0():
    (lo,) = [d for d in json.loads(Result("devices", "--json").expect(0).out) if d["interface"] == "lo"]
    assert lo["name"] == "rocemu_lo" and lo["state"] == "active" and lo["path_mtu"] == 4096, lo
    assert lo["gids"][0] == "127.0.0.1", lo


def devices__text__names_the_gids():
    out = Result("devices", "--device", "x=127.0.0.9").expect(0).out
    assert "127.0.0.9" in out and "\033" not in out, out


def devices__bad_spec__2():
    Result("devices", env={"ROCEMU_DEVICES": "x=nosuch0"}).expect(2, "nosuch0").one_line()
    Result("devices", "extra").expect(2, "extra").one_line()


def devices__veth_pair__without_lo_and_ipv4_first():
    ip = shutil.which("ip")
    if not ip:
        return "iproute2 is not installed"
    steps = (
        "link add vt0 type veth peer name vt1", "addr add fd77::5/64 dev vt0 nodad", "addr add 10.77.1.1/24 dev vt0",
        "addr add 10.77.1.2/24 dev vt0", "link set vt0 mtu 9000", "link set vt1 mtu 9000", "link set vt0 up",
        "link set vt1 up",
    )
    for step in steps:
        if subprocess.run([ip, *step.split()], capture_output=True).returncode:
            return "no veth interfaces here"
    # The kernel sees the carrier a moment later.
    for _ in range(2000):
        if "state UP" in subprocess.run([ip, "link", "show", "vt0"], capture_output=True, text=True, check=True).stdout:
            break
        time.sleep(0.01)
    devs = json.loads(Result("devices", "--json").expect(0).out)
    subprocess.run([ip, "link", "del", "vt0"], check=True)
    assert [d["interface"] for d in devs if d["interface"] != "vt1"] == ["vt0"], devs
    vt0 = devs[0]
    table = dict(zip(vt0["gid_index"], vt0["gids"]))
    # A link-local address may or may not be past duplicate address detection yet.
    assert table.pop(1, "fe80:").startswith("fe80:"), vt0
    assert table == {0: "10.77.1.1", 3: "10.77.1.1", 5: "10.77.1.2", 7: "fd77::5"}, vt0
    assert vt0["mtu"] == 9000 and vt0["path_mtu"] == 4096, vt0
    return None


# ---- decode ----


def decode__no_file_or_two__2():
    Result("decode").expect(2, "one capture file").one_line()
    Result("decode", "a", "b").expect(2).one_line()
    Result("decode", "--limit", "x", "a").expect(2, "--limit").one_line()
    Result("decode", "--limit", "-1", "a").expect(2, "--limit").one_line()


def decode__unreadable_or_no_capture__1_and_the_name():
    Result("decode", "/nonexistent.pcap").expect(1, "/nonexistent.pcap").one_line()
    with tempfile.NamedTemporaryFile() as f:
        f.write(b"this is no capture file at all, it is text")
        f.flush()
        Result("decode", f.name).expect(1, f.name).one_line()


def capture(packets):
    """A raw-IP pcap file; each packet: UDP payload from 10.0.0.1 to 10.0.0.2."""
    out = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)
    for udp in packets:
        n = 28 + len(udp)
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, n, 0, 0x4000, 64, 17, 0, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
        frame = ip + struct.pack(">HHHH", 0xC000, 4791, 8 + len(udp), 0) + udp
        out += struct.pack("<IIII", 1, 0, n, n) + frame
    return out


def decode__wrong_icrc_and_truncated__told_and_1():
    bth = bytes.fromhex("0400ffff00000011000001ff")
    with tempfile.NamedTemporaryFile() as f:
        f.write(capture([bth + b"\0\0\0\0", bth[:5]]))
        f.flush()
        r = Result("decode", f.name).expect(1, "2 RoCEv2 packets", "1 malformed", "1 with a wrong ICRC")
        assert "RC SEND_ONLY qpn 0x11" in r.out and "WRONG" in r.out and "truncated" in r.out, r.out
        lines = Result("decode", "--json", "--limit", "1", f.name).expect(1).out.splitlines()
        assert len(lines) == 1 and json.loads(lines[0])["icrc"] is False, lines


# ---- agent ----


def agent__status_without_agent__1():
    Result("agent", "--status", env={"ROCEMU_AGENT_NAME": "tools-test-none"}).expect(1)


def main():
    netns.namespace()
    os.environ.pop("LD_LIBRARY_PATH", None)
    patterns = sys.argv[2:] or ["*"]
    failed = 0
    for name, test in list(globals().items()):
        if "__" not in name or name.startswith("_") or not any(fnmatch.fnmatch(name, p) for p in patterns):
            continue
        try:
            why = test()
            print("%-7s %s%s" % ("skipped" if why else "ok", name, ": " + why if why else ""))
        except (AssertionError, ValueError, subprocess.SubprocessError) as e:
            failed += 1
            print("FAILED  %s: %s" % (name, e))
    sys.exit(1 if failed else 0)


main()
