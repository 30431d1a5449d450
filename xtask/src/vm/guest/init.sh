#!/bin/sh
# First process of the initramfs: loads the modules that reach the root, mounts the host's root
# read-only below a file system in memory, and starts run.sh there. Variables come from /settings.
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
set -a
. /settings
end() {
  echo "vm: $1"
  poweroff -f
}
while read -r module; do
  insmod "/modules/$module" || echo "vm: insmod $module failed"
done < /modules/order
transport=trans=virtio,version=9p2000.L,msize=524288
mount -t 9p -o "$transport,ro,cache=loose" host /host || end "the host's root cannot be mounted"
mount -t tmpfs -o size=75% memory /memory
mkdir /memory/upper /memory/work
layers=lowerdir=/host,upperdir=/memory/upper,workdir=/memory/work
mount -t overlay -o "$layers" overlay /root || end "the overlay cannot be mounted"
mkdir -p /root/out
mount -t 9p -o "$transport" out /root/out || end "the folder of results cannot be mounted"
for folder in proc sys dev; do
  mount -o move "/$folder" "/root/$folder"
done
exec switch_root /root /bin/bash "$GUEST/run.sh"
