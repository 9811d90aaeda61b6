#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Installs what is missing for the chosen stages, builds, runs the tests. Ends with the line "N passed, N failed,
# N skipped"; exit code 1 when anything failed. What is run, and the options: test/suite.py (test/run.sh --help).
set -u

top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
cd "$top" || exit 1
# The distribution's python3 and meson, whatever else is first in PATH.
export PATH=/usr/bin:/bin:/usr/sbin:/sbin:$PATH

# The package sets of tools/packages.sh that these arguments take.
sets() {
	local sets=test stages=""
	while [ $# -gt 0 ]; do
		case $1 in
		--stage) stages="$stages ${2:-}"; shift ;;
		--stage=*) stages="$stages ${1#*=}" ;;
		--sanitize | --sanitize=* | --only | --only=* | --list) stages="$stages plain" ;;
		--quick) sets=quick stages="$stages plain" ;;
		esac
		shift
	done
	for stage in ${stages:-clang world interop}; do
		case $stage in
		clang | world | interop) sets="$sets $stage" ;;
		esac
	done
	echo "$sets"
}

case " $* " in
*" --help "* | *" -h "* | *" --no-build "*) ;;
*)
	. tools/packages.sh
	# shellcheck disable=SC2046 # words
	packages_need build $(sets "$@") || exit 1
	;;
esac
[ -x /usr/bin/python3 ] || { echo "test/run.sh: no /usr/bin/python3 (package python3)" >&2; exit 1; }
exec /usr/bin/python3 test/suite.py "$@"
