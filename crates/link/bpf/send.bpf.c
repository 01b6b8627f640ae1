// Sends one frame of a flow each time it runs: writes sequence number, send time, tag and checksum into the template
// that it is run with, and redirects the frame to the interface.
//
// It is attached to that interface as well, where it passes all incoming frames to the stack. Drivers need an attached
// program to send frames of XDP. And the kernel waits for an RCU grace period before and after each run of a program that
// is attached nowhere, which takes milliseconds.
#include "flow.h"

// The entries of map 0, one for each flow. The metadata in front of a template is the flow's index.
struct sender {
    u64 sequence;
    u64 key0;
    u64 key1;
    // Bytes 16 to 23 and 24 to 27 of the header, the same in all frames.
    u64 lateness_and_flow;
    u32 flags;
    // Sum of everything that the checksum of UDP covers, without what differs from frame to frame.
    u32 sum;
    u32 interface;
    // Offset of the data header in the frame: after UDP over IPv4 or IPv6, or after the header of a frame without IP.
    u32 offset;
};

__attribute__((section("xdp"), used)) int send(struct xdp_md *context)
{
    void *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
    u32 *metadata = (void *)(long)context->data_meta;
    if ((void *)(metadata + 1) > data)
        return XDP_PASS;
    u32 index = *metadata;
    struct sender *sender = map_lookup(MAP(0), &index);
    // Frames that arrive on the interface: those to send come from no interface, which the kernel shows as loopback.
    if (!sender || context->ingress_ifindex == sender->interface)
        return XDP_PASS;
    // Without CAP_PERFMON the verifier accepts constant offsets in a packet only: each branch must keep its own.
    if (sender->offset == ETHERNET_BYTES + IPV6_BYTES + UDP_BYTES) {
        data += ETHERNET_BYTES + IPV6_BYTES + UDP_BYTES;
        asm volatile("# IPv6" : "+r"(data));
    } else if (sender->offset == ETHERNET_BYTES + LINK_BYTES) {
        data += ETHERNET_BYTES + LINK_BYTES;
        asm volatile("# no IP" : "+r"(data));
    } else {
        data += ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES;
        asm volatile("# IPv4" : "+r"(data));
    }
    struct header *header = data;
    if ((void *)(header + 1) > end)
        return XDP_DROP;
    u64 sequence = __builtin_bswap64(sender->sequence++);
    u64 sent_ns = __builtin_bswap64(monotonic_ns());
    u32 tag = tag_of(sender->key0, sender->key1, sequence, sent_ns, sender->lateness_and_flow, sender->flags);
    header->sequence = sequence;
    header->sent_ns = sent_ns;
    header->tag = tag;
    if (sender->offset == ETHERNET_BYTES + LINK_BYTES)
        return redirect(sender->interface, 0);
    // RFC 768 and 1071, in words of 32 bits.
    u64 sum = sender->sum;
    sum += (u32)sequence;
    sum += sequence >> 32;
    sum += (u32)sent_ns;
    sum += sent_ns >> 32;
    sum += tag;
    sum = (u32)sum + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    u16 checksum = ~sum;
    // 0 means that there is none.
    *(u16 *)(data - 2) = checksum ? checksum : 0xffff;
    return redirect(sender->interface, 0);
}
