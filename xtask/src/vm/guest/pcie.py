"""Compares the tree of `linerate limit pcie --device all --json` with what lspci prints.

pcie.py paths LIMIT.json FILE    FILE has the output of `lspci -PP -D`
pcie.py links LIMIT.json FILE    FILE has the output of `lspci -vvD`
"""

import json
import re
import sys

# Transfers of a lane, GT/s, by generation of PCI Express (PCI Express Base 7.0, table 1-1).
GENERATIONS = {"2.5": 1, "5": 2, "8": 3, "16": 4, "32": 5, "64": 6}


def nodes(tree):
    """Returns the depth, address and further text of each line of the tree."""
    for line in tree:
        depth = (len(line) - len(line.lstrip())) // 2
        address, text = line.split(maxsplit=1)
        yield depth, address, text


def paths_of(tree):
    """Returns the path of each endpoint from the root, as lspci writes it."""
    path = []
    for depth, address, text in nodes(tree):
        # Only the first address has a domain.
        path[depth:] = [address if depth == 0 else address.split(":", 1)[1]]
        if text.startswith("endpoint"):
            yield "/".join(path)


def paths_of_lspci(text):
    """Returns the path of each network card and NVMe disk behind a root port."""
    wanted = ("Ethernet controller", "Non-Volatile memory controller")
    lines = (line.split(" ", 1) for line in text.splitlines())
    return [path for path, kind in lines if kind.startswith(wanted) and "/" in path]


def links_of(tree):
    """Returns generation, lanes, present generation and most lanes of each address."""
    pattern = r"gen (\d) x(\d+)(?: \((?:gen (\d) now)?(?:, )?(?:could be x(\d+))?\))?"
    for _, address, text in nodes(tree):
        found = re.search(pattern, text)
        yield address, tuple(int(part) if part else None for part in found.groups())


def links_of_lspci(text):
    """Returns the same from capability and state of each link."""
    for device in text.split("\n\n"):
        most = re.search(r"LnkCap:.*Speed ([\d.]+|unknown)(?:GT/s)?, Width x(\d+)", device)
        now = re.search(r"LnkSta:.*Speed ([\d.]+)GT/s.*Width x(\d+)", device)
        if not now:
            continue
        generation, lanes = GENERATIONS[now[1]], int(now[2])
        best = GENERATIONS.get(most[1], generation)
        present = generation if generation != best else None
        wider = int(most[2]) if int(most[2]) > lanes else None
        yield device.split()[0], (best, lanes, present, wider)


def main():
    what, limit, file = sys.argv[1:]
    tree = json.load(open(limit))["tree"]
    text = open(file).read()
    if what == "paths":
        ours, theirs = sorted(paths_of(tree)), sorted(paths_of_lspci(text))
    else:
        ours = dict(links_of(tree))
        theirs = {key: value for key, value in links_of_lspci(text) if key in ours}
    print("linerate:", ours)
    print("lspci:   ", theirs)
    if not ours or ours != theirs:
        sys.exit(f"{what} differ")


main()
