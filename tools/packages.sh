# SPDX-License-Identifier: BSD-2-Clause
#
# To be sourced: installs what is missing of the packages that building, trying or testing rocemu takes.
# Debian 12 and 13, Ubuntu 22.04 and 24.04 (test/install/distros.sh tries them). Nothing is asked of the network when
# everything is there.
#
#	packages_need build|run|quickstart|test|packages ...
#
# Messages go to stderr. Returns 0, or 1 after one message that says what to do.

# Recommended packages are not installed: libc6-dev is only recommended by gcc.
PACKAGES_BUILD="gcc libc6-dev meson ninja-build pkg-config libibverbs-dev librdmacm-dev libev-dev libpcap-dev libisal-dev libncurses-dev zlib1g-dev libzstd-dev python3"
# What an installed rocemu is linked to, where it was built elsewhere; newer releases have other names that provide these.
PACKAGES_RUN="libibverbs1 librdmacm1 libev4 libpcap0.8 libisal2 libncursesw6 libzstd1 zlib1g"
PACKAGES_QUICKSTART="ibverbs-utils perftest"
PACKAGES_TEST="ibverbs-utils rdmacm-utils perftest libcmocka-dev clang tshark tcpdump iperf3 iproute2 ethtool binutils util-linux"
# Building and trying the packages of Debian and RPM (test/install/debian.sh, rpm.sh).
PACKAGES_PACKAGES="git build-essential debhelper dpkg-dev fakeroot lintian ibverbs-utils rdmacm-utils libcmocka-dev iproute2 perftest rpm cpio"
# Those that not every release has under that name: installed where there is one. (clang's sanitizer and
# fuzzer runtime is a package of its own on Debian and Ubuntu 24.04, part of clang on Ubuntu 22.04.)
PACKAGES_TEST_OPTIONAL="libclang-rt-dev python3-pyverbs ucx-utils fio qperf libfabric-bin valgrind strace"
# Programs of another C library, and with file capabilities (test/prog, intercept).
PACKAGES_TEST_OPTIONAL="$PACKAGES_TEST_OPTIONAL musl-tools libcap2-bin"
# What test/layering holds the tree's form with: the version that it is formatted by, and no other.
PACKAGES_TEST_OPTIONAL="$PACKAGES_TEST_OPTIONAL clang-format-14 python3-yaml"
# Shells whose completion test/cli tries.
PACKAGES_TEST_OPTIONAL="$PACKAGES_TEST_OPTIONAL zsh fish bash-completion"
# What reads /sys/class/infiniband (16 MB). prometheus-node-exporter starts a daemon where systemd runs: there it is
# for who wants it.
PACKAGES_TEST_OPTIONAL="$PACKAGES_TEST_OPTIONAL infiniband-diags"
[ -d /run/systemd/system ] || PACKAGES_TEST_OPTIONAL="$PACKAGES_TEST_OPTIONAL prometheus-node-exporter"
command -v lstopo-no-graphics >/dev/null || PACKAGES_TEST_OPTIONAL="$PACKAGES_TEST_OPTIONAL hwloc-nox"
# For the recipes of Kubernetes and networks (test/recipes).
PACKAGES_TEST_OPTIONAL="$PACKAGES_TEST_OPTIONAL nftables bubblewrap dropbear-bin python3-kubernetes"
# Programs of others that test/world runs (75 MB). tgt starts a daemon where systemd runs: there it is for who wants it.
PACKAGES_TEST_OPTIONAL="$PACKAGES_TEST_OPTIONAL openmpi-bin netpipe-openmpi python3-mpi4py mpich netpipe-mpich2 dapl2-utils libiscsi-bin"
[ -d /run/systemd/system ] || PACKAGES_TEST_OPTIONAL="$PACKAGES_TEST_OPTIONAL tgt"
# The engine that test/recipes runs containers with.
PACKAGES_TEST_OPTIONAL="$PACKAGES_TEST_OPTIONAL podman runc iptables netavark aardvark-dns"
# The guest of test/interop is made of the packages of a Debian host; the browser that test/verify opens pages in
# comes as a package there only (Ubuntu has it as a snap).
if grep -qs '^ID=debian' /etc/os-release; then
	PACKAGES_TEST_OPTIONAL="$PACKAGES_TEST_OPTIONAL qemu-system-x86 mmdebstrap chromium"
fi

packages_say() {
	echo "rocemu: $*" >&2
}

packages_installed() {
	[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Prints those of its arguments that are not installed.
packages_missing() {
	for p in "$@"; do
		packages_installed "$p" || printf '%s ' "$p"
	done
}

# Is there a version of it that could be installed?
packages_available() {
	apt-cache policy "$1" 2>/dev/null | grep -q '^  Candidate: [^(]'
}

packages_as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		sudo "$@"
	fi
}

packages_update() {
	packages_say "apt-get update"
	packages_as_root apt-get update -q >&2 || {
		packages_say "apt-get update failed: check the network and /etc/apt/sources.list"
		return 1
	}
}

packages_install() {
	packages_as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@" >&2
}

packages_need() {
	want="" optional=""
	for set in "$@"; do
		case $set in
		build) want="$want $PACKAGES_BUILD" ;;
		run) want="$want $PACKAGES_RUN" ;;
		quickstart) want="$want $PACKAGES_QUICKSTART" ;;
		test) want="$want $PACKAGES_TEST" optional="$PACKAGES_TEST_OPTIONAL" ;;
		packages) want="$want $PACKAGES_PACKAGES" ;;
		*) packages_say "packages_need: unknown set '$set'"; return 1 ;;
		esac
	done

	if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
		packages_say "this is not a Debian or Ubuntu system; install these (names as in Debian 12) and set" \
			"ROCEMU_NO_INSTALL=1:$want"
		[ -n "${ROCEMU_NO_INSTALL:-}" ]
		return
	fi
	# shellcheck disable=SC2086 # lists of words, here and below
	missing=$(packages_missing $want)
	maybe=$(packages_missing $optional)
	[ -n "$missing$maybe" ] || return 0
	if [ -z "$missing" ]; then
		wanted_maybe=""
		for p in $maybe; do
			packages_available "$p" && wanted_maybe="$wanted_maybe $p"
		done
		[ -n "$wanted_maybe" ] || return 0
	fi
	if [ -n "${ROCEMU_NO_INSTALL:-}" ]; then
		packages_say "ROCEMU_NO_INSTALL is set: not installing $missing$maybe"
		return 0
	fi
	if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
		[ -n "$missing" ] || return 0
		packages_say "these packages are missing and there is neither root nor sudo to install them: $missing"
		packages_say "as root: apt-get install $missing"
		return 1
	fi

	for p in $missing; do
		packages_available "$p" || {
			packages_update || return 1
			break
		}
	done
	for p in $maybe; do
		packages_available "$p" && missing="$missing $p"
	done
	[ -n "$missing" ] || return 0
	packages_say "installing $missing"
	packages_install $missing || {
		# The package lists may be older than the archive.
		packages_update && packages_install $missing
	} || {
		packages_say "could not install $missing(see above); install them by hand and run this again"
		return 1
	}
}
