// The path of this host's own traffic through an emulator (link/src/local.rs). `divert` is on the impaired interface, at
// ingress and at egress: it redirects matching frames into a veth whose other end the emulator reads. `deliver` is at the
// ingress of both veths and returns what the emulator sends. `guard` is at their egress.
//
// A mark distinguishes frames: those that `divert` took, for `guard`, and those that `deliver` returned, for `divert`.
// Crossing into the emulator's network namespace clears it.
#include "flow.h"

// The start of struct __sk_buff (linux/bpf.h).
struct frame {
    u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present;
};

static long (*const load_bytes)(const struct frame *, u32 offset, void *to, u32 len) = (void *)26;

// Return values at tcx, and the flag of `redirect` for the receive path of the interface (linux/bpf.h).
enum { TCX_NEXT = -1, TCX_DROP = 2 };
enum { INGRESS = 1 };

#define MARK 0x57454952
#define SECTION(name) __attribute__((section(name), used))

// The entry of map 0: where frames are redirected to, and whether they are incoming ones of the impaired interface.
struct target {
    u32 interface;
    u32 is_incoming;
};

// The key of map 1, a trie of prefixes: the address of the other host.
struct key {
    u32 bits;
    u32 version;
    u32 address[4];
};

SECTION("tcx/divert") int divert(struct frame *frame)
{
    u32 index = 0;
    struct target *target = map_lookup(MAP(0), &index);
    if (!target)
        return TCX_NEXT;
    if (frame->mark == MARK) {
        frame->mark = 0;
        return TCX_NEXT;
    }
    // A frame of a VLAN interface on top of this one.
    if (frame->vlan_present)
        return TCX_NEXT;
    struct key key = {.bits = 32 + 128};
    u32 is_incoming = target->is_incoming;
    long error;
    if (frame->protocol == __builtin_bswap16(0x0800)) {
        key.version = 4;
        error = load_bytes(frame, ETHERNET_BYTES + (is_incoming ? 12 : 16), key.address, 4);
    } else if (frame->protocol == __builtin_bswap16(0x86dd)) {
        key.version = 6;
        error = load_bytes(frame, ETHERNET_BYTES + (is_incoming ? 8 : 24), key.address, 16);
    } else {
        return TCX_NEXT;
    }
    if (error || !map_lookup(MAP(1), &key))
        return TCX_NEXT;
    frame->mark = MARK;
    return redirect(target->interface, 0);
}

SECTION("tcx/deliver") int deliver(struct frame *frame)
{
    u32 index = 0;
    struct target *target = map_lookup(MAP(0), &index);
    if (!target)
        return TCX_DROP;
    frame->mark = MARK;
    return redirect(target->interface, target->is_incoming ? INGRESS : 0);
}

// Frames that this host itself sends on the veths (router solicitations, DHCP) would reach the network.
SECTION("tcx/guard") int guard(struct frame *frame)
{
    return frame->mark == MARK ? TCX_NEXT : TCX_DROP;
}
