#!/usr/bin/env python3
"""Classic ttcp over loopback, for the tests: written from its description, shares nothing with what it tests.

    ttcp.py send tcp|udp PORT BUFFERS LENGTH
    ttcp.py receive tcp|udp

The receiver prints its port, then the number of bytes and whether they were ttcp's pattern.
"""

import socket
import sys

HOST = "127.0.0.1"
KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}


def pattern(length):
    """The printable characters from space on, again and again."""
    ramp = bytes(range(0x20, 0x7F))
    return (ramp * (length // len(ramp) + 1))[:length]


def send(transport, port, buffers, length):
    sender = socket.socket(socket.AF_INET, KINDS[transport])
    sender.settimeout(20)
    sender.connect((HOST, port))
    data = pattern(length)
    if transport == "udp":
        sender.send(data[:4])
    for _ in range(buffers):
        sender.sendall(data)
    if transport == "udp":
        for _ in range(5):
            sender.send(data[:4])
    sender.close()


def receive(transport):
    receiver = socket.socket(socket.AF_INET, KINDS[transport])
    receiver.settimeout(20)
    receiver.bind((HOST, 0))
    if transport == "tcp":
        receiver.listen(1)
    print(receiver.getsockname()[1], flush=True)
    parts = []
    if transport == "tcp":
        connection, _ = receiver.accept()
        connection.settimeout(20)
        while part := connection.recv(1 << 16):
            parts.append(part)
    else:
        going = False
        while True:
            part = receiver.recv(1 << 16)
            if len(part) > 4:
                parts.append(part)
            elif going:
                break
            else:
                going = True
    printable = all(0x20 <= byte < 0x7F for part in parts for byte in part)
    print(sum(map(len, parts)), "pattern" if printable else "other", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(sys.argv[2], *map(int, sys.argv[3:6]))
    else:
        receive(sys.argv[2])
