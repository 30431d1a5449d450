# The tree of PCIe that `linerate limit pcie` reads, beside lspci.
. "$GUEST/checks.sh"

"$LINERATE" limit pcie --device all --json > limit.json
lspci -PP -D > paths
lspci -vvD > links
check paths 'python3 "$GUEST/pcie.py" paths limit.json paths'
check links 'python3 "$GUEST/pcie.py" links limit.json links'
check beyond-a-switch '
  # Two cards and a disk share the link above the switch.
  each=$(jq "[.ceilings[] | select(.subject.model.model.pcie_tree.devices == [\"eth0\"])][0].value" \
    limit.json)
  "$LINERATE" limit pcie --device eth0 --device eth1 --json > shared.json
  both="[.ceilings[] | select(.subject.model.model.pcie_tree.devices | length == 2)][0].value"
  expect "bound of both cards" "$(jq "$both" shared.json)" "$each"'
