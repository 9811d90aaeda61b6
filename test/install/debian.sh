#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The Debian packages: built from what is committed, in two directories, with the same result, and
# trained; clean for lintian; installed, and tried as debian/tests say, by root and by an ordinary
# user. Installs into a copy of this system (an overlay), so that nothing of it stays. --help says
# how.
usage="[--keep DIR] [--once] [--no-install]

Builds the packages of HEAD twice, and once with profile pkg.rocemu.pgo, checks them, installs them
into an overlay of this system, and runs debian/tests there. Needs root for the overlay. Takes some
minutes.

  --keep DIR      leave the packages in DIR
  --once          build once, without the tests of the build
  --no-install    build and check only; needs no root"
# shellcheck source=test/install/common.sh
. "$(dirname "$0")/common.sh"
keep="" once="" no_install=""
options "keep= once no-install" "$@"
# shellcheck source=tools/packages.sh
. "$top/tools/packages.sh"
packages_need build packages || exit 77
[ -n "$no_install" ] || [ "$(id -u)" = 0 ] ||
	die 77 "skipped: the overlay needs root; --no-install only builds and checks"
make_work

# build DIRECTORY OPTIONS [ARGUMENT...]: the packages of HEAD beside it.
build() {
	mkdir -p "$1"
	git -C "$top" archive HEAD | tar xf - -C "$1"
	# The clock of the changelog is what ends up in the packages.
	quietly env -C "$1" DEB_BUILD_OPTIONS="$2" dpkg-buildpackage -b -us -uc "${@:3}"
}

# library DIRECTORY: libibverbs.so.1 of the package in DIRECTORY.
library() {
	dpkg-deb --fsys-tarfile "$1"/rocemu_*.deb | tar xf - --wildcards --to-stdout './usr/lib/*/rocemu/libibverbs.so.1'
}

hashes() {
	(cd "$1" && sha256sum ./*.deb)
}

say "building"
build "$work/one/rocemu" "${once:+nocheck}"
if [ -z "$once" ]; then
	say "building once more, elsewhere"
	build "$work/two/another-directory/rocemu" nocheck
	diff <(hashes "$work/one") <(hashes "$work/two/another-directory") >&2 || die 1 "two builds of one source differ"
	say "building once more, with profile pkg.rocemu.pgo"
	build "$work/trained/rocemu" nocheck -Pnocheck,pkg.rocemu.pgo
	library "$work/trained" >"$work/trained.so"
	! library "$work/one" | cmp - "$work/trained.so" >/dev/null || die 1 "profile pkg.rocemu.pgo does not change the library"
	! grep __gcov_ "$work/trained.so" >/dev/null || die 1 "the trained library still counts"
fi

say "lintian"
# As Debian has it, on Ubuntu too. elf-error: older versions take debugging symbols for programs.
lintian --profile debian --suppress-tags elf-error --fail-on error,warning "$work"/one/*.changes >&2 || die 1 "lintian is not content"

# Who links with a libibverbs.so.1 must come to depend on the distribution's package.
for deb in "$work"/one/rocemu_*.deb; do
	if dpkg-deb --ctrl-tarfile "$deb" | tar tf - | grep shlibs >/dev/null; then
		die 1 "$deb exports its drop-ins to the dependencies of other packages"
	fi
done

# in_overlay COMMAND...: in a copy of this system, in which the packages are installed; no network but lo.
in_overlay() {
	unshare --mount --net --pid --fork --kill-child sh -eu -c '
		mount -t tmpfs none "$1"
		mkdir "$1/upper" "$1/work" "$1/root"
		mount -t overlay none -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
		mount -t proc none "$1/root/proc"
		mount --rbind /dev "$1/root/dev"
		mount --rbind /sys "$1/root/sys"
		ip link set lo up
		mkdir -p "$1/root/run/debs"
		cp "$2"/*.deb "$1/root/run/debs/"
		cp -r "$3" "$1/root/run/tests"
		shift 3
		exec chroot "$root" "$@"
	' sh "$@"
}

if [ -z "$no_install" ]; then
	mkdir "$work/overlay"
	export root="$work/overlay/root"
	for account in root nobody; do
		say "debian/tests as $account"
		quietly in_overlay "$work/overlay" "$work/one" "$top/debian/tests" sh -euc '
			dpkg --force-depends -i /run/debs/rocemu_*.deb /run/debs/librocemu0_*.deb /run/debs/librocemu-dev_*.deb >/dev/null
			for t in first-minute completion library; do
				export AUTOPKGTEST_TMP=$(mktemp -d)
				chown "$1" "$AUTOPKGTEST_TMP"
				setpriv --reuid="$1" --clear-groups env HOME="$AUTOPKGTEST_TMP" "/run/tests/$t"
			done
			! command -v systemd-sysusers >/dev/null || getent passwd rocemu
			dpkg -P rocemu librocemu-dev librocemu0 >/dev/null
			! ls /usr/bin/rocemu /usr/lib/*/rocemu 2>/dev/null' sh "$account"
	done
fi

keep_files "$work"/one/*.deb "$work"/one/*.changes "$work"/one/*.buildinfo
say "all is well: $(cd "$work/one" && ls ./*.deb | wc -l) packages"
