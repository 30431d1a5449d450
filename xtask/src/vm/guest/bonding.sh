# The member of a bond by which the kernel sends each of 64 ports, under every hash policy, against
# what `linerate flows` says. Members are veth pairs whose other ends only receive.
. "$GUEST/checks.sh"
FROM=10.9.0.1
TO=10.9.0.2

ip link add bond0 type bond mode balance-xor miimon 100
for member in m0 m1 m2 m3; do
  ip link add "$member" type veth peer name "far-$member"
  # Its own discovery would be counted, too.
  sysctl -qw "net.ipv6.conf.$member.disable_ipv6=1"
  ip link set "$member" master bond0
  ip link set "$member" up
  ip link set "far-$member" up
done
sysctl -qw net.ipv6.conf.bond0.disable_ipv6=1
ip link set bond0 up
ip address add "$FROM/24" dev bond0
# Nobody answers there.
ip neighbour add "$TO" lladdr 02:00:00:00:00:02 dev bond0

# policy NAME: makes the bond hash by this policy, with four members that have a link.
policy() {
  echo "$1" > /sys/class/net/bond0/bonding/xmit_hash_policy
  links 4
}

# links N: waits until N members have a link.
links() {
  until [ "$(grep -c "^MII Status: up" /proc/net/bonding/bond0)" = $(($1 + 1)) ]; do
    sleep 0.1
  done
}

# plan MEMBERS EACH: ports for each member, as linerate computes them.
plan() {
  "$LINERATE" flows plan --from "$FROM" --to "$TO:9000" --hash layer3+4 --members "$1" \
    --each "$2" --json > plan.json
}

# seen MEMBER...: for each port of the plan its place in the plan and the member that the kernel
# chose.
seen() {
  python3 "$GUEST/members.py" plan.json "$FROM" "$TO" 9000 "$@" | tee seen
  expect "ports" "$(wc -l < seen)" 64
}

# probed: members that a probe finds for 16 random and 16 sequential ports. Its exit code is 1 if
# they are not spread evenly.
probed() {
  local status=0
  "$LINERATE" flows probe --from "$FROM" --to "$TO:9000" --ports 16 --each 64 --json \
    --member m0 --member m1 --member m2 --member m3 > probe.json || status=$?
  [ "$status" -le 1 ] || expect "exit code" "$status" 1
}
export FROM TO
export -f policy links plan seen probed

for policy in layer3+4 encap3+4; do
  check "plan-$policy" '
    policy '$policy'
    plan 4 16
    seen m0 m1 m2 m3
    expect "ports on another member" "$(awk "\"m\" \$2 != \$3" seen | wc -l)" 0'
done

check plan-after-a-flap '
  policy layer3+4
  ip link set m1 down
  links 3
  ip link set m1 up
  links 4
  plan 4 16
  seen m0 m1 m2 m3
  expect "ports on another member" "$(awk "\"m\" \$2 != \$3" seen | wc -l)" 0'

for policy in layer2 layer2+3 encap2+3 vlan+srcmac; do
  if ! echo "$policy" 2> /dev/null > /sys/class/net/bond0/bonding/xmit_hash_policy; then
    skip "one-member-$policy" "this kernel has no such policy"
    continue
  fi
  check "one-member-$policy" '
    policy '$policy'
    plan 4 16
    seen m0 m1 m2 m3
    expect "members" "$(cut -d" " -f3 seen | sort -u | wc -l)" 1
    grep -q " m[0-3]$" seen'
done

check probe-layer2 '
  policy layer2
  probed
  expect "members" "$(jq "[.ports[] | select(length > 0)] | length" probe.json)" 1'

check probe-layer3+4 '
  policy layer3+4
  probed
  jq "{ ports: .ports }" probe.json > plan.json
  python3 "$GUEST/members.py" plan.json "$FROM" "$TO" 9000 m0 m1 m2 m3 > seen
  at_least "ports" "$(wc -l < seen)" 16
  expect "ports on another member" "$(awk "\"m\" \$2 != \$3" seen | wc -l)" 0'

check plan-without-a-link '
  policy layer3+4
  ip link set m1 down
  links 3
  plan 3 22
  python3 "$GUEST/members.py" plan.json "$FROM" "$TO" 9000 m0 m1 m2 m3 > seen
  expect "ports" "$(wc -l < seen)" 66
  active="split(\"m0 m2 m3\", active, \" \")"
  expect "ports on another member" "$(awk "BEGIN { $active } active[\$2 + 1] != \$3" seen | wc -l)" 0'
