#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Make the drop-in's export table from the system library's.

usage: gen-symbols.py READELF SYSTEM_LIBRARY OUT.map OUT.c OUR_ARCHIVE...
       gen-symbols.py READELF SYSTEM_LIBRARY OUT.h
       gen-symbols.py READELF SYSTEM_LIBRARY OUT.map
       gen-symbols.py READELF SYSTEM_LIBRARY OUT.inc

The system's library (libibverbs.so.1, librdmacm.so.1) has the list of required symbol@version; the
archives of rocemu's objects contain those that are implemented. OUT.map is the linker's version
script; OUT.c defines the rest as stubs (macros of verbs/stub.h) that fail the way each function's
convention has it. Nothing is listed twice by hand, so an rdma-core with more symbols, or with
another number in its private node, needs no change here. OUT.h is the table of public symbols that
verbs/real.c looks up in the real library: name, version, and which way the function fails when it
is not there. OUT.map alone is the script of a library that stands for the system's in tests. OUT.inc
has the names of public versions as strings (interpose/audit.c).
"""

import os
import re
import subprocess
import sys

# Functions that return a pointer; all others return an int (an errno or -1, see MINUS_ONE) or nothing.
POINTER = re.compile(
    r"^(ibv_(open|alloc|create|import|reg)_\w+|ibv_get_device_(list|name|guid)|ibv_get_sysfs_path"
    r"|_?verbs_(init_and_alloc_context|open_device)|ibv_qp_to_qp_ex|ibv_\w+_str"
    r"|rdma_(create_event_channel|get_devices|event_str))$"
)
VOID = re.compile(
    r"^(ibv_ack_\w+|ibv_free_\w+|ibv_unimport_\w+|ibv_copy_\w+|verbs_(init_cq|set_ops|uninit_context)"
    r"|rdma_(destroy_(event_channel|qp|srq|ep)|free\w+))$"
)
MINUS_ONE = re.compile(
    r"^(ibv_(read_\w*sysfs_file|get_cq_event|get_async_event|query_(gid|pkey|gid_type)|close_device"
    r"|init_ah_from_wc|get_pkey_index|get_device_index|rereg_mr|\w+_dmabuf_fd)"
    r"|rdma_\w+|r[a-z_]+)$"  # all of librdmacm, rsockets too
)
# A count, or -errno.
NEGATIVE = re.compile(r"^_ibv_query_gid_table$")
# Nothing to fail: 0 is the answer "no".
ZERO = re.compile(r"^ibv_query_qp_data_in_order$")
# Provider libraries and their tools do not use rocemu's objects, but ibv_devinfo calls this one.
PUBLIC_ALL_THE_SAME = "ibv_query_gid_type"
# Symbols that rocemu's two libraries need of each other (verbs/private.h), in a separate node. Both have the node, and no
# other library: interpose/foreign.c looks for it.
OWN = "rocemu_private_"
OWN_VERSION = "ROCEMU_PRIVATE"
# The names in C of functions that are exported by an old version only.
ALIAS = "compat_"
# Calls of providers (libmlx5, libefa) are in a node with the number of their rdma-core's private ABI, and a provider of
# another rdma-core, such as one in a wheel or a conda environment, needs another number. Providers have no work here but
# must load. So the drop-in defines all numbers, and has these calls without a version, which stands for each of them.
PRIVATE = "IBVERBS_PRIVATE_"
PRIVATE_NUMBERS = range(14, 100)
# Those of them that not each rdma-core has, up to version 65. Each number has a function by which providers register.
PROVIDERS_CALL = (
    "ibv_cmd_alloc_dmah ibv_cmd_create_comp_cntr ibv_cmd_create_cq_ex2 ibv_cmd_destroy_comp_cntr ibv_cmd_export_dmabuf_fd "
    "ibv_cmd_free_dmah ibv_cmd_inc_comp_cntr ibv_cmd_inc_err_comp_cntr ibv_cmd_qp_attach_comp_cntr ibv_cmd_query_comp_cntr_caps "
    "ibv_cmd_query_context ibv_cmd_query_device ibv_cmd_query_device_any ibv_cmd_query_device_ex ibv_cmd_query_mr "
    "ibv_cmd_query_port_speed ibv_cmd_read_comp_cntr ibv_cmd_read_err_comp_cntr ibv_cmd_reg_dmabuf_mr ibv_cmd_reg_mr_ex "
    "ibv_cmd_set_comp_cntr ibv_cmd_set_err_comp_cntr ibv_dmabuf_heap_alloc ibv_dmabuf_heap_cc_shared_init "
    "ibv_dmabuf_heap_destroy ibv_dmabuf_heap_free ibv_get_fw_ver ibv_read_ibdev_sysfs_file ibv_wr_opcode_str __verbs_log"
).split() + ["verbs_register_driver_%d" % n for n in PRIVATE_NUMBERS]
# Called by every provider library's constructor, and by their logging: nothing to report.
SILENT = re.compile(r"^(verbs_register_driver_\d+|ibv_register_driver|__verbs_log|__ioctl_final_num_attrs)$")


def readelf(tool, *args):
    return subprocess.run([tool, "-W", *args], check=True, capture_output=True, text=True).stdout


def exported(tool, library):
    """[(name, version, is_default, size if it is data else 0)], in a stable order."""
    table = []
    for line in readelf(tool, "--dyn-syms", library).splitlines():
        f = line.split()
        if len(f) < 8 or f[6] in ("UND", "ABS", "Ndx") or f[4] not in ("GLOBAL", "WEAK") or "@" not in f[7]:
            continue
        name, at, version = f[7].partition("@")
        size = int(f[2], 0) if f[3] == "OBJECT" else 0
        table.append((name, version.lstrip("@"), version.startswith("@"), size))
    return sorted(table)


def defined(tool, archives):
    names = set()
    for line in readelf(tool, "--syms", *archives).splitlines():
        f = line.split()
        if len(f) >= 8 and f[3] in ("FUNC", "OBJECT") and f[4] == "GLOBAL" and f[6] != "UND":
            names.add(f[7])
    return names


def version_key(version):
    return [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", version)]


def with_providers(table):
    """Calls of providers are added, and have no version."""
    if not any(version.startswith(PRIVATE) for _, version, _, _ in table):
        return table
    table = [(name, None if version.startswith(PRIVATE) else version, *rest) for name, version, *rest in table]
    have = {name for name, *_ in table}
    return table + [(name, None, True, 0) for name in sorted(set(PROVIDERS_CALL) - have)]


def write_map(path, table, ours):
    nodes = {}
    for name, version, default, _ in table:
        if version:
            nodes.setdefault(version, []).append(name if default else None)
    order = sorted(nodes, key=version_key)
    # "local: *" hides the old versions of its own node too, so it goes where there are none. It would also hide names
    # without a version: where there are some, the other visible ones are listed.
    hiding = next(v for v in order if None not in nodes[v])
    hidden = ["*"]
    if not all(version for _, version, _, _ in table):
        hidden = [ALIAS + "*", "rocemu_*"] + sorted(n for n in ours - {n for n, *_ in table} if n.startswith("ibv_"))
    own = sorted(n for n in ours if n.startswith(OWN))
    before = ""
    with open(path, "w") as out:
        for version in order:
            out.write("%s {\n" % version)
            names = [n for n in nodes[version] if n]
            if names:
                out.write("\tglobal:\n" + "".join("\t\t%s;\n" % n for n in names))
            if version == hiding:
                out.write("\tlocal:\n" + "".join("\t\t%s;\n" % n for n in hidden))
            out.write("}%s;\n\n" % before)
            before = " " + version
        if hidden != ["*"]:
            out.write("".join("%s%d {\n};\n" % (PRIVATE, n) for n in PRIVATE_NUMBERS))
        if ours:
            names = "\tglobal:\n" + "".join("\t\t%s;\n" % n for n in own) if own else ""
            out.write("%s {\n%s};\n" % (OWN_VERSION, names))


def kind(name):
    for test, macro in (
        (SILENT, "SILENT"),
        (ZERO, "SILENT"),
        (POINTER, "NULL"),
        (VOID, "VOID"),
        (MINUS_ONE, "MINUS_ONE"),
        (NEGATIVE, "NEGATIVE"),
    ):
        if test.match(name):
            return macro
    return "ERRNO"


def write_stubs(path, table, ours):
    with open(path, "w") as out:
        out.write('/* Made by gen-symbols.py. */\n#include "verbs/stub.h"\n\n')
        for name, version, default, size in table:
            if default and name in ours:
                continue
            if not default:
                alias = "%s%s_%s" % (ALIAS, name, re.sub(r"\W", "_", version))
                out.write('STUB_OLD_%s(%s, "%s@%s")\n' % (kind(name), alias, name, version))
            elif size:
                out.write("STUB_DATA(%s, %d)\n" % (name, size))
            else:
                out.write("STUB_%s(%s)\n" % (kind(name), name))


def write_real(path, library, table):
    with open(path, "w") as out:
        out.write("/* Made by gen-symbols.py. */\n")
        out.write('#define REAL_SYSTEM_DIR "%s"\n' % os.path.realpath(os.path.dirname(library)))
        out.write("#define REAL_TABLE(X) \\\n")
        for name, version, default, size in table:
            public = "PRIVATE" not in version or name == PUBLIC_ALL_THE_SAME
            if default and public and not size:
                out.write('\tX(%s, "%s", %s) \\\n' % (name, version, kind(name)))
        out.write("\n")


def write_versions(path, table):
    with open(path, "w") as out:
        for version in sorted({v for _, v, _, _ in table if not v.startswith(PRIVATE)}, key=version_key):
            out.write('"%s",\n' % version)


def main():
    tool, library = sys.argv[1:3]
    table = exported(tool, library)
    if not table:
        sys.exit("%s: no versioned symbols in it" % library)
    if len(sys.argv) == 4:
        out = sys.argv[3]
        if out.endswith(".map"):
            write_map(out, table, set())
        elif out.endswith(".inc"):
            write_versions(out, table)
        else:
            write_real(out, library, table)
        return
    out_map, out_c = sys.argv[3:5]
    ours = defined(tool, sys.argv[5:])
    table = with_providers(table)
    write_map(out_map, table, ours)
    write_stubs(out_c, table, ours)


main()
