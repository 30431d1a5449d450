# What a user does first, on the kernel of this guest: facts, loopback in every mode, a lab, the
# engines of disks, a control group with a quota, and every format of a report.
. "$GUEST/checks.sh"

check doctor '
  "$LINERATE" doctor --json > doctor.json
  jq -e "[.checks[] | select(.subject == \"CPUs\")][0].seen | startswith(\"$(nproc),\")" doctor.json
  jq -e "[.checks[] | select(.subject | startswith(\"sampler \"))][0].seen" doctor.json'

check facts '
  "$LINERATE" facts --json > facts.json
  expect "kernel" "$(jq -r .kernel.release facts.json)" "$(uname -r)"
  expect "CPUs" "$(jq .cpu.count facts.json)" "$(nproc)"
  bytes=$(($(awk "/^MemTotal/ { print \$2 }" /proc/meminfo) * 1024))
  expect "memory" "$(jq .memory.total_bytes facts.json)" "$bytes"
  expect "disk" "$(jq .block.nvme0n1.size_bytes facts.json)" $((1 << 30))'

# counter GROUP NAME: a counter of the network stack of this guest.
counter() {
  awk -v group="$1:" -v name="$2" '
    $1 == group && !n { n = split($0, names); next }
    $1 == group { for (i = 2; i <= n; i++) if (names[i] == name) print $i }
  ' /proc/net/snmp /proc/net/netstat
}
export -f counter

check loopback-tcp '
  before=$(counter IpExt InOctets)
  measured tcp.json to loopback tcp -t 1
  received=$(($(counter IpExt InOctets) - before))
  at_least "goodput, bit/s" "$(figure tcp.json goodput)" 1
  at_least "bytes that the kernel received" "$received" $(($(figure tcp.json goodput) / 8))'

check loopback-udp '
  before=$(counter Udp OutDatagrams)
  measured udp.json to loopback udp -t 1 -l 1000
  sent=$(($(counter Udp OutDatagrams) - before))
  loss=".points[0].jobs[0].loss[0]"
  jq -e "$loss.balances and $loss.unexplained == 0" udp.json
  jq -e "$loss | .sent == .unique + .lost" udp.json
  at_least "datagrams" "$(jq "$loss.sent" udp.json)" 1
  at_least "datagrams that the kernel sent" "$sent" "$(jq "$loss.sent" udp.json)"'

for mode in rr crr udp-rr; do
  check "loopback-$mode" '
    mode='$mode'
    case $mode in
      rr) set -- Tcp InSegs;; crr) set -- Tcp ActiveOpens;; udp-rr) set -- Udp InDatagrams;;
    esac
    before=$(counter "$1" "$2")
    measured "$mode.json" to loopback "$mode" -t 1
    counted=$(($(counter "$1" "$2") - before))
    rate=$(figure "$mode.json" transaction_rate)
    at_least "transactions a second" "$rate" 1
    at_least "$2 of the kernel" "$counted" "$rate"'
done

check congestion-bbr '
  measured bbr.json to loopback tcp -t 1 -C bbr
  jq -e "[.. | strings | select(. == \"bbr\")] | length >= 1" bbr.json'

check lab '
  status=0
  "$LINERATE" run "$GUEST/one-of-each.toml" --lab pair-100m --ledger lab.ledger \
    --format json --out lab || status=$?
  expect "trials" "$(jq "[.points[].trials[]] | length" lab/report.json)" 5
  jq -e "[.points[].jobs[].loss[] | select(.balances | not)] | length == 0" lab/report.json
  limit=100000000
  rates="[.points[].jobs[].metrics.goodput.estimate | values]"
  jq -e "$rates | all(. > 0 and . <= $limit)" lab/report.json
  invalid=$(jq "[.points[] | select(.validity == \"invalid\")] | length" lab/report.json)
  if [ "$invalid" -gt 0 ]; then
    echo "invalid: $invalid of 5 points" >&2
    exit 77
  fi
  expect "exit code" "$status" 0
  expect "goodputs" "$(jq "$rates | length" lab/report.json)" 5
  expect "accounts" "$(jq "[.points[].jobs[].loss[]] | length" lab/report.json)" 2' 180

check lab-leaves-nothing '
  expect "namespaces" "$(ip netns list | wc -l)" 0
  expect "interfaces" "$(ls /sys/class/net)" "$(printf "lo")"'

for format in html csv xlsx md json; do
  check "report-$format" '
    "$LINERATE" report lab.ledger --format '$format' --out report-'$format'
    at_least "files" "$(find report-'$format' -type f -size +0 | wc -l)" 1'
done

# sectors FIELD: field of the statistics of the disk, in sectors of 512 bytes.
sectors() {
  awk -v field="$1" '{ print $field }' /sys/block/nvme0n1/stat
}
export -f sectors
for engine in io_uring aio threads pread; do
  check "disk-$engine" '
    engine='$engine'
    depth=8
    [ $engine = pread ] && depth=1
    before=$(sectors 3)
    measured disk.json disk run /dev/nvme0n1 -t 1 --ramp 0 --engine "$engine" --qd "$depth"
    read=$((($(sectors 3) - before) * 512))
    rate=$(figure disk.json transfer_rate)
    at_least "bytes a second" "$rate" 1
    at_least "bytes that the kernel read" "$read" "$rate"'
done

check disk-write-needs-consent '
  before=$(sectors 7)
  refused 4 "$LINERATE" disk run /dev/nvme0n1 -t 1 --ramp 0 --read 0
  expect "sectors written" "$(sectors 7)" "$before"'

check disk-write '
  "$LINERATE" disk claim /dev/nvme0n1 --serial first
  before=$(sectors 7)
  measured write.json disk run /dev/nvme0n1 -t 1 --ramp 0 --read 0 --consent first
  written=$((($(sectors 7) - before) * 512))
  rate=$(figure write.json transfer_rate)
  at_least "bytes a second" "$rate" 1
  at_least "bytes that the kernel wrote" "$written" "$rate"
  "$LINERATE" disk release /dev/nvme0n1'

check control-group '
  group=/sys/fs/cgroup/limited
  echo +cpu > /sys/fs/cgroup/cgroup.subtree_control
  mkdir "$group"
  echo "50000 100000" > "$group/cpu.max"
  echo $$ > "$group/cgroup.procs"
  "$LINERATE" facts --json > limited.json
  expect "path" "$(jq -r .cgroup.path limited.json)" /limited
  expect "quota, cores" "$(jq .cgroup.cpu_quota_cores limited.json)" 0.5'

check control-group-without-cpu '
  group=/sys/fs/cgroup/bare
  rmdir /sys/fs/cgroup/limited
  echo -cpu > /sys/fs/cgroup/cgroup.subtree_control
  mkdir "$group"
  echo $$ > "$group/cgroup.procs"
  "$LINERATE" facts --json > bare.json
  jq -e ".cgroup.cpu_quota_cores.unavailable | contains(\"controller is not enabled\")" bare.json'
