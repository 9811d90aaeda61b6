#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# systemd's units under systemd: it is started in namespaces, on a copy of this system (an overlay)
# in which the build is installed, and an ordinary user's programs have it start the agent. --help
# says how.
usage="[--build DIR]

Runs rocemu.socket and rocemu.service of the build under this system's systemd. Needs root, and
ibverbs-utils and rdmacm-utils.

  --build DIR     build directory (default: build)"
# shellcheck source=test/install/common.sh
. "$(dirname "$0")/common.sh"
build=$top/build
options "build=" "$@"
[ "$(id -u)" = 0 ] || die 77 "skipped: needs root"
[ -x /lib/systemd/systemd ] || die 77 "skipped: systemd is not installed"
for tool in ibv_rc_pingpong rping; do
	command -v $tool >/dev/null || die 77 "skipped: $tool is not installed"
done
[ -e "$build/build.ninja" ] || die 77 "skipped: there is no build in $build"

make_work
groups=""
# shellcheck disable=SC2086 # a list of words
trap '[ -z "$groups" ] || find $groups -depth -type d -exec rmdir {} +; rm -rf "$work"' EXIT
# systemd's own part of each hierarchy that it uses to know its processes.
for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
	[ -w "$hierarchy/cgroup.procs" ] || continue
	mkdir "$hierarchy/rocemu-service-$$"
	groups="$groups $hierarchy/rocemu-service-$$"
done

mkdir "$work/root" "$work/overlay" "$work/out"
# What is tried; systemd runs it as root.
cat >"$work/out/probe" <<'END'
set -eux
: >/run/out/begun
export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp
id rocemu
[ "$(systemctl is-active rocemu.socket)" = active ]
[ "$(systemctl is-active rocemu.service)" = inactive ]
AUTOPKGTEST_TMP=$(mktemp -d)
export AUTOPKGTEST_TMP
chown nobody "$AUTOPKGTEST_TMP"
setpriv --reuid=nobody --clear-groups sh /run/out/first-minute
[ "$(systemctl is-active rocemu.service)" = active ]
rocemu agent --status --system
pid=$(systemctl show --property MainPID --value rocemu.service)
[ "$(ps -o user= -p "$pid")" = rocemu ]
# CAP_NET_ADMIN, which is number 12.
grep -x 'CapEff:[[:space:]]0000000000001000' "/proc/$pid/status"
systemctl kill --signal KILL rocemu.service
setpriv --reuid=nobody --clear-groups sh /run/out/first-minute
rocemu agent --status --system
systemctl stop rocemu.socket rocemu.service
! rocemu agent --status --system
: >/run/out/well
END
cp "$top/debian/tests/first-minute" "$work/out/"

# shellcheck disable=SC2016 # the inner shell's variables
inside='
root=$1 overlay=$2 out=$3 build=$4
mount --make-rprivate /
mount -t tmpfs none "$overlay"
mkdir "$overlay/upper" "$overlay/work"
mount -t overlay none -o "lowerdir=/,upperdir=$overlay/upper,workdir=$overlay/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
if [ -e /sys/fs/cgroup/cgroup.procs ]; then
	mount -t cgroup2 cgroup "$root/sys/fs/cgroup"
else
	mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
	mkdir "$root/sys/fs/cgroup/systemd" "$root/sys/fs/cgroup/unified"
	mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
	mount -t cgroup2 cgroup "$root/sys/fs/cgroup/unified"
fi
mount -t tmpfs tmpfs "$root/dev"
(cd "$root/dev" && mkdir pts shm && ln -s pts/ptmx ptmx && mknod -m 666 null c 1 3 && mknod -m 666 zero c 1 5 &&
	mknod -m 666 full c 1 7 && mknod -m 666 random c 1 8 && mknod -m 666 urandom c 1 9 && mknod -m 666 tty c 5 0)
for at in run tmp dev/shm; do
	mount -t tmpfs -o mode=1777 tmpfs "$root/$at"
done
mkdir "$root/run/out"
mount --bind "$out" "$root/run/out"
ip link set lo up
# Of units of this system only what the test names: others have no business here.
rm -rf "$root"/etc/systemd/system/* "$root"/lib/systemd/system/*.wants
DESTDIR=$root meson install -C "$build" --no-rebuild --quiet
chroot "$root" systemd-sysusers
cat >"$root/etc/systemd/system/probe.service" <<UNIT
[Unit]
Wants=rocemu.socket
After=rocemu.socket
SuccessAction=exit
FailureAction=exit
[Service]
Type=oneshot
ExecStart=/bin/sh /run/out/probe
StandardOutput=file:/run/out/log
StandardError=inherit
UNIT
cd "$root"
mkdir host
pivot_root . host
umount -l /host
mount --make-rshared /
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot . /lib/systemd/systemd --unit=probe.service --show-status=0
'
(
	for group in $groups; do
		echo $BASHPID >"$group/cgroup.procs"
	done
	exec timeout 300 unshare --mount --net --pid --uts --ipc --cgroup --fork --kill-child bash -euc "$inside" bash \
		"$work/root" "$work/overlay" "$work/out" "$build"
) >"$work/start.log" 2>&1 </dev/null || true
if [ -e "$work/out/well" ]; then
	say "all is well"
	exit 0
fi
tail -n 40 "$work/start.log" "$work/out/log" >&2 2>/dev/null || true
[ -e "$work/out/begun" ] || die 77 "skipped: systemd does not start in namespaces here"
die 1 "the units do not work"
