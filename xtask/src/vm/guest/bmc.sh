# A management controller (BMC) whose kernel has its own NC-SI stack, on this host: behind the
# controller of the lab file $LAB, or behind QEMU's own responder if that is empty. The BMC replaces
# the lab's host `bmc`: tc passes frames between its tap and the lab's sideband, because a bridge
# drops NC-SI frames (their source is the broadcast address).
[ -n "$LAB$APART" ] || exec env APART=1 unshare --net bash "$0"
. "$GUEST/checks.sh"
PATH=$(dirname "$LINERATE"):$PATH
export PATH NAME=bmc
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
ncsi() { bmc "linerate ncsi -i eth0 $1 --json 2> /dev/null"; }
export -f on bmc ncsi

arguments=(-M tacoma-bmc -display none -no-reboot -serial stdio -monitor none -kernel "$IMAGE"
  -dtb "$FOLDER/board.dtb" -initrd "$FOLDER/initrd")
append="console=ttyS4,115200n8 rdinit=/init panic=-1 quiet loglevel=4"
if [ -n "$LAB" ]; then
  "$LINERATE" lab up "$LAB" > lab.log 2>&1 &
  lab=$!
  until grep -q "runs a command there" lab.log; do
    kill -0 $lab || { cat lab.log; exit 1; }
    sleep 0.1
  done
  sideband=$(on bmc ls /sys/class/net | grep -v '^lo$')
  # The BMC takes the address of the host that it replaces.
  ADDRESS=$(on bmc ip -j -4 address show "$sideband" | jq -r '.[0].addr_info[0].local')
  export ADDRESS BMC=http://$ADDRESS
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
  # Not by `on`: the process that is killed at the end would be a shell.
  "$LINERATE" lab exec "$NAME" bmc qemu-system-arm "${arguments[@]}" \
    -append "$append address=$ADDRESS" -nic "$nic" < /dev/null &
else
  # Any free port would do; other programs are kept away by a network of its own.
  export BMC=http://127.0.0.1:8080
  ip link set lo up
  qemu-system-arm "${arguments[@]}" -append "$append address=10.0.2.15" \
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
  expect "interface in use" "$(jq "[.channels[] | select(.kernel.active)] | length" found.json)" 1'
check link 'expect "link" "$(ncsi link | jq .answers.link.up)" true'

case $LAB in
'')
  echo "ended 0" >> "$OUT/checks"
  exit
  ;;
*legacy*)
  check withheld '
    # The kernel keeps statistics of other lengths than the standard has; one group has its length.
    ncsi stats > stats.json
    for group in pass_through_statistics port_statistics; do
      jq -r ".answers.$group.withheld" stats.json | tee told
      grep -q "204, 32 and 48" told
      grep -q -- --force-raw told
    done
    jq -e .answers.control_statistics.commands_received stats.json'
  check in-raw-frames '
    bmc "linerate ncsi -i eth0 stats --force-raw --json 2> /dev/null" | tee raw.json
    jq -e .answers.pass_through_statistics.rx_packets_dropped raw.json'
  echo "ended 0" >> "$OUT/checks"
  exit
  ;;
esac

check pair '
  # The stack takes commands from a process with CAP_NET_ADMIN only: the broker of the agent asks.
  bmc "echo ncsi = [\\\"eth0\\\"] > /tmp/policy
    (linerate agent --pair --policy /tmp/policy --allow-tune eth0 --allow-tune host \
      > /tmp/agent 2>&1 &)"
  until bmc "cat /tmp/agent" | grep -oE -m 1 "^[0-9A-Z]{5}(-[0-9A-Z]+)+" > token; do sleep 1; done
  on a "$LINERATE" to $ADDRESS --token - -t 2 --plain < token'
case $LAB in
*paper*)
  check tables '
    # Each cell of the paper with this BMC, with its own windows and with those of the paper.
    status=0
    on a "$LINERATE" reproduce intel-ncsi --testbed "$GUEST/bmc-paper-testbed.toml" --quick \
      --step tables-default --step tables-tuned --out paper --json > paper.json || status=$?
    cp -r paper paper.json "$OUT"
    [ "$status" -le 1 ] || expect "exit code" "$status" 1' 900
  echo "ended 0" >> "$OUT/checks"
  exit
  ;;
esac

# dropped: frames from the network that the controller dropped, as the kernel of the BMC reads them.
dropped() { ncsi stats | jq .answers.pass_through_statistics.rx_packets_dropped; }
# arrived: datagrams that reached the kernel of the BMC; nobody listens there.
arrived() {
  bmc "grep ^Udp: /proc/net/snmp" | awk "NR == 2 { print \$2 + \$3 }"
}
export -f dropped arrived

check capabilities '
  expect "buffer" "$(ncsi capabilities | jq .answers.capabilities.buffer_bytes)" 8192'
check burst '
  # Every datagram of a burst arrives at the kernel, or the controller counts it as dropped.
  before=$(($(dropped) + $(arrived)))
  on a python3 "$GUEST/burst.py" $ADDRESS 60
  sleep 1
  after=$(($(dropped) + $(arrived)))
  expect "datagrams that have a fate" $((after - before)) 60
  at_least "dropped ones" "$(dropped)" 1'
check located '
  on a "$LINERATE" run "$GUEST/bmc-loads.toml" --testbed "$GUEST/bmc-testbed.toml" --json > run.json
  jq ".points[] | { sweep, validity, why, loss: .jobs[0].loss }" run.json
  cp run.json "$OUT"
  # A datagram that is lost was dropped by the controller: each of them, by its own counter.
  jq "[.points[] | select(.sweep == \"udp\") | .jobs[0].loss[0]][0]" run.json > loss.json
  at_least "lost datagrams" "$(jq .lost loss.json)" 1
  expect "places" "$(jq -r ".located[].place" loss.json)" "network controller"
  expect "without a place" "$(jq .unexplained loss.json)" 0'
check tune-window '
  status=0
  on a "$LINERATE" tune window --to $ADDRESS --interface eth0 --ncsi eth0 --quick --yes --json \
    --out tuned > tuned.json || status=$?
  cp tuned.json "$OUT"
  [ "$status" -le 1 ] || expect "exit code" "$status" 1
  # Whether a setting holds is another question.
  expect "certain" "$(jq .attribution.certain tuned.json)" true' 200
echo "ended 0" >> "$OUT/checks"
