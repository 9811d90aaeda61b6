#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The RPM packages: built by rpmbuild from what is committed, on whatever distribution this is (so
# without the dependencies that packaging/rocemu.spec names as Fedora does), and looked at. --help
# says how.
usage="[--keep DIR]

Builds the packages of HEAD by packaging/rocemu.spec, and compares their files, what they provide
and what they require with what is expected. Takes a minute or two.

  --keep DIR      leave the packages in DIR"
# shellcheck source=test/install/common.sh
. "$(dirname "$0")/common.sh"
keep=""
options "keep=" "$@"
command -v rpmbuild >/dev/null || die 77 "skipped: rpmbuild is not installed"
make_work

spec=$top/packaging/rocemu.spec
rpms=$work/RPMS
version=$(rpmspec -q --srpm --queryformat '%{version}' "$spec")
grep -qx "  version : '$version'," "$top/meson.build" || die 1 "$spec has version $version, and meson.build another one"
# The spec file alone: what rpmlint says of packages is each distribution's policy, which comes with its own rpmlint.
if command -v rpmlint >/dev/null; then
	quietly rpmlint --strict -c "$top/packaging/rpmlint.toml" "$spec"
fi

# build OPTION...: the packages of HEAD, in the directory $rpms.
build() {
	# Macros of Fedora's package systemd-rpm-macros.
	quietly rpmbuild -bb --nodeps --define "_topdir $work" --define "_unitdir /usr/lib/systemd/system" \
		--define "_sysusersdir /usr/lib/sysusers.d" --define "_tmpfilesdir /usr/lib/tmpfiles.d" \
		"$@" "$spec"
	find "$rpms" -mindepth 2 -name '*.rpm' -exec mv {} "$rpms" \;
}

# The package's libibverbs.so.1.
library() {
	rpm2cpio "$rpms/rocemu-$version"-*.rpm | cpio -i --quiet --to-stdout '*/rocemu/libibverbs.so.1'
}

say "building, trained"
mkdir "$work/SOURCES"
git -C "$top" archive --prefix="rocemu-$version/" HEAD | xz -0 >"$work/SOURCES/rocemu-$version.tar.xz"
build --with pgo
library >"$work/trained.so"
say "building"
build
! library | cmp - "$work/trained.so" >/dev/null || die 1 "--with pgo does not change the library"
! grep __gcov_ "$work/trained.so" >/dev/null || die 1 "the trained library still counts"

# query NAME OPTION: of that package.
query() {
	rpm -qp --nosignature "$rpms/$1-$version"-*.rpm "$2"
}

libdir=$(rpm -E '%{_libdir}')
say "files"
# But for what distributions do differently: whether pages are compressed, and the name of the licence's directory.
files() {
	query "$1" --list | grep -v '/\.build-id' | sed "s|\.[gx]z\$||; s|licenses/$1-$version|licenses/$1|" | sort
}
sort >"$work/expected" <<END
/usr/bin/rocemu
$libdir/rocemu
$libdir/rocemu/libibverbs.so
$libdir/rocemu/libibverbs.so.1
$libdir/rocemu/librdmacm.so
$libdir/rocemu/librdmacm.so.1
$libdir/rocemu/librocemu-audit.so
$libdir/rocemu/librocemu-paths.so
$libdir/rocemu/rocemu-agent
$libdir/rocemu/rocemu-parity
$libdir/rocemu/rocemu.supp
/usr/lib/systemd/system/rocemu.service
/usr/lib/systemd/system/rocemu.socket
/usr/lib/sysusers.d/rocemu.conf
/usr/lib/tmpfiles.d/rocemu.conf
/usr/share/bash-completion/completions/rocemu
/usr/share/fish/vendor_completions.d/rocemu.fish
/usr/share/zsh/site-functions/_rocemu
/usr/share/licenses/rocemu
/usr/share/licenses/rocemu/LICENSE
$(cd "$top/man" && ls -1 *.1 | sed 's|.*|/usr/share/man/man1/&|')
END
diff -u "$work/expected" <(files rocemu) >&2 || die 1 "rocemu has other files than expected"
for file in librocemu.so.0 "librocemu.so.$version"; do
	query librocemu --list | grep -x "$libdir/$file" >/dev/null || die 1 "librocemu has no $file"
done
for file in include/rocemu/wire.h "${libdir#/usr/}/librocemu.so" "${libdir#/usr/}/librocemu.a" \
	"${libdir#/usr/}/pkgconfig/rocemu.pc"; do
	query librocemu-devel --list | grep -x "/usr/$file" >/dev/null || die 1 "librocemu-devel has no $file"
done

say "dependencies"
# The drop-ins provide nothing, and need only what the programs beside them need of the system's libraries.
if query rocemu --provides | grep -vE '^rocemu(\(.*\))? = '; then
	die 1 "rocemu provides the above"
fi
if query rocemu --requires | grep -E 'librdmacm|ROCEMU_PRIVATE'; then
	die 1 "rocemu requires the above, which only its own libraries use of each other"
fi
query rocemu --requires | grep '^libibverbs\.so\.1(' >/dev/null || die 1 "rocemu-parity's libibverbs is not required"
query librocemu --provides | grep '^librocemu\.so\.0(' >/dev/null || die 1 "librocemu does not provide its library"
query librocemu-devel --requires | grep '^librocemu.* = ' >/dev/null || die 1 "librocemu-devel does not require librocemu"

say "the installed program"
mkdir "$work/root"
for rpm in "$rpms"/rocemu-"$version"-*.rpm; do
	(cd "$work/root" && rpm2cpio "$rpm" | cpio -id --quiet)
done
"$work/root/usr/bin/rocemu" --version | grep "^rocemu $version" >/dev/null || die 1 "rocemu --version does not say $version"
"$work/root/usr/bin/rocemu" run --device dev0=lo -- true || die 1 "rocemu run does not run"

keep_files "$rpms"/*.rpm
say "all is well: $(find "$rpms" -name '*.rpm' | wc -l) packages"
