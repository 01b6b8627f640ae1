/* Raw frames for benchmarks of links: a source and a sink.
 *
 *   frames packet IF SECONDS [BYTES [FLOWS]]   flood by AF_PACKET (sendmmsg, past the queueing discipline)
 *   frames live IF SECONDS [BYTES]             flood by XDP live frames (Linux 5.18), which cost the sender almost nothing
 *   frames sink IF SECONDS                     drop everything that comes in by an XDP program and count it
 *   frames count IF SECONDS [SETTLE]           as sink; the count begins SETTLE (0.1 s) after the first frame
 *   frames pass IF SECONDS                     let everything through an XDP program: a veth takes live frames only with one
 *
 * Prints frames (sent or received) and seconds. Frames go to a station that is nobody. With FLOWS they are UDP from
 * 198.18.1.1 to 198.18.1.2, to ports 1 to FLOWS in turn. */
#include "bare.h"
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <signal.h>
#include <sys/syscall.h>

enum { FLOWS_MOST = 4096, FLOW_BYTES = 128 };
static uint8_t frame[9000] = {2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 0x88, 0xb5};

static int bpf(int command, union bpf_attr *attributes) {
    return (int)syscall(SYS_bpf, command, attributes, sizeof *attributes);
}

static int load(const struct bpf_insn *program, unsigned count) {
    union bpf_attr a = {0};
    a.prog_type = BPF_PROG_TYPE_XDP;
    a.insns = (uintptr_t)program;
    a.insn_cnt = count;
    a.license = (uintptr_t) "GPL";
    int fd = bpf(BPF_PROG_LOAD, &a);
    if (fd < 0) fail("load", "program");
    return fd;
}

static void report(uint64_t frames, uint64_t since) {
    printf("{\"frames\": %llu, \"seconds\": %.6f}\n", (unsigned long long)frames, (double)(now_ns() - since) / 1e9);
}

/* The frame as UDP to a port; no checksum, as UDP over IPv4 may. */
static void as_flow(uint8_t *to, unsigned bytes, unsigned port) {
    memcpy(to, frame, 12);
    const uint8_t headers[28] = {0x45, 0, (uint8_t)((bytes - 14) >> 8), (uint8_t)(bytes - 14), 0, 0, 0x40, 0, 64, 17, 0, 0,
                                 198, 18, 1, 1, 198, 18, 1, 2, 0, 9, (uint8_t)(port >> 8), (uint8_t)port,
                                 (uint8_t)((bytes - 34) >> 8), (uint8_t)(bytes - 34), 0, 0};
    to[12] = 0x08, to[13] = 0;
    memcpy(to + 14, headers, sizeof headers);
    uint32_t sum = 0;
    for (int i = 14; i < 34; i += 2) sum += (uint32_t)(to[i] << 8 | to[i + 1]);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~((sum & 0xffff) + (sum >> 16));
    to[24] = (uint8_t)(sum >> 8), to[25] = (uint8_t)sum;
}

static void by_packet(int interface, uint64_t until, unsigned bytes, unsigned flows) {
    enum { BATCH = 64 };
    static uint8_t frames[FLOWS_MOST][FLOW_BYTES];
    for (unsigned i = 0; i < flows; i++) as_flow(frames[i], bytes, i + 1);
    int fd = socket(AF_PACKET, SOCK_RAW, 0), one = 1;
    if (fd < 0) fail("open", "packet socket");
    struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = interface};
    if (bind(fd, (struct sockaddr *)&to, sizeof to) != 0) fail("bind", "packet socket");
    setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof one);
    struct iovec vectors[BATCH];
    struct mmsghdr messages[BATCH];
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < BATCH; i++) vectors[i] = (struct iovec){frame, bytes}, messages[i].msg_hdr.msg_iov = &vectors[i], messages[i].msg_hdr.msg_iovlen = 1;
    uint64_t sent = 0, since = now_ns();
    unsigned next = 0;
    while (now_ns() < until) {
        for (int i = 0; flows != 0 && i < BATCH; i++) {
            vectors[i].iov_base = frames[next];
            next = next + 1 == flows ? 0 : next + 1;
        }
        int n = sendmmsg(fd, messages, BATCH, 0);
        if (n > 0) sent += (uint64_t)n;
        else if (errno != ENOBUFS && errno != EAGAIN) fail("send", "frames");
    }
    report(sent, since);
}

static void by_live_frames(int interface, uint64_t until, unsigned bytes) {
    const struct bpf_insn program[] = {
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 1, .imm = interface},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 2, .imm = 0},
        {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect},
        {.code = BPF_JMP | BPF_EXIT},
    };
    int fd = load(program, 4);
    uint64_t sent = 0, since = now_ns();
    while (now_ns() < until) {
        union bpf_attr a = {0};
        struct xdp_md context = {.data_end = bytes};
        a.test.prog_fd = (uint32_t)fd;
        a.test.data_in = (uintptr_t)frame;
        a.test.data_size_in = bytes;
        a.test.ctx_in = (uintptr_t)&context;
        a.test.ctx_size_in = sizeof context;
        a.test.repeat = 1 << 16;
        a.test.flags = BPF_F_TEST_XDP_LIVE_FRAMES;
        a.test.batch_size = 64;
        if (bpf(BPF_PROG_TEST_RUN, &a) != 0) fail("send", "live frames");
        sent += 1 << 16;
    }
    report(sent, since);
}

static uint64_t counted(int map) {
    uint64_t count = 0;
    uint32_t key = 0;
    union bpf_attr e = {0};
    e.map_fd = (uint32_t)map;
    e.key = (uintptr_t)&key;
    e.value = (uintptr_t)&count;
    if (bpf(BPF_MAP_LOOKUP_ELEM, &e) != 0) fail("read", "map");
    return count;
}

/* Counts from now on, or (settle >= 0) from so many seconds after the first frame. */
static void sink(int interface, double seconds, double settle) {
    union bpf_attr m = {0};
    m.map_type = BPF_MAP_TYPE_ARRAY;
    m.key_size = 4, m.value_size = 8, m.max_entries = 1;
    int map = bpf(BPF_MAP_CREATE, &m);
    if (map < 0) fail("make", "map");
    const struct bpf_insn program[] = {
        {.code = BPF_ST | BPF_MEM | BPF_W, .dst_reg = 10, .off = -4, .imm = 0},
        {.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 2, .src_reg = 10},
        {.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 2, .imm = -4},
        {.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = map},
        {0},
        {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_map_lookup_elem},
        {.code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = 0, .off = 2, .imm = 0},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 1, .imm = 1},
        {.code = BPF_STX | BPF_ATOMIC | BPF_DW, .dst_reg = 0, .src_reg = 1, .imm = BPF_ADD},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = XDP_DROP},
        {.code = BPF_JMP | BPF_EXIT},
    };
    union bpf_attr l = {0};
    l.link_create.prog_fd = (uint32_t)load(program, sizeof program / sizeof *program);
    l.link_create.target_ifindex = (uint32_t)interface;
    l.link_create.attach_type = BPF_XDP;
    /* Held open until the program ends, which takes the program off the interface. */
    if (bpf(BPF_LINK_CREATE, &l) < 0) fail("attach to", "interface");
    fprintf(stderr, "ready\n");
    uint64_t first = 0;
    if (settle >= 0) {
        uint64_t patience = now_ns() + 20000000000u;
        while (counted(map) == 0) {
            if (now_ns() > patience) {
                fprintf(stderr, "no frame came within 20 s\n");
                exit(1);
            }
            usleep(1000);
        }
        usleep((useconds_t)(settle * 1e6));
        first = counted(map);
        fprintf(stderr, "counting\n");
    }
    uint64_t since = now_ns(), until = since + (uint64_t)(seconds * 1e9);
    while (now_ns() < until) usleep(1000);
    report(counted(map) - first, since);
}

static void pass(int interface, uint64_t until) {
    const struct bpf_insn program[] = {
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = XDP_PASS},
        {.code = BPF_JMP | BPF_EXIT},
    };
    union bpf_attr l = {0};
    l.link_create.prog_fd = (uint32_t)load(program, 2);
    l.link_create.target_ifindex = (uint32_t)interface;
    l.link_create.attach_type = BPF_XDP;
    if (bpf(BPF_LINK_CREATE, &l) < 0) fail("attach to", "interface");
    while (now_ns() < until) usleep(1000);
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: frames packet|live|sink|count|pass IF SECONDS [BYTES [FLOWS]|SETTLE]\n");
        return 2;
    }
    int interface = (int)if_nametoindex(argv[2]);
    if (interface == 0) fail("find interface", argv[2]);
    double seconds = number('s', argv[3], 0, SECONDS_MAX);
    if (strcmp(argv[1], "sink") == 0 || strcmp(argv[1], "count") == 0) {
        double settle = strcmp(argv[1], "sink") == 0 ? -1 : argc > 4 ? number('w', argv[4], 0, 60) : 0.1;
        sink(interface, seconds, settle);
        return 0;
    }
    uint64_t until = now_ns() + (uint64_t)(seconds * 1e9);
    unsigned bytes = argc > 4 ? (unsigned)number('b', argv[4], 14, sizeof frame) : 60;
    unsigned flows = argc > 5 ? (unsigned)number('f', argv[5], 1, FLOWS_MOST) : 0;
    if (flows != 0) bytes = (unsigned)number('b', argv[4], 42, FLOW_BYTES);
    if (strcmp(argv[1], "packet") == 0) by_packet(interface, until, bytes, flows);
    else if (strcmp(argv[1], "live") == 0) by_live_frames(interface, until, bytes);
    else if (strcmp(argv[1], "pass") == 0) pass(interface, until);
    else {
        fprintf(stderr, "%s: packet, live, sink, count or pass is wanted\n", argv[1]);
        return 2;
    }
    return 0;
}
