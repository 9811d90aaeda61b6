# SPDX-License-Identifier: BSD-2-Clause
#
# To be sourced: installs what is missing of the packages that building, trying or testing rocemu takes.
# Debian 12 and 13, Ubuntu 22.04 and 24.04 (test/install/distros.sh tries them). Nothing is asked of the network when
# everything is there.
#
#	packages_need build|run|quickstart|quick|test|clang|world|interop|packages|mutants ...
#
# quick: what test/run.sh --quick takes; test: what its other stages take, and each of clang, world and interop more;
# mutants: what test/mutants/mutants.py takes beside build and quick.
# Messages go to stderr: what is installed, and how much that is. Returns 0, or 1 after one message that says what to do.

# Recommended packages are not installed: libc6-dev is only recommended by gcc.
PACKAGES_BUILD="gcc libc6-dev meson ninja-build pkg-config libibverbs-dev librdmacm-dev libev-dev libpcap-dev libisal-dev libncurses-dev zlib1g-dev libzstd-dev python3"
# What an installed rocemu is linked to, where it was built elsewhere; newer releases have other names that provide these.
PACKAGES_RUN="libibverbs1 librdmacm1 libev4 libpcap0.8 libisal2 libncursesw6 libzstd1 zlib1g"
PACKAGES_QUICKSTART="ibverbs-utils perftest"
PACKAGES_QUICK="python3-pytest python3-pytest-xdist ibverbs-utils rdmacm-utils perftest libcmocka-dev tshark tcpdump iperf3 iproute2 ethtool binutils util-linux"
PACKAGES_CLANG="clang"
# Building and trying the packages of Debian and RPM (test/install/debian.sh, rpm.sh).
PACKAGES_PACKAGES="git build-essential debhelper dpkg-dev fakeroot lintian ibverbs-utils rdmacm-utils libcmocka-dev iproute2 perftest rpm cpio"
# Those of the same sets that not every release has under that name: installed where there is one, and not missed.
PACKAGES_QUICK_OPTIONAL="python3-pyverbs python3-yaml ucx-utils qperf libfabric-bin strace"
# Shells whose completion test/cli tries.
PACKAGES_QUICK_OPTIONAL="$PACKAGES_QUICK_OPTIONAL zsh fish bash-completion"
# What the spelling of the tree is checked by (test/docs).
PACKAGES_QUICK_OPTIONAL="$PACKAGES_QUICK_OPTIONAL codespell"
# What test/layering holds the tree's form with: the version that it is formatted by, and no other.
PACKAGES_TEST_OPTIONAL="valgrind fio clang-format-14"
# Programs of another C library, and with file capabilities (test/prog, intercept).
PACKAGES_TEST_OPTIONAL="$PACKAGES_TEST_OPTIONAL musl-tools libcap2-bin"
# What reads /sys/class/infiniband (16 MB). prometheus-node-exporter starts a daemon where systemd runs: there it is
# for who wants it.
PACKAGES_TEST_OPTIONAL="$PACKAGES_TEST_OPTIONAL infiniband-diags"
[ -d /run/systemd/system ] || PACKAGES_TEST_OPTIONAL="$PACKAGES_TEST_OPTIONAL prometheus-node-exporter"
command -v lstopo-no-graphics >/dev/null || PACKAGES_TEST_OPTIONAL="$PACKAGES_TEST_OPTIONAL hwloc-nox"
# For the recipes of Kubernetes and networks (test/recipes), and the engine that they run containers with.
PACKAGES_TEST_OPTIONAL="$PACKAGES_TEST_OPTIONAL nftables bubblewrap dropbear-bin python3-kubernetes"
PACKAGES_TEST_OPTIONAL="$PACKAGES_TEST_OPTIONAL podman runc iptables netavark aardvark-dns"
# clang's sanitizer and fuzzer runtime is a package of its own on Debian and Ubuntu 24.04, part of clang on Ubuntu 22.04.
PACKAGES_CLANG_OPTIONAL="libclang-rt-dev"
# Programs of others that test/world runs. tgt starts a daemon where systemd runs: there it is for who wants it.
PACKAGES_WORLD_OPTIONAL="openmpi-bin netpipe-openmpi python3-mpi4py mpich netpipe-mpich2 dapl2-utils libiscsi-bin"
[ -d /run/systemd/system ] || PACKAGES_WORLD_OPTIONAL="$PACKAGES_WORLD_OPTIONAL tgt"
PACKAGES_INTEROP_OPTIONAL=""
# What reads C for test/mutants/mutants.py: clang's parser for Python, the version that the tree is formatted by.
PACKAGES_MUTANTS="python3-clang-14"
# The guest of test/interop is made of the packages of a Debian host; the browser that test/verify opens pages in
# comes as a package there only (Ubuntu has it as a snap).
if grep -qs '^ID=debian' /etc/os-release; then
	PACKAGES_INTEROP_OPTIONAL="qemu-system-x86 mmdebstrap"
	PACKAGES_TEST_OPTIONAL="$PACKAGES_TEST_OPTIONAL chromium"
fi

packages_say() {
	echo "rocemu: $*" >&2
}

packages_installed() {
	[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Prints those of its arguments that are not installed, each after a space.
packages_missing() {
	for p in "$@"; do
		packages_installed "$p" || printf ' %s' "$p"
	done
}

# Is there a version of it that could be installed?
packages_available() {
	apt-cache policy "$1" 2>/dev/null | grep -q '^  Candidate: [^(]'
}

packages_as_root() {
	if [ "$(id -u)" = 0 ]; then
		env DEBIAN_FRONTEND=noninteractive apt-get "$@" >&2
	else
		sudo env DEBIAN_FRONTEND=noninteractive apt-get "$@" >&2
	fi
}

# Prints why this user cannot install packages. sudo is asked with the same command, which may be all that it permits.
packages_refusal() {
	[ "$(id -u)" != 0 ] || return 0
	if ! command -v sudo >/dev/null; then
		echo "there is neither root nor sudo to install packages"
	elif ! sudo env DEBIAN_FRONTEND=noninteractive apt-get --version >/dev/null; then
		echo "sudo refuses to install packages for user $(id -un) (its message is above)"
	fi
}

packages_update() {
	packages_say "apt-get update"
	packages_as_root update -q && return 0
	packages_say "apt-get update failed; its messages above have the reason: the network, /etc/apt/sources.list, a lock or a full disk"
	return 1
}

# "Need to get 61 MB of archives. After this operation, 254 MB ...": apt's own words. Nothing where it has none.
packages_size() {
	LC_ALL=C apt-get install -o Debug::NoLocking=1 --assume-no --no-install-recommends "$@" 2>/dev/null |
		sed -n -E 's/^(Need to get .*|After this operation, .*) *$/\1/p' | tr '\n' ' '
}

packages_install() {
	packages_say "installing$1"
	# shellcheck disable=SC2086 # a list of words, here and below
	size=$(packages_size $1)
	[ -z "$size" ] || packages_say "$size"
	# shellcheck disable=SC2086
	packages_as_root install -q -y --no-install-recommends $1
}

# Those of its arguments that the package lists have, each after a space.
packages_known() {
	for p in "$@"; do
		packages_available "$p" && printf ' %s' "$p"
	done
	return 0
}

packages_need() {
	want="" optional=""
	for set in "$@"; do
		case $set in
		build) want="$want $PACKAGES_BUILD" ;;
		run) want="$want $PACKAGES_RUN" ;;
		quickstart) want="$want $PACKAGES_QUICKSTART" ;;
		quick) want="$want $PACKAGES_QUICK" optional="$optional $PACKAGES_QUICK_OPTIONAL" ;;
		test) want="$want $PACKAGES_QUICK" optional="$optional $PACKAGES_QUICK_OPTIONAL $PACKAGES_TEST_OPTIONAL" ;;
		clang) want="$want $PACKAGES_CLANG" optional="$optional $PACKAGES_CLANG_OPTIONAL" ;;
		world) optional="$optional $PACKAGES_WORLD_OPTIONAL" ;;
		interop) optional="$optional $PACKAGES_INTEROP_OPTIONAL" ;;
		packages) want="$want $PACKAGES_PACKAGES" ;;
		mutants) want="$want $PACKAGES_MUTANTS" ;;
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
	[ -n "$missing" ] || maybe=$(packages_known $maybe)
	[ -n "$missing$maybe" ] || return 0
	if [ -n "${ROCEMU_NO_INSTALL:-}" ]; then
		packages_say "ROCEMU_NO_INSTALL is set: not installing$missing$maybe"
		return 0
	fi
	refusal=$(packages_refusal)
	if [ -n "$refusal" ] && [ -z "$missing" ]; then
		packages_say "$refusal: going on without$maybe"
		return 0
	elif [ -n "$refusal" ]; then
		packages_say "$refusal; as root: apt-get install$missing"
		return 1
	fi

	# Lists that have not all, or none (a new container), are no lists yet.
	[ "$(packages_known $missing)" = "$missing" ] || packages_update || return 1
	maybe=$(packages_known $maybe)
	[ -n "$missing$maybe" ] || return 0
	packages_install "$missing$maybe" && return 0
	# The package lists may be older than the archive.
	packages_update && packages_install "$missing$maybe" && return 0
	if [ -z "$missing" ]; then
		packages_say "could not install$maybe; going on without"
		return 0
	fi
	packages_say "could not install$missing (the reason is above); install them as root and run this again"
	return 1
}
