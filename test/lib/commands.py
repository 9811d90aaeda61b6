# SPDX-License-Identifier: BSD-2-Clause
"""A command that was run to its end: its exit code and what it printed."""
import os
import subprocess


class Result:
    def __init__(self, *command, env=None, timeout=60):
        p = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False,
                           env={**os.environ, **(env or {})})
        self.code, self.out, self.err = p.returncode, p.stdout, p.stderr

    def expect(self, code, *err_parts):
        assert self.code == code, "exit code %d, expected %d; %s%s" % (self.code, code, self.out[-3000:], self.err)
        for part in err_parts:
            assert part in self.err, "stderr has no %r: %s" % (part, self.err)
        return self

    def one_line(self):
        assert self.err.count("\n") == 1, "not one line: %r" % self.err
        return self
