"""Prints by which interface the kernel sends datagrams from each port of a plan.

members.py PLAN FROM TO PORT INTERFACE...

PLAN is the JSON document of `linerate flows plan`. Each line of the output has a port, its member
in the plan, and the interface whose own counter rose by all datagrams, or `several`.
"""

import json
import socket
import sys

DATAGRAMS = 20


def counts(interfaces):
    """Returns the sent packets of each interface, as its driver counts them."""
    files = (f"/sys/class/net/{name}/statistics/tx_packets" for name in interfaces)
    return [int(open(file).read()) for file in files]


def interface_of(port, source, target, interfaces):
    """Sends from a port and returns the interface that carried all datagrams."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind((source, port))
        before = counts(interfaces)
        for _ in range(DATAGRAMS):
            sender.sendto(bytes(18), target)
        after = counts(interfaces)
    rises = [now - then for then, now in zip(before, after)]
    if sorted(rises)[:-1] != [0] * (len(rises) - 1) or max(rises) != DATAGRAMS:
        return "several"
    return interfaces[rises.index(DATAGRAMS)]


def main():
    plan, source, target, target_port, *interfaces = sys.argv[1:]
    for member, ports in json.load(open(plan))["ports"].items():
        for port in ports:
            seen = interface_of(port, source, (target, int(target_port)), interfaces)
            print(port, member, seen)


main()
