#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The first minute: installs what is missing, builds into build/, runs two stock RDMA programs (a server and a
# client process each) over loopback with a capture, and shows what they printed and what went over the wire.
set -u
set -o pipefail

usage() {
	cat <<'END'
usage: tools/quickstart.sh [--build DIR] [--no-build] [--help]

Installs missing packages (as root or with sudo), builds into build/, runs ibv_rc_pingpong and ib_write_bw
between two processes over loopback, and decodes the beginning of the capture.
ROCEMU_NO_INSTALL=1 leaves the packages alone.

  --build DIR   build into DIR instead, which may be outside a checkout that cannot be written to
  --no-build    run what is built there; installs nothing
END
}

top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
build=$top/build
no_build=""
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) usage; exit 0 ;;
	--no-build) no_build=1 ;;
	--build)
		[ -n "${2:-}" ] || { echo "quickstart: --build needs a directory" >&2; exit 2; }
		case $2 in
		/*) build=$2 ;;
		*) build=$PWD/$2 ;;
		esac
		shift ;;
	*) echo "quickstart: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
	esac
	shift
done
cd "$top" || exit 1
. tools/packages.sh

out=$build/quickstart
rocemu=$build/tools/rocemu
dev=quick0
limit=120 # seconds for a program
server_pid=""

step() {
	printf '\n== %s\n' "$*"
}

stop() {
	printf 'quickstart: %s\n' "$*" >&2
	exit 1
}

# Ends where this user cannot write to a directory, which may not be there yet. WHAT to do otherwise.
need_writable() {
	local dir=$1
	until [ -e "$dir" ]; do dir=$(dirname "$dir"); done
	[ -d "$dir" ] && [ -w "$dir" ] && [ -x "$dir" ] && return
	stop "user $(id -un 2>/dev/null || id -u) cannot write to $dir (of user $(stat -c %U "$dir")): $2"
}

# A failure's likely cause, where that is the machine. 124 is the exit code of timeout.
because() {
	local load cores
	load=$(cut -d ' ' -f 1 /proc/loadavg 2>/dev/null)
	cores=$(nproc)
	if [ "$1" = 124 ]; then
		printf 'did not end within %s s' "$limit"
	else
		printf 'failed (exit code %s; the output is above)' "$1"
	fi
	awk -v load="${load:-0}" -v cores="$cores" 'BEGIN { exit !(load > cores) }' &&
		printf '; the machine is busy, with a load of %s on %s processors: try again when it is less' "$load" "$cores"
	return 0
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
	# Without IPv6 there is no tcp6.
	{ cat /proc/net/tcp; cat /proc/net/tcp6; :; } 2>/dev/null |
		awk -v port="$hex" '$4 == "0A" && substr($2, length($2) - 4) == port { found = 1 } END { exit !found }'
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
		[ "$tries" -lt 2400 ] || stop "the $name server does not listen on port $port: it $(because 124)"
		sleep 0.05
	done
	timeout "$limit" "${run[@]}" -- "$@" -p "$port" 127.0.0.1 >"$out/$name-client.txt" 2>&1
	rc=$?
	if [ "$rc" != 0 ]; then
		echo "-- server:" >&2
		cat "$out/$name-server.txt" >&2
		echo "-- client:" >&2
		cat "$out/$name-client.txt" >&2
		stop "the $name client $(because "$rc")"
	fi
	wait "$server_pid"
	rc=$?
	server_pid=""
	[ "$rc" = 0 ] || {
		cat "$out/$name-server.txt" >&2
		stop "the $name server $(because "$rc")"
	}
}

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

tmp=${TMPDIR:-/tmp}
[ -d "$tmp" ] || stop "$tmp is no directory: set TMPDIR to one that can be written to"
need_writable "$tmp" "set TMPDIR to a directory where that is possible"
need_writable "$out" "run this in a copy of your own, or with --build DIR"

# In a new network namespace it is.
if [ -r /proc/net/fib_trie ] && ! grep -q '127\.0\.0\.1$' /proc/net/fib_trie; then
	stop "the loopback interface is down: ip link set lo up"
fi

if [ -n "$no_build" ]; then
	[ -x "$rocemu" ] || stop "there is no build in $build"
else
	step "packages"
	packages_need build quickstart || exit 1
	echo "all there"

	step "build (into ${build#"$top"/}/)"
	if [ ! -f "$build/build.ninja" ]; then
		echo "configuring"
		quietly meson setup "$build" -Dtests=false || stop "meson setup failed (see above)"
	fi
	echo "compiling (half a minute the first time)"
	quietly ninja -C "$build" || stop "the build failed (see above)"
fi

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
shown=${rocemu#"$top"/}
cat <<END
your own program:    $shown run --device lo -- PROGRAM ARGUMENTS...
devices:             $shown devices
END
