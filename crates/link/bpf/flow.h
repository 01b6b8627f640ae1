// What the programs share: the helpers that they call, the frame's layout, and the tag of the data header.
//
// Compiled by scripts/bpf.sh. The loader (link/src/bpf.rs) gets the instructions alone, and replaces each placeholder of
// a map by the map's descriptor.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define LIKELY(x) __builtin_expect(!!(x), 1)

// Return values and context of a program (linux/bpf.h).
enum { XDP_DROP = 1, XDP_PASS = 2 };
struct xdp_md {
    u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};

// Helpers by their numbers (linux/bpf.h).
static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static u64 (*const monotonic_ns)(void) = (void *)5;
static u64 (*const frame_bytes)(struct xdp_md *) = (void *)188;
static long (*const redirect)(u32 interface, u64 flags) = (void *)23;

// The placeholder of map `n`.
#define MAP(n) ({ void *map; asm("%0 = %1 ll" : "=r"(map) : "i"(0x52494557 | (u64)(n) << 32)); map; })

#define ETHERNET_BYTES 14
#define IPV4_BYTES 20
#define IPV6_BYTES 40
#define UDP_BYTES 8
// The header behind Ethernet's of frames without IP (wire/src/ethernet.rs): a subtype, two flow numbers and a length.
#define LINK_BYTES 8

// The native data header of 32 bytes (wire/src/header/native.rs), as it is on the wire.
struct header {
    u64 sequence;
    u64 sent_ns;
    u64 lateness_and_flow;
    u32 flags;
    u32 tag;
};

ALWAYS_INLINE u64 rotated(u64 value, u32 bits)
{
    return value << bits | value >> (64 - bits);
}

#define SIP_ROUND                                                                                                      \
    do {                                                                                                               \
        v0 += v1; v2 += v3;                                                                                            \
        v1 = rotated(v1, 13) ^ v0; v3 = rotated(v3, 16) ^ v2;                                                          \
        v0 = rotated(v0, 32);                                                                                          \
        v2 += v1; v0 += v3;                                                                                            \
        v1 = rotated(v1, 17) ^ v2; v3 = rotated(v3, 21) ^ v0;                                                          \
        v2 = rotated(v2, 32);                                                                                          \
    } while (0)

// The tag in network byte order: the low 32 bits of SipHash-1-3 over the bytes before it in the order of
// wire/src/header/native.rs, the sequence number last.
ALWAYS_INLINE u32 tag_of(u64 key0, u64 key1, u64 sequence, u64 sent_ns, u64 lateness_and_flow, u32 flags)
{
    u64 words[4] = {sent_ns, lateness_and_flow, flags | (sequence & 0xff) << 32, sequence >> 8 | 31ull << 56};
    u64 v0 = key0 ^ 0x736f6d6570736575, v1 = key1 ^ 0x646f72616e646f6d;
    u64 v2 = key0 ^ 0x6c7967656e657261, v3 = key1 ^ 0x7465646279746573;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v3 ^= words[i];
        SIP_ROUND;
        v0 ^= words[i];
    }
    v2 ^= 0xff;
#pragma unroll
    for (int i = 0; i < 3; i++)
        SIP_ROUND;
    return __builtin_bswap32(v0 ^ v1 ^ v2 ^ v3);
}
