# SPDX-License-Identifier: BSD-2-Clause
"""The table of programs in docs/interop.md, from the results of a run."""
import doctable

PART = 'programs'
HEAD = ('program', 'version', 'what ran', 'lo', 'veth', 'what it needs')


def rows_now(path):
    """{(program, what): [version, cells by place ..., needs]} as they stand in the document."""
    return {(row[0], row[2]): [row[1], *row[3:]] for row in doctable.rows(doctable.read(path, PART)) if len(row) == len(HEAD)}


def cell(job):
    seconds = f'{max(1, round(job.seconds))} s'
    return {'pass': f'ok, {seconds}', 'fail': 'FAIL', 'skip': 'not run'}[job.outcome]


def write(path, jobs, sources, places):
    """Rows of what ran are replaced, those of what did not stay. A run that was skipped is none."""
    rows = rows_now(path)
    for job in jobs:
        key = (job.program.name, job.run.what.replace('|', '/'))
        if job.outcome == 'skip' and key in rows:
            continue
        version = job.program.version(sources.get(job.program.source))
        row = rows.setdefault(key, [version] + ['.'] * len(places) + [''])
        row[0], row[-1] = version, job.program.needs if job.run.needs is None else job.run.needs
        row[1 + places.index(job.place)] = cell(job)
    lines = [f'| {" | ".join(HEAD)} |', '|---' * len(HEAD) + '|']
    lines += [f'| {name} | {row[0]} | {what} | {" | ".join(row[1:])} |' for (name, what), row in
              sorted(rows.items(), key=lambda item: item[0][0].lower())]
    doctable.write(path, PART, '\n'.join(lines))


def differences(path, programs):
    """Rows that the document lacks, and rows of what is no more. A program from a source tree need not have been run."""
    runs = [(p, (p.name, run.what.replace('|', '/'))) for p in programs for run in p.runs]
    have = set(rows_now(path))
    return sorted({row for p, row in runs if not p.source} - have), sorted(have - {row for _, row in runs})
