#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares Wireshark's decoding of rocemu's CM messages with the values in cm-vectors.c.

usage: test-cm-tshark.py CM_SAMPLE

Skipped (exit code 77) without tshark. Wireshark 4.0 takes apart REQ, REP, RTU, REJ, DREQ and DREP. A REQ's flow
labels and packet rates are left out: it reads them from the right byte, but too few of them (the kernel's flow label
0xbc5b5 shows as 0xbc5).
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

TID = 0xE1E2E3E4E5E6E7E8
IDS = {"localcommid": 0x01020304, "remotecommid": 0x05060708}


def gid(first):
    return ":".join(f"{first + i:02x}{first + i + 1:02x}" for i in range(0, 16, 2))


def dump(values):
    return ":".join(f"{v & 0xff:02x}" for v in values)


def private(first):
    """Private data from a byte of the MAD's data to its end: each byte is its offset."""
    return dump(range(first, 232))


# Frame number: attribute ID, field prefix, fields.
EXPECTED = {
    1: (0x10, "infiniband.cm.req", {
        "": 0x01020304, "serviceid": 0x1112131415161718, "localcaguid": 0x2122232425262728, "localqkey": 0x31323334,
        "localqpn": 0x414243, "responderres": 0x44, "localeecn": 0x515253, "initdepth": 0x54, "remoteeecn": 0x616263,
        "remoteresptout": 0x15, "transpsvctype": 2, "e2eflowctrl": 1, "startpsn": 0x717273, "localresptout": 0x0B,
        "retrcount": 6, "pkey": 0x8182, "pppmtu": 5, "rdcexist": 1, "rnrretrcount": 3, "maxcmretr": 12, "srq": 0,
        "ext_transport": 5, "prim_locallid": 0x9192, "prim_remotelid": 0x9394, "prim_localgid": gid(0xA0),
        "prim_remotegid": gid(0xB0), "prim_tfcclass": 0xD1, "prim_hoplim": 0xD2, "prim_sl": 14, "prim_subnetlocal": 1,
        "prim_localacktout": 0x13, "alt_locallid": 0x1A1B, "alt_remotelid": 0x1C1D,
        "alt_localgid": dump(range(0x40, 0x50)), "alt_remotegid": dump(range(0x50, 0x60)), "alt_tfcclass": 0x3A,
        "alt_hoplim": 0x3B, "alt_sl": 7, "alt_subnetlocal": 0, "alt_localacktout": 0x0D,
        "private": private(140),
    }),
    3: (0x12, "infiniband.cm.rej", {**IDS, "msgrej": 1, "rejinfolen": 0x2A, "reason": 0x1C1D,
                                    "ari": dump(~i for i in range(72)), "private": private(84)}),
    4: (0x13, "infiniband.cm.rep", {
        "": 0x01020304, "remotecommid": 0x05060708, "localqkey": 0x11121314, "localqpn": 0x212223,
        "localeecn": 0x313233, "startpsn": 0x414243, "respres": 0x51, "initdepth": 0x52, "tgtackdelay": 0x1A,
        "failoveracc": 2, "e2eflowctrl": 0, "rnrretrcount": 5, "srq": 1,
        "localcaguid": 0x6162636465666768, "private": private(36),
    }),
    5: (0x14, "infiniband.cm.rtu", {**IDS, "private": private(8)}),
    6: (0x15, "infiniband.cm.dreq", {**IDS, "private": private(12)}),
    7: (0x16, "infiniband.cm.drsp", {**IDS, "private": private(8)}),
}


def flatten(node, into):
    for key, value in node.items():
        if isinstance(value, dict):
            flatten(value, into)
        else:
            into[key] = value
    return into


def same(have, want):
    if have is None:
        return False
    return have == want if isinstance(want, str) else int(have, 0) == want


def compare(number, fields):
    attribute, prefix, want = EXPECTED[number]
    want = {f"{prefix}.{name}".rstrip("."): value for name, value in want.items()}
    want["infiniband.mad.attributeid"] = attribute
    want["infiniband.mad.transactionid"] = TID
    if attribute == 0x15:
        want["infiniband.cm.req.remoteqpneecn"] = 0x212223 # of a DREQ, despite the name
    for name, value in want.items():
        if not same(fields.get(name), value):
            yield f"frame {number}: {name} is {fields.get(name)}, not {value if isinstance(value, str) else hex(value)}"


def main():
    if shutil.which("tshark") is None:
        print("no tshark")
        return 77
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "cm.pcap")
        subprocess.run([sys.argv[1], path], check=True)
        out = subprocess.run(["tshark", "-r", path, "-T", "json", "--no-duplicate-keys"], check=True,
                             capture_output=True, text=True).stdout
    errors = []
    frames = json.loads(out)
    for frame in frames:
        fields = flatten(frame["_source"]["layers"], {})
        number = int(fields["frame.number"])
        if any("malformed" in key for key in fields):
            errors.append(f"frame {number}: malformed")
        if number in EXPECTED:
            errors += compare(number, fields)
    for text in errors:
        print(text, file=sys.stderr)
    print(f"{len(frames)} messages, {len(errors)} differences")
    return 1 if errors or len(frames) != 11 else 0


if __name__ == "__main__":
    sys.exit(main())
