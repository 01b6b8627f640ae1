// Accounts for the datagrams of known flows and drops them; any other frame is passed to the stack.
//
// A flow's datagrams arrive on one receive queue, so that one processor at a time runs this for them: the counters need
// no atomic operations.
#include "flow.h"

// Flows per program, and numbers that a window remembers.
#define WINDOW_WORDS 8192
// Cells of delays: log-linear with 2048 linear cells, as in stats/src/histogram.rs; of values below 2^36 ns, and of
// negative ones above -2^24 ns.
#define ABOVE_BITS 36
#define BELOW_BITS 24
#define CELLS(bits) (((bits) - 11 + 2) * 1024)

// The key of map 0: an IPv4 address is the first four bytes, the rest is zero. Of a frame without IP, version 0, the bytes
// that identify its flow are in the place of the addresses.
struct tuple {
    u8 source[16];
    u8 destination[16];
    u16 source_port;
    u16 destination_port;
    u32 version;
};

// The value of map 0: what user space states about a flow.
struct flow {
    u64 key0;
    u64 key1;
    // The sender's clock minus this host's; valid if `has_clock`.
    s64 clock_offset_ns;
    // End of the current interval.
    u64 boundary_ns;
    // Index of the flow in the other maps.
    u32 number;
    u32 has_clock;
};

struct counts {
    u64 packets;
    u64 bytes;
    u64 duplicates;
    u64 late;
    u64 repeated_bytes;
    u64 reordered;
    // One above the highest sequence number.
    u64 next;
    u64 first_ns;
    u64 last_ns;
    u64 delays;
    s64 delay_sum_ns;
    // Interarrival jitter of RFC 3550 in 1/256 ns, and the transit time of the datagram before.
    u64 jitter;
    s64 transit_ns;
};

// Map 1: counts now, and as they were when the interval ended at `boundary_ns`.
struct state {
    struct counts now;
    struct counts then;
    u64 boundary_ns;
    s64 min_delay_ns;
    s64 max_delay_ns;
    u64 negative_delays;
};

// Map 2: which numbers have arrived. Each word has a bit for each of 32 numbers, and above them which block of numbers
// it stands for, so that it need not be cleared: a newer block overwrites it.
struct window {
    u64 words[WINDOW_WORDS];
};

// Map 3.
struct delays {
    u64 above[CELLS(ABOVE_BITS)];
    u64 below[CELLS(BELOW_BITS)];
};

ALWAYS_INLINE u32 log2_of(u64 value)
{
    u32 log = 0;
    if (value >> 32) { value >>= 32; log += 32; }
    if (value >> 16) { value >>= 16; log += 16; }
    if (value >> 8) { value >>= 8; log += 8; }
    if (value >> 4) { value >>= 4; log += 4; }
    if (value >> 2) { value >>= 2; log += 2; }
    return log + (value >> 1 & 1);
}

ALWAYS_INLINE u32 cell_of(u64 value, u32 bits)
{
    if (value >> bits)
        value = (1ull << bits) - 1;
    u32 octave = log2_of(value | 2047) - 10;
    return octave * 1024 + (value >> octave);
}

ALWAYS_INLINE void count_delay(struct state *state, u32 number, s64 delay_ns)
{
    struct counts *now = &state->now;
    if (!now->delays || delay_ns < state->min_delay_ns)
        state->min_delay_ns = delay_ns;
    if (!now->delays || delay_ns > state->max_delay_ns)
        state->max_delay_ns = delay_ns;
    now->delays++;
    now->delay_sum_ns += delay_ns;
    struct delays *delays = map_lookup(MAP(3), &number);
    if (!delays)
        return;
    if (LIKELY(delay_ns >= 0)) {
        u32 cell = cell_of(delay_ns, ABOVE_BITS);
        if (cell < CELLS(ABOVE_BITS))
            delays->above[cell]++;
    } else {
        u32 cell = cell_of(-delay_ns, BELOW_BITS);
        if (cell < CELLS(BELOW_BITS))
            delays->below[cell]++;
        state->negative_delays++;
    }
}

__attribute__((section("xdp"), used)) int receive(struct xdp_md *context)
{
    void *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
    if (data + ETHERNET_BYTES + LINK_BYTES + sizeof(struct header) > end)
        return XDP_PASS;
    u16 kind = *(u16 *)(data + 12);
    struct tuple tuple = {};
    struct header *header;
    // Bytes before the payload, and of it.
    u64 headers, payload;
    if (kind == __builtin_bswap16(0x88b5)) {
        // Both MAC addresses, the EtherType, the subtype and both flow numbers.
        __builtin_memcpy(tuple.source, data, 16);
        *(u32 *)tuple.destination = *(u32 *)(data + 16);
        headers = ETHERNET_BYTES + LINK_BYTES;
        header = data + ETHERNET_BYTES + LINK_BYTES;
        payload = __builtin_bswap16(*(u16 *)(data + 20));
    } else if (kind == __builtin_bswap16(0x0800)) {
        u8 *ip = data + ETHERNET_BYTES;
        if (data + ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES + sizeof(struct header) > end)
            return XDP_PASS;
        // No options, no fragment, UDP.
        if (ip[0] != 0x45 || (*(u16 *)(ip + 6) & __builtin_bswap16(0x3fff)) || ip[9] != 17)
            return XDP_PASS;
        *(u32 *)tuple.source = *(u32 *)(ip + 12);
        *(u32 *)tuple.destination = *(u32 *)(ip + 16);
        tuple.version = 4;
        header = (void *)(ip + IPV4_BYTES + UDP_BYTES);
        headers = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES;
    } else if (kind == __builtin_bswap16(0x86dd)) {
        u8 *ip = data + ETHERNET_BYTES;
        if (data + ETHERNET_BYTES + IPV6_BYTES + UDP_BYTES + sizeof(struct header) > end || ip[6] != 17)
            return XDP_PASS;
        __builtin_memcpy(tuple.source, ip + 8, 32);
        tuple.version = 6;
        header = (void *)(ip + IPV6_BYTES + UDP_BYTES);
        headers = ETHERNET_BYTES + IPV6_BYTES + UDP_BYTES;
    } else {
        return XDP_PASS;
    }
    if (tuple.version) {
        u16 *udp = (void *)header - UDP_BYTES;
        tuple.source_port = udp[0];
        tuple.destination_port = udp[1];
        payload = (u64)__builtin_bswap16(udp[2]) - UDP_BYTES;
    }
    struct flow *flow = map_lookup(MAP(0), &tuple);
    if (!flow)
        return XDP_PASS;
    // The socket of the flow handles what is no datagram with a valid tag: messages of the session, and damage.
    u64 wire_sequence = header->sequence, wire_sent_ns = header->sent_ns;
    u32 tag = tag_of(flow->key0, flow->key1, wire_sequence, wire_sent_ns, header->lateness_and_flow, header->flags);
    if (tag != header->tag || payload < sizeof(struct header) || payload > frame_bytes(context) - headers)
        return XDP_PASS;
    u32 number = flow->number;
    struct state *state = map_lookup(MAP(1), &number);
    struct window *window = map_lookup(MAP(2), &number);
    if (!state || !window)
        return XDP_PASS;
    u64 now_ns = monotonic_ns();
    struct counts *now = &state->now;
    if (now_ns >= flow->boundary_ns && state->boundary_ns != flow->boundary_ns) {
        state->then = *now;
        state->boundary_ns = flow->boundary_ns;
    }
    if (!now->first_ns)
        now->first_ns = now_ns;
    now->last_ns = now_ns;

    u64 sequence = __builtin_bswap64(wire_sequence);
    u64 *word = &window->words[sequence / 32 % WINDOW_WORDS];
    u32 block = sequence / (32 * WINDOW_WORDS), bit = 1u << (sequence & 31);
    u32 seen = *word;
    u32 seen_block = *word >> 32;
    if (seen_block > block) {
        now->late++;
        now->repeated_bytes += payload;
        return XDP_DROP;
    }
    if (seen_block < block)
        seen = 0;
    if (seen & bit) {
        now->duplicates++;
        now->repeated_bytes += payload;
        return XDP_DROP;
    }
    *word = (u64)block << 32 | seen | bit;
    now->packets++;
    now->bytes += payload;
    if (sequence < now->next)
        now->reordered++;
    else
        now->next = sequence + 1;

    s64 transit_ns = now_ns - __builtin_bswap64(wire_sent_ns);
    if (now->packets > 1) {
        s64 change = transit_ns - now->transit_ns;
        if (change < 0)
            change = -change;
        now->jitter += (change * 256 - (s64)now->jitter) >> 4;
    }
    now->transit_ns = transit_ns;
    if (flow->has_clock)
        count_delay(state, number, transit_ns + flow->clock_offset_ns);
    return XDP_DROP;
}
