#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The first minute: installs what is missing, builds into build/, runs two stock RDMA programs (a server and a
# client process each) over loopback with a capture, and shows what they printed and what went over the wire.
set -u
set -o pipefail

usage() {
	cat <<'END'
usage: tools/quickstart.sh [--help]

Installs missing packages (as root or with sudo), builds into build/, runs ibv_rc_pingpong and ib_write_bw
between two processes over loopback, and decodes the beginning of the capture.
ROCEMU_NO_INSTALL=1 leaves the packages alone.
END
}

case ${1:-} in
"") ;;
-h | --help) usage; exit 0 ;;
*) echo "quickstart: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
esac

top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
cd "$top" || exit 1
. tools/packages.sh

build=$top/build
out=$build/quickstart
rocemu=$build/tools/rocemu
dev=quick0
server_pid=""

step() {
	printf '\n== %s\n' "$*"
}

stop() {
	printf 'quickstart: %s\n' "$*" >&2
	exit 1
}

cleanup() {
	if [ -n "$server_pid" ]; then
		kill "$server_pid" 2>/dev/null
		wait "$server_pid" 2>/dev/null
	fi
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# Is a TCP port in LISTEN state (0A)? By /proc, so that no connection is used up by asking.
listening() {
	local hex
	hex=$(printf ':%04X' "$1")
	awk -v port="$hex" '$4 == "0A" && substr($2, length($2) - 4) == port { found = 1 } END { exit !found }' \
		/proc/net/tcp /proc/net/tcp6 2>/dev/null
}

free_port() {
	local p=18600
	while listening "$p"; do p=$((p + 1)); done
	echo "$p"
}

# pair NAME CAPTURE-PREFIX PROGRAM ARGUMENT...: server in the background, client in front.
pair() {
	local name=$1 capture=$2 port tries=0 rc
	local -a run
	shift 2
	port=$(free_port)
	run=("$rocemu" run --device "$dev=lo")
	[ -n "$capture" ] && run+=(--pcap "$capture-%p.pcap")

	"${run[@]}" -- "$@" -p "$port" >"$out/$name-server.txt" 2>&1 &
	server_pid=$!
	until listening "$port"; do
		if ! kill -0 "$server_pid" 2>/dev/null; then
			cat "$out/$name-server.txt" >&2
			server_pid=""
			stop "the $name server ended before it listened (its output is above)"
		fi
		tries=$((tries + 1))
		[ "$tries" -lt 600 ] || stop "the $name server does not listen on port $port after 30 s"
		sleep 0.05
	done
	timeout 60 "${run[@]}" -- "$@" -p "$port" 127.0.0.1 >"$out/$name-client.txt" 2>&1
	rc=$?
	if [ "$rc" != 0 ]; then
		echo "-- server:" >&2
		cat "$out/$name-server.txt" >&2
		echo "-- client:" >&2
		cat "$out/$name-client.txt" >&2
		stop "the $name client failed (exit code $rc; outputs are above)"
	fi
	wait "$server_pid"
	rc=$?
	server_pid=""
	[ "$rc" = 0 ] || {
		cat "$out/$name-server.txt" >&2
		stop "the $name server failed (exit code $rc; its output is above)"
	}
}

step "packages"
packages_need build quickstart || exit 1
echo "all there"

step "build (into build/)"
# The distribution's python3 runs meson whatever else is first in PATH.
quietly() {
	local log rc
	log=$(mktemp) || exit 1
	PATH=/usr/bin:/bin:$PATH "$@" >"$log" 2>&1
	rc=$?
	if [ "$rc" = 0 ]; then
		tail -n 1 "$log"
	else
		tail -n 40 "$log" >&2
	fi
	rm -f "$log"
	return "$rc"
}

if [ ! -f "$build/build.ninja" ]; then
	echo "configuring"
	quietly meson setup "$build" -Dtests=false || stop "meson setup failed (see above)"
fi
echo "compiling (half a minute the first time)"
quietly ninja -C "$build" || stop "the build failed (see above)"

rm -rf "$out"
mkdir -p "$out" || stop "cannot write to $out"

step "ibv_rc_pingpong, server and client, with a capture"
pair rc_pingpong "$out/rc_pingpong" ibv_rc_pingpong -d "$dev" -g 0 -n 100 -c
grep -v '^  ' "$out/rc_pingpong-client.txt"

step "ib_write_bw, with a capture (50 messages of 64 KiB)"
pair write_bw_captured "$out/write_bw" ib_write_bw -d "$dev" -x 0 -F -n 50
grep -A1 '#bytes' "$out/write_bw_captured-client.txt"

step "ib_write_bw at full speed, without (5000 messages of 64 KiB)"
pair write_bw "" ib_write_bw -d "$dev" -x 0 -F -n 5000
grep -A1 '#bytes' "$out/write_bw-client.txt"

step "the first packets of ibv_rc_pingpong"
first=$(ls -S "$out"/rc_pingpong-*.pcap 2>/dev/null | head -n 1)
[ -n "$first" ] || stop "no capture was written in $out"
"$rocemu" decode "$first" | head -n 8

step "done"
echo "captures (Wireshark opens them):"
ls -1 "$out"/*.pcap
cat <<END
your own program:    build/tools/rocemu run --device lo -- PROGRAM ARGUMENTS...
devices:             build/tools/rocemu devices
END
