"""Reader of captures: pcap files of Ethernet frames, IPv4 and IPv6, TCP and UDP.

Nothing here knows Weir. Checksums are verified only on request, since that needs whole frames.
"""
import ipaddress
import struct
from dataclasses import dataclass

TCP, UDP = 6, 17
FIN, SYN, RST, ACK = 1, 2, 4, 16


@dataclass(slots=True)
class Packet:
    """One TCP segment or UDP datagram as it crossed an interface."""
    time: int          # ns, CLOCK_REALTIME, the kernel's stamp
    out: bool          # sent by the host of this interface
    protocol: int
    source: tuple      # (address, port)
    destination: tuple
    identification: int | None  # of the IPv4 header
    size: int          # payload bytes on the wire
    payload: bytes     # as much of it as was captured
    sequence: int = 0  # TCP
    flags: int = 0     # TCP
    acknowledged: int = 0  # TCP
    valid: bool = True  # transport checksum right (True where not checked)


@dataclass
class Capture:
    packets: list
    frames_out: list  # ns, all frames that the host sent
    frames_in: int


def internet_sum(data):
    """One's complement sum of 16-bit words (RFC 1071)."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(">%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def read(path, mac, check_sums=False):
    """Reads a pcap file taken at the interface with the hardware address `mac` (bytes)."""
    with open(path, "rb") as file:
        data = file.read()
    magic = data[:4]
    if magic not in (b"\x4d\x3c\xb2\xa1", b"\xd4\xc3\xb2\xa1"):
        raise ValueError(f"{path}: not a little-endian pcap file")
    scale = 1 if magic == b"\x4d\x3c\xb2\xa1" else 1000
    if struct.unpack_from("<I", data, 20)[0] & 0xFFFF != 1:
        raise ValueError(f"{path}: not Ethernet")
    packets, names = [], {}
    frames_out, frames_in = [], 0
    at, end, header = 24, len(data), struct.Struct("<IIII")
    while at + 16 <= end:
        seconds, fraction, kept, length = header.unpack_from(data, at)
        at += 16
        frame = data[at:at + kept]
        at += kept
        time = seconds * 1_000_000_000 + fraction * scale
        out = frame[6:12] == mac
        if out:
            frames_out.append(time)
        else:
            frames_in += 1
        packet = parse(frame, length, time, out, names, check_sums)
        if packet is not None:
            packets.append(packet)
    return Capture(packets, frames_out, frames_in)


def parse(frame, length, time, out, names, check_sums):
    kind = frame[12:14]
    if kind == b"\x08\x00":
        start = 14 + (frame[14] & 15) * 4
        total = struct.unpack_from(">H", frame, 16)[0]
        protocol = frame[23]
        identification = struct.unpack_from(">H", frame, 18)[0]
        if struct.unpack_from(">H", frame, 20)[0] & 0x3FFF:
            return None  # a fragment: this program sends none
        addresses, behind = frame[26:34], total - (start - 14)
        raw_source, raw_destination = frame[26:30], frame[30:34]
    elif kind == b"\x86\xdd":
        start, protocol, identification = 54, frame[20], None
        behind = struct.unpack_from(">H", frame, 18)[0]
        addresses = frame[22:54]
        raw_source, raw_destination = frame[22:38], frame[38:54]
    else:
        return None
    if protocol not in (TCP, UDP) or len(frame) < start + 8:
        return None
    source_port, destination_port = struct.unpack_from(">HH", frame, start)
    source = (name_of(names, raw_source), source_port)
    destination = (name_of(names, raw_destination), destination_port)
    valid = True
    if check_sums:
        transport = frame[start:start + behind]
        valid = len(transport) == behind and internet_sum(
            addresses + struct.pack(">II", protocol, behind) + transport) == 0xFFFF
    if protocol == UDP:
        size = behind - 8
        return Packet(time, out, UDP, source, destination, identification, size,
                      frame[start + 8:start + 8 + size], valid=valid)
    offset = (frame[start + 12] >> 4) * 4
    size = behind - offset
    sequence, acknowledged = struct.unpack_from(">II", frame, start + 4)
    return Packet(time, out, TCP, source, destination, identification, size,
                  frame[start + offset:start + offset + size], sequence, frame[start + 13],
                  acknowledged, valid)


def name_of(names, raw):
    name = names.get(raw)
    if name is None:
        name = names[raw] = str(ipaddress.ip_address(raw))
    return name


def endpoint(text):
    """`10.0.0.1:9347` or `[fd00::1]:9347` as (address, port)."""
    address, _, port = text.rpartition(":")
    return (str(ipaddress.ip_address(address.strip("[]"))), int(port))
