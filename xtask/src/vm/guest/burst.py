"""Sends datagrams of 1472 bytes back to back: burst.py ADDRESS COUNT."""

import socket
import sys

address, count = sys.argv[1], int(sys.argv[2])
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    for _ in range(count):
        sender.sendto(bytes(1472), (address, 9))
