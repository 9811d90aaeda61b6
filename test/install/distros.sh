#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The first minute, and the quick tests, on distributions other than the one that this machine runs: makes a minimal
# system of each in a directory, clones the repository's HEAD into it, and runs there what README tells people to run.
# A campaign by hand, no part of test/run.sh: it downloads several hundred megabytes for each. --help says how.
set -u
set -o pipefail
export PATH=/usr/sbin:/sbin:$PATH

systems="debian12 debian13 ubuntu22.04 ubuntu24.04"
more=debian-testing # what comes next: not promised by README
user=tester

usage() {
	cat <<END
usage: test/install/distros.sh [OPTION]... NAME...

NAME is one of: $systems; all (of these); $more.
For each: a minimal system in DIR/NAME (made by mmdebstrap; used again when it is there), the packages that
tools/packages.sh names, then, in namespaces of their own and from a fresh clone each, as root and as an ordinary user:
tools/quickstart.sh and test/run.sh --quick. One line each says what came of it; exit code 1 if anything failed.

Needs root, mmdebstrap, git and the keyring of the distribution's archive (package ubuntu-archive-keyring or
ubuntu-keyring for Ubuntu on Debian, debian-archive-keyring for Debian on Ubuntu).

  --dir DIR            where the systems are kept (default: build-distros in the repository)
  --mirror URL         instead of the distribution's own archive
  --keyring FILE       instead of the installed ones
  --as root|user       only as one of them (default: both)
  --run COMMAND        instead of the quick tests, in the clone: 'test/run.sh', say
  --packages           instead of all this, the Debian packages, as root: test/install/debian.sh --once
  --fresh              make the system anew
  -h, --help           this text
END
}

die() {
	printf 'distros.sh: %s\n' "$*" >&2
	exit 2
}

top=$(cd "$(dirname "$0")/../.." && pwd) || exit 2
dir=$top/build-distros mirror="" keyring="" accounts="root $user" command="test/run.sh --quick" fresh="" names=""
sets="build quickstart quick"
while [ $# -gt 0 ]; do
	case $1 in
	--dir | --mirror | --keyring | --as | --run) [ $# -ge 2 ] || die "$1 needs a value" ;;
	esac
	case $1 in
	--dir) dir=$2; shift ;;
	--mirror) mirror=$2; shift ;;
	--keyring) keyring=$2; shift ;;
	--as)
		case $2 in
		root) accounts=root ;;
		user) accounts=$user ;;
		*) die "--as '$2': root or user" ;;
		esac
		shift ;;
	--run) command=$2 sets="build quickstart test clang world"; shift ;;
	--packages) sets="build packages" ;;
	--fresh) fresh=1 ;;
	-h | --help) usage; exit 0 ;;
	-*) usage >&2; die "unknown option '$1'" ;;
	all) names="$names $systems" ;;
	*)
		case " $systems $more " in
		*" $1 "*) names="$names $1" ;;
		*) die "unknown system '$1' (known: $systems $more)" ;;
		esac ;;
	esac
	shift
done
[ -n "$names" ] || { usage >&2; exit 2; }
[ "$(id -u)" = 0 ] || die "must be root: it makes file systems and namespaces"
for tool in mmdebstrap git unshare chroot ip; do
	command -v "$tool" >/dev/null || die "$tool is not installed"
done
mkdir -p "$dir" || exit 2
dir=$(cd "$dir" && pwd) || exit 2

# Suite and further arguments of mmdebstrap.
describe() {
	case $1 in
	debian12) echo "bookworm main" ;;
	debian13) echo "trixie main" ;;
	debian-testing) echo "testing main" ;;
	ubuntu22.04) echo "jammy main,universe" ;;
	ubuntu24.04) echo "noble main,universe" ;;
	esac
}

# make NAME: DIR/NAME is a minimal system, with all packages.
make_system() {
	local root=$dir/$1 suite components
	[ -z "$fresh" ] || rm -rf --one-file-system "$root"
	read -r suite components <<<"$(describe "$1")"
	if [ ! -e "$root/.made" ]; then
		rm -rf --one-file-system "$root"
		mmdebstrap --quiet --variant=minbase --include=apt,ca-certificates --components="$components" \
			${keyring:+--keyring="$keyring"} "$suite" "$root" ${mirror:+"$mirror"} || return 1
		chroot "$root" useradd --create-home "$user" || return 1
		cp /etc/resolv.conf /etc/hosts "$root/etc/" || return 1
		touch "$root/.made"
	fi
	# With the network of this machine: what runs later has none.
	clone "$1" root || return 1
	inside "$1" root "" '. tools/packages.sh && packages_need '"$sets"
}

home() {
	[ "$1" = root ] && echo /root || echo "/home/$1"
}

# clone NAME ACCOUNT: HEAD, in the account's home.
clone() {
	local to
	to=$dir/$1$(home "$2")/rocemu
	rm -rf --one-file-system "$to"
	git clone --quiet "$top" "$to" && chroot "$dir/$1" chown -R "$2:" "$(home "$2")/rocemu"
}

# inside NAME ACCOUNT UNSHARE-OPTIONS COMMAND: in the account's clone; what is mounted and started goes with the namespaces.
inside() {
	local root=$dir/$1 account=$2
	# shellcheck disable=SC2016,SC2086 # the inner shell's variables; words
	unshare --mount --pid --fork --kill-child $3 sh -c '
		root=$1 account=$2 home=$3 command=$4
		# A root that is a mount, as "ip netns exec" wants it, and no chroot, in which nobody may make a user namespace.
		mount --bind "$root" "$root" && mount -t proc proc "$root/proc" && mount -t sysfs sysfs "$root/sys" &&
			mount --rbind /dev "$root/dev" && mount -t tmpfs tmpfs "$root/run" || exit 1
		ip link set lo up
		cd "$root" && pivot_root . . && umount -l . && cd / || exit 1
		exec /usr/bin/env -i HOME="$home" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
			LANG=C.UTF-8 setpriv --reuid="$account" --regid="$account" --init-groups sh -c "cd \"$home/rocemu\" && $command"
	' sh "$root" "$account" "$(home "$account")" "$4"
}

version() {
	chroot "$dir/$1" dpkg-query -W -f='${Version}' "$2" 2>/dev/null
}

failed=0
# report NAME ACCOUNT STEP COMMAND: runs it, its output in DIR/NAME-ACCOUNT-STEP.log, and says what came of it.
report() {
	local log=$dir/$1-$2-$3.log verdict=ok
	inside "$1" "$2" --net "$4" >"$log" 2>&1 || { verdict="FAILED, see $log"; failed=1; }
	printf '%s, %s, %s: %s' "$1" "$2" "$3" "$verdict"
	grep -E '^[0-9]+ passed, ' "$log" | tail -n 1 | sed 's/^/: /' | tr -d '\n'
	echo
}

for name in $names; do
	printf '== %s\n' "$name"
	if ! make_system "$name" >"$dir/$name-system.log" 2>&1; then
		tail -n 20 "$dir/$name-system.log"
		printf '%s: FAILED to make the system, see %s\n' "$name" "$dir/$name-system.log"
		failed=1
		continue
	fi
	printf '%s: rdma-core %s, perftest %s, gcc %s, clang %s, meson %s\n' "$name" "$(version "$name" libibverbs1)" \
		"$(version "$name" perftest)" "$(version "$name" gcc)" "$(version "$name" clang)" "$(version "$name" meson)"
	if [ "$sets" = "build packages" ]; then
		clone "$name" root || die "git clone failed"
		report "$name" root packages 'test/install/debian.sh --once'
		continue
	fi
	for account in $accounts; do
		clone "$name" "$account" || die "git clone failed"
		report "$name" "$account" quickstart tools/quickstart.sh
		report "$name" "$account" tests "$command"
	done
done
exit "$failed"
