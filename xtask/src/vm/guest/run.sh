# First process of the guest once it has its root: mounts what a running Debian has, runs the script
# of the stage and powers off. Results go to /out.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LC_ALL=C
mount -t tmpfs memory /run
mount -t tmpfs memory /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tracefs tracefs /sys/kernel/tracing
mkdir -p /dev/shm /dev/pts /run/netns
mount -t tmpfs memory /dev/shm
mount -t devpts devpts /dev/pts
ln -sfn /proc/self/fd /dev/fd
version=$(uname -r)
rm -rf "/lib/modules/$version"
mkdir -p /lib/modules
ln -s "$KERNEL/lib/modules/$version" "/lib/modules/$version"
ip link set lo up
hostname guest
for module in $MODULES; do
  modprobe "$module" || echo "vm: modprobe $module failed"
done
echo "vm: $version with $(nproc) CPUs, $(cut -d' ' -f1 /proc/uptime) s after the start of the kernel"
mkdir -p /root/work
cd /root/work || exit
bash "$GUEST/$SCRIPT"
echo "ended $?" >> /out/checks
sync
echo "vm: ended $(cut -d' ' -f1 /proc/uptime) s after the start of the kernel"
echo o > /proc/sysrq-trigger
# The first process of a system must not end.
while :; do sleep 1; done
