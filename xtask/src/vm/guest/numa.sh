# Two NUMA nodes, each with a card behind a root port of its own: which of ten points have workers on
# the wrong node.
. "$GUEST/checks.sh"
PATH=$(dirname "$LINERATE"):$PATH
export PATH

# card NODE: the network card of this node.
card() {
  local device
  for device in /sys/class/net/e*; do
    [ "$(cat "$device/device/numa_node")" = "$1" ] && basename "$device"
  done
}
sender=$(card 1)
receiver=$(card 0)
export sender
# On one host, the kernel would not send over the wire between two of its own addresses.
ip netns add far
ip link set "$receiver" netns far
ip address add 198.18.0.1/24 dev "$sender"
ip link set "$sender" up
ip -n far address add 198.18.0.2/24 dev "$receiver"
ip -n far link set "$receiver" up
ip -n far link set lo up
until ping -c 1 -W 1 198.18.0.2 > /dev/null; do sleep 0.2; done

# testbed CPUS: the sender, pinned to these.
testbed() {
  cat << EOF
[[host]]
name = "here"
reach = "local"
[[host]]
name = "far"
reach = ["ip", "netns", "exec", "far"]
[[endpoint]]
name = "a"
host = "here"
address = "198.18.0.1"
device = "$sender"
cpus = [$1]
[[endpoint]]
name = "b"
host = "far"
address = "198.18.0.2"
cpus = [0, 1]
EOF
}

# remote CPUS: the number of points of which workers on the wrong node are a finding.
remote() {
  testbed "$1" > testbed.toml
  local status=0
  linerate run "$GUEST/numa.toml" --testbed testbed.toml --ledger "$1.ledger" --json > run.json ||
    status=$?
  [ "$status" = 0 ] || [ "$status" = 3 ] || expect "exit code" "$status" 0
  cp run.json "$OUT/$1.json"
  expect "points" "$(jq ".points | length" run.json)" 10
  # A finding names all points of a sweep with the same claim.
  jq "[.findings[] | select(.data.claim == \"remote_node\") | .data.subject.merged.points // [1] | length] |
    add // 0" run.json
}
export -f testbed remote

check nodes '
  # Of which node each CPU is, by another program.
  linerate facts --json | jq -r ".memory.numa | to_entries[] | .key + \" \" + .value.cpus" > nodes
  expect "nodes" "$(wc -l < nodes)" 2
  for node in 0 1; do
    expect "CPUs of node $node" "$(awk "\$1 == $node { print \$2 }" nodes)" \
      "$(cat /sys/devices/system/node/node$node/cpulist)"
  done
  expect "CPUs of node 1 by lscpu" "$(lscpu -p=CPU,NODE | grep -c ",1$")" 2'
check far 'expect "findings" "$(remote 0,1)" 10' 200
check near 'expect "findings" "$(remote 2,3)" 0' 200
check half 'expect "findings" "$(remote 1,2)" 10' 200
