# AF_XDP without copying, which virtio_net has since Linux 6.11. Two wires between this host and a
# namespace: one for control, one for frames.
. "$GUEST/checks.sh"
PATH=$(dirname "$LINERATE"):$PATH
export PATH

ip netns add far
for wire in 0 1; do
  near=eth$((wire * 2)) far=eth$((wire * 2 + 1))
  ip link set "$far" netns far
  ip address add "198.18.$wire.1/24" dev "$near"
  ip link set "$near" up
  ip -n far address add "198.18.$wire.2/24" dev "$far"
  ip -n far link set "$far" up
done
ip -n far link set lo up
for wire in 0 1; do
  until ping -c 1 -W 1 "198.18.$wire.2" > /dev/null; do sleep 0.2; done
done

# testbed REACH WIRE: frames cross this wire; REACH is how the far host is reached.
testbed() {
  cat << EOF
[[host]]
name = "here"
reach = "local"
[[host]]
name = "far"
reach = $1
[[endpoint]]
name = "a"
host = "here"
address = "198.18.$2.1"
device = "eth$(($2 * 2))"
[[endpoint]]
name = "b"
host = "far"
address = "198.18.$2.2"
device = "eth$(($2 * 2 + 1))"
EOF
}
export -f testbed

check frames '
  testbed "[\"ip\", \"netns\", \"exec\", \"far\"]" 1 > testbed.toml
  status=0
  linerate run "$GUEST/xdp.toml" --testbed testbed.toml --ledger frames.ledger --json > run.json ||
    status=$?
  cp run.json "$OUT"
  [ "$status" = 0 ] || [ "$status" = 3 ] || expect "exit code" "$status" 0
  for mode in xdp_copy xdp_zero_copy; do
    jq "[.points[] | select(.parameters.mode == \"$mode\") | .jobs[0].loss[0]][0]" run.json |
      tee loss.json
    at_least "frames sent" "$(jq .sent loss.json)" 1000
    expect "lost frames" "$(jq .lost loss.json)" 0
    expect "balance" "$(jq .balances loss.json)" true
  done' 200
check control '
  # The driver sets its queues up anew for a socket without copying, and control is interrupted for
  # longer than a campaign waits.
  export LINERATE_KEYS=$PWD/near
  echo "raw_frames = true" > policy
  LINERATE_KEYS=$PWD/far ip netns exec far linerate agent --pair --policy policy > agent 2>&1 &
  until grep -oE -m 1 "^[0-9A-Z]{5}(-[0-9A-Z]+)+" agent > token; do sleep 0.2; done
  linerate to 198.18.1.2 --token - -t 1 --plain < token
  testbed "\"198.18.1.2:4777\"" 1 > testbed.toml
  status=0
  linerate run "$GUEST/xdp.toml" --set "axis.params.mode=[\"xdp_zero_copy\"]" \
    --testbed testbed.toml --ledger control.ledger --json 2> refused > run.json || status=$?
  cat refused
  expect "exit code" "$status" 4
  grep "control connections use eth[23]" refused
  # Modes that copy leave the interface alone, and the one that chooses copies there.
  for mode in xdp_copy xdp; do
    status=0
    linerate run "$GUEST/xdp.toml" --set "axis.params.mode=[\"$mode\"]" \
      --testbed testbed.toml --ledger $mode.ledger --json > run.json || status=$?
    cp run.json "$OUT/$mode.json"
    [ "$status" = 0 ] || [ "$status" = 3 ] || expect "exit code" "$status" 0
    at_least "frames" "$(jq "[.points[].jobs[0].loss[0].unique] | add" run.json)" 1000
  done' 400
