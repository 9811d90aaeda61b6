# SPDX-License-Identifier: BSD-2-Clause
"""Options of pytest that only the programs of others have."""
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import cases_world  # noqa: E402 # pylint: disable=wrong-import-position
import program  # noqa: E402 # pylint: disable=wrong-import-position
import table  # noqa: E402 # pylint: disable=wrong-import-position


def pytest_addoption(parser):
    group = parser.getgroup('rocemu')
    group.addoption('--source', metavar='NAME=PATH', action='append', default=[], help='a program from its source tree; may be repeated')
    group.addoption('--write-docs', action='store_true', help='write the results into docs/interop.md')


def pytest_configure(config):
    known = {p.source for p in cases_world.programs() if p.source}
    for text in config.option.source:
        name, _, path = text.partition('=')
        if name not in known or not os.path.isdir(path):
            raise pytest.UsageError(f'--source {text}: NAME=PATH is needed, with PATH a directory and NAME one of {", ".join(sorted(known))}')
        program.SOURCES[name] = os.path.abspath(path)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if call.when == 'call':
        item.case.outcome, item.case.seconds = report.outcome, report.duration


def pytest_sessionfinish(session):
    if session.config.option.write_docs:
        table.write([item.case for item in session.items])
