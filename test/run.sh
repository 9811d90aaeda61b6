#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Installs what is missing, builds, runs every test. Ends with the line "N passed, N failed, N skipped"; exit code
# 1 when anything failed. What is run, and the options: test/suite.py (test/run.sh --help).
set -u

top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
cd "$top" || exit 1
case " $* " in
*" --help "* | *" -h "*) ;;
*)
	. tools/packages.sh
	packages_need build test || exit 1
	;;
esac
# The distribution's python3 and meson, whatever else is first in PATH.
export PATH=/usr/bin:/bin:/usr/sbin:/sbin:$PATH
exec /usr/bin/python3 test/suite.py "$@"
