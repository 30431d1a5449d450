#!/bin/sh
# First process of the BMC: loads its modules, brings its interface up, and runs the commands that
# come over HTTP (bmc-run.sh).
export PATH=/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r module; do
  insmod "/modules/$module" || echo "vm: insmod $module failed"
done < /modules/order
ifconfig lo 127.0.0.1 up
for word in $(cat /proc/cmdline); do
  [ "${word%%=*}" = address ] && ifconfig eth0 "${word#*=}" netmask 255.255.255.0 up
done
chmod 755 /www/cgi-bin/run
echo "vm: $(uname -r), $(cut -d' ' -f1 /proc/uptime) s after the start of the kernel"
httpd -p 80 -h /www
while :; do sleep 100; done
