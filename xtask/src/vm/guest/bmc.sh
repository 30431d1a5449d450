# A management controller (BMC) whose kernel has its own NC-SI stack, on this host: behind the
# controller of the lab file $LAB, or behind QEMU's own responder if that is empty. The BMC replaces
# the lab's host `bmc`: tc passes frames between its tap and the lab's sideband, because a bridge
# drops NC-SI frames (their source is the broadcast address).
[ -n "$LAB$APART" ] || exec env APART=1 unshare --net bash "$0"
. "$GUEST/checks.sh"
export NAME=bmc
[ -n "$LAB" ] && NAME=$(grep -m 1 "^name = " "$LAB" | cut -d "\"" -f 2)
work=$(mktemp -d)
cd "$work" || exit
export LINERATE_KEYS=$work/keys

end() {
  kill "$machine" "$lab" 2> /dev/null
  wait
  cd / && rm -rf "$work"
}
machine='' lab=''
trap end EXIT
trap 'exit 1' TERM INT

# on HOST COMMAND...: runs a command at a host of the lab; here if there is no lab.
on() {
  if [ -n "$LAB" ]; then "$LINERATE" lab exec "$NAME" "$@"; else "${@:2}"; fi
}

# bmc TEXT: runs TEXT on the BMC. Its exit code is that of the text.
bmc() {
  local answer
  answer=$(on a curl -sS --max-time 130 --data-binary "$1" "$BMC/cgi-bin/run") || return
  sed '$d' <<< "$answer"
  [ "$(tail -n 1 <<< "$answer")" = "exit 0" ]
}

# ncsi VERB: the BMC's linerate asks its controller.
ncsi() { bmc "linerate ncsi -i eth0 $1 --json"; }
export -f on bmc ncsi

arguments=(-M tacoma-bmc -display none -no-reboot -serial stdio -monitor none -kernel "$IMAGE"
  -dtb "$FOLDER/board.dtb" -initrd "$FOLDER/initrd")
append="console=ttyS4,115200n8 rdinit=/init panic=-1 quiet loglevel=4"
if [ -n "$LAB" ]; then
  export BMC=http://198.18.0.2
  "$LINERATE" lab up "$LAB" > lab.log 2>&1 &
  lab=$!
  until grep -q "runs a command there" lab.log; do
    kill -0 $lab || { cat lab.log; exit 1; }
    sleep 0.1
  done
  sideband=$(on bmc ls /sys/class/net | grep -v '^lo$')
  on bmc ip address flush dev "$sideband"
  on bmc ip tuntap add bmc mode tap
  for end in "$sideband bmc" "bmc $sideband"; do
    read -r from to <<< "$end"
    on bmc ip link set "$from" up promisc on
    on bmc tc qdisc add dev "$from" ingress
    on bmc tc filter add dev "$from" parent ffff: protocol all u32 match u32 0 0 \
      action mirred egress redirect dev "$to"
  done
  nic=tap,ifname=bmc,script=no,downscript=no,mac=52:54:00:12:34:56
  on bmc qemu-system-arm "${arguments[@]}" -append "$append" -nic "$nic" < /dev/null &
else
  # Any free port would do; other programs are kept away by a network of its own.
  export BMC=http://127.0.0.1:8080
  ip link set lo up
  qemu-system-arm "${arguments[@]}" -append "$append slirp" \
    -nic user,hostfwd=tcp:127.0.0.1:8080-:80 < /dev/null &
fi
machine=$!
for ((second = 0; ; second++)); do
  bmc "uname -r" > release 2> /dev/null && break
  kill -0 $machine && [ $second -lt 120 ] || { echo "the BMC does not answer"; exit 1; }
  sleep 1
done

check owner '
  # The kernel owns the sideband, so linerate asks through it.
  ncsi discover | tee found.json
  expect "transport" "$(jq -r .transport found.json)" generic_netlink
  expect "channels" "$(jq "[.channels[]] | length" found.json)" 1'
check version 'ncsi version | jq -e .'
check link 'ncsi link | jq -e .'
check statistics 'bmc "linerate ncsi -i eth0 stats"'
check text 'bmc "linerate ncsi -i eth0 discover; linerate ncsi -i eth0 parameters; linerate ncsi -i eth0 capabilities; dmesg | grep -i ncsi"'
[ -n "$STAY" ] && sleep "$STAY"
echo "ended 0" >> "$OUT/checks"
