# SPDX-License-Identifier: BSD-2-Clause
"""The newest rdma-core's tests of pyverbs, from its source tree with a build in PATH/build, for which rocemu has to be built, too
(docs/testing.md, "Another rdma-core"). How they are run and judged is test/prog's, which runs the packaged ones."""
import fnmatch
import os
import re

import cases_rdmacore
from harness import Skip, expect
from program import Program, Run

# The only tests, MODULE.NAME, that may be skipped. docs/verbs.md has the reasons.
ABSENT = (
    'mlx5_*.*', 'efa_srd.*', 'efadv.*', 'cuda_dmabuf.*', 'mr.test_dmabuf_*', 'mr.test_dm_export_dmabuf_fd', 'dmah.*', 'phc_timestamp.*',
    'buf.*_on_bounce_device', 'flow.*', 'rss_traffic.*', 'qp.*raw*', 'tag_matching.*', 'device.test_import_dm', 'shared_pd.*',
    'device.test_query_gid_ex_bad_flow', 'odp.*huge*', 'parent_domain.test_huge_page_traffic',
)


def private_version(library):
    """Of the symbols that rdma-core keeps for itself: a number for each of its releases."""
    try:
        with open(library, 'rb') as f:
            found = re.search(rb'IBVERBS_PRIVATE_(\d+)', f.read())
    except OSError as e:
        raise Skip(f'{library} is not there: build it') from e
    return found.group(1).decode() if found else 'none'


def pyverbs(world):
    tree = os.path.join(world.source, 'build')
    theirs = private_version(os.path.join(tree, 'lib', 'libibverbs.so.1'))
    ours = private_version(os.path.join(world.config.build, 'src', 'verbs', 'libibverbs.so.1'))
    if theirs != ours:
        raise Skip(f'{world.config.build} is built for an rdma-core of private version {ours}, not {theirs}: '
                   f'meson setup --pkg-config-path {tree}/lib/pkgconfig')
    outcome, p = cases_rdmacore.run_tests(world.config, world.client, os.path.join(world.source, 'tests', 'run_tests.py'), env={
        'PYTHONPATH': os.path.join(tree, 'python'), 'PATH': f'{os.path.join(tree, "bin")}:{os.environ["PATH"]}'})
    skipped = outcome.tests('skipped')
    beside = ['.'.join(test) for test in skipped if not any(fnmatch.fnmatchcase('.'.join(test), pattern) for pattern in ABSENT)]
    expect(len(skipped) == outcome.skipped, f'{outcome.skipped} were skipped, {len(skipped)} are named', p)
    expect(not beside, f'skipped beside what is known: {", ".join(beside)}', p)
    passed = outcome.tests('ok')
    for module, least in cases_rdmacore.MODULES.items():
        count = sum(name == module for name, _ in passed)
        expect(count >= (least or 0), f'only {count} tests of {module} passed, not {least}', p)
    return outcome.note()


PROGRAMS = [Program('rdma-core', [Run('from source: its pyverbs tests', pyverbs, needs='a rocemu built for it (`--pkg-config-path`)')],
                    source='rdma-core')]
