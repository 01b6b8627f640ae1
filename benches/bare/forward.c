/* The bare forwarders: frames from A to B and back, one thread for each direction, nothing else done to them (partial
 * checksums and super-packets pass as they are). What the emulator's links reach is judged as a share of these.
 *
 *   forward tpacket2|tpacket2-ring|xdp-native|xdp-generic A B SECONDS
 *
 * tpacket2 sends by sendmmsg, tpacket2-ring by the memory-mapped ring. Prints frames each way,
 * and `ready` on stderr before the first. */
#include "bare.h"
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { BATCH = 64, SLOTS = 8192, SLOT = 2048, CHUNK = 2048, HALF = 4096, XDP_BATCH = 32 };

static uint64_t until;

static int packet_socket(int interface, int protocol) {
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0), v2 = TPACKET_V2, one = 1;
    if (fd < 0) fail("open", "packet socket");
    setsockopt(fd, SOL_PACKET, PACKET_VERSION, &v2, sizeof v2);
    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one);
    setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof one);
    struct packet_mreq all = {.mr_ifindex = interface, .mr_type = PACKET_MR_PROMISC};
    if (protocol != 0) setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all);
    return fd;
}

static uint8_t *packet_ring(int fd, int which) {
    struct tpacket_req r = {.tp_block_size = 1 << 18, .tp_block_nr = SLOTS * SLOT >> 18, .tp_frame_size = SLOT, .tp_frame_nr = SLOTS};
    if (setsockopt(fd, SOL_PACKET, which, &r, sizeof r) != 0) fail("make", "ring");
    uint8_t *ring = mmap(NULL, (size_t)SLOTS * SLOT, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (ring == MAP_FAILED) fail("map", "ring");
    return ring;
}

static void packet_bind(int fd, int interface, int protocol) {
    struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_ifindex = interface, .sll_protocol = htons((uint16_t)protocol)};
    if (bind(fd, (struct sockaddr *)&at, sizeof at) != 0) fail("bind", "packet socket");
}

struct way {
    int from, to, by_ring, native, mode_xdp;
    uint64_t frames;
    struct xsk *in, *out;
};

static void packets(struct way *w) {
    int in = packet_socket(w->from, ETH_P_ALL), out = packet_socket(w->to, 0);
    uint8_t *ring = packet_ring(in, PACKET_RX_RING), *outward = w->by_ring ? packet_ring(out, PACKET_TX_RING) : NULL;
    packet_bind(in, w->from, ETH_P_ALL);
    packet_bind(out, w->to, 0);
    struct iovec vectors[BATCH];
    struct mmsghdr messages[BATCH];
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < BATCH; i++) messages[i].msg_hdr.msg_iov = &vectors[i], messages[i].msg_hdr.msg_iovlen = 1;
    unsigned at = 0, place = 0;
    while (now_ns() < until) {
        int n = 0;
        for (; n < BATCH; n++) {
            struct tpacket2_hdr *h = (void *)(ring + (size_t)((at + (unsigned)n) % SLOTS) * SLOT);
            if (!(__atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER)) break;
            if (w->by_ring) {
                struct tpacket2_hdr *t = (void *)(outward + (size_t)place * SLOT);
                while (__atomic_load_n(&t->tp_status, __ATOMIC_ACQUIRE) != TP_STATUS_AVAILABLE) {
                    send(out, NULL, 0, MSG_DONTWAIT);
                    if (now_ns() > until) return;
                }
                memcpy((uint8_t *)t + TPACKET2_HDRLEN - sizeof(struct sockaddr_ll), (uint8_t *)h + h->tp_mac, h->tp_snaplen);
                t->tp_len = h->tp_snaplen;
                __atomic_store_n(&t->tp_status, TP_STATUS_SEND_REQUEST, __ATOMIC_RELEASE);
                place = (place + 1) % SLOTS;
            } else {
                vectors[n].iov_base = (uint8_t *)h + h->tp_mac;
                vectors[n].iov_len = h->tp_snaplen;
            }
        }
        if (n == 0) {
            readable(in, 50);
            continue;
        }
        if (w->by_ring) send(out, NULL, 0, MSG_DONTWAIT);
        for (int sent = 0; !w->by_ring && sent < n && now_ns() < until;) {
            int k = sendmmsg(out, messages + sent, (unsigned)(n - sent), MSG_DONTWAIT);
            if (k > 0) sent += k;
            else if (errno != EAGAIN && errno != ENOBUFS) sent++;
        }
        for (int i = 0; i < n; i++) {
            struct tpacket2_hdr *h = (void *)(ring + (size_t)((at + (unsigned)i) % SLOTS) * SLOT);
            __atomic_store_n(&h->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        }
        at = (at + (unsigned)n) % SLOTS;
        w->frames += (uint64_t)n;
    }
}

/* One socket that receives, one that sends, sharing memory: the first half of the chunks is for receiving. */
struct ring {
    uint32_t *producer, *consumer;
    void *entries;
    uint32_t ours;
};
struct xsk {
    int receive, send, map, link;
    uint8_t *memory;
    struct ring rx, tx, fill, done;
    uint64_t spare[HALF];
    unsigned spares;
};

static struct ring map_ring(int fd, struct xdp_ring_offset o, size_t entry, uint64_t page) {
    uint8_t *m = mmap(NULL, o.desc + HALF * entry, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, (off_t)page);
    if (m == MAP_FAILED) fail("map", "AF_XDP ring");
    return (struct ring){(uint32_t *)(m + o.producer), (uint32_t *)(m + o.consumer), m + o.desc, 0};
}

static int bpf(int command, union bpf_attr *attributes) {
    return (int)syscall(SYS_bpf, command, attributes, sizeof *attributes);
}

static struct xsk *xdp(int interface, int native) {
    struct xsk *x = memory(sizeof *x);
    x->memory = memory((size_t)2 * HALF * CHUNK);
    x->receive = socket(AF_XDP, SOCK_RAW, 0);
    x->send = socket(AF_XDP, SOCK_RAW, 0);
    struct xdp_umem_reg reg = {.addr = (uintptr_t)x->memory, .len = (uint64_t)2 * HALF * CHUNK, .chunk_size = CHUNK};
    int size = HALF;
    struct xdp_mmap_offsets o;
    socklen_t len = sizeof o;
    if (setsockopt(x->receive, SOL_XDP, XDP_UMEM_REG, &reg, sizeof reg) != 0) fail("register", "memory");
    setsockopt(x->receive, SOL_XDP, XDP_UMEM_FILL_RING, &size, sizeof size);
    setsockopt(x->receive, SOL_XDP, XDP_UMEM_COMPLETION_RING, &size, sizeof size);
    setsockopt(x->receive, SOL_XDP, XDP_RX_RING, &size, sizeof size);
    setsockopt(x->send, SOL_XDP, XDP_TX_RING, &size, sizeof size);
    if (getsockopt(x->receive, SOL_XDP, XDP_MMAP_OFFSETS, &o, &len) != 0) fail("lay out", "AF_XDP rings");
    x->rx = map_ring(x->receive, o.rx, sizeof(struct xdp_desc), XDP_PGOFF_RX_RING);
    x->fill = map_ring(x->receive, o.fr, 8, XDP_UMEM_PGOFF_FILL_RING);
    x->done = map_ring(x->receive, o.cr, 8, XDP_UMEM_PGOFF_COMPLETION_RING);
    x->tx = map_ring(x->send, o.tx, sizeof(struct xdp_desc), XDP_PGOFF_TX_RING);
    for (unsigned i = 0; i < HALF; i++) {
        ((uint64_t *)x->fill.entries)[i] = (uint64_t)i * CHUNK;
        x->spare[i] = (uint64_t)(HALF + i) * CHUNK;
    }
    x->spares = HALF;
    x->fill.ours = HALF;
    __atomic_store_n(x->fill.producer, HALF, __ATOMIC_RELEASE);
    struct sockaddr_xdp at = {.sxdp_family = AF_XDP, .sxdp_ifindex = (uint32_t)interface, .sxdp_flags = XDP_COPY | XDP_USE_NEED_WAKEUP};
    int tries = 0;
    while (bind(x->receive, (struct sockaddr *)&at, sizeof at) != 0) {
        if (errno != EBUSY || ++tries > 100) fail("bind", "AF_XDP");
        usleep(20000);
    }
    at.sxdp_flags = XDP_SHARED_UMEM;
    at.sxdp_shared_umem_fd = (uint32_t)x->receive;
    if (bind(x->send, (struct sockaddr *)&at, sizeof at) != 0) fail("bind to send", "AF_XDP");

    union bpf_attr m = {0}, e = {0}, p = {0}, l = {0};
    m.map_type = BPF_MAP_TYPE_XSKMAP;
    m.key_size = 4, m.value_size = 4, m.max_entries = 1;
    x->map = bpf(BPF_MAP_CREATE, &m);
    uint32_t zero = 0;
    e.map_fd = (uint32_t)x->map, e.key = (uintptr_t)&zero, e.value = (uintptr_t)&x->receive;
    if (x->map < 0 || bpf(BPF_MAP_UPDATE_ELEM, &e) != 0) fail("make", "map of sockets");
    const struct bpf_insn program[] = {
        {.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = 2, .src_reg = 1, .off = 16},
        {.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = x->map},
        {0},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 3, .imm = XDP_DROP},
        {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect_map},
        {.code = BPF_JMP | BPF_EXIT},
    };
    p.prog_type = BPF_PROG_TYPE_XDP, p.insns = (uintptr_t)program, p.insn_cnt = 6, p.license = (uintptr_t) "GPL";
    l.link_create.prog_fd = (uint32_t)bpf(BPF_PROG_LOAD, &p);
    l.link_create.target_ifindex = (uint32_t)interface;
    l.link_create.attach_type = BPF_XDP;
    l.link_create.flags = native ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE;
    x->link = bpf(BPF_LINK_CREATE, &l);
    if (x->link < 0) fail("attach to", "interface");
    return x;
}

static void through_xdp(struct way *w) {
    struct xsk *in = w->in, *out = w->out;
    while (now_ns() < until) {
        uint32_t there = __atomic_load_n(in->rx.producer, __ATOMIC_ACQUIRE) - in->rx.ours;
        if (there == 0) {
            readable(in->receive, 50);
            continue;
        }
        if (there > XDP_BATCH) there = XDP_BATCH;
        uint32_t done = __atomic_load_n(out->done.producer, __ATOMIC_ACQUIRE);
        while (out->done.ours != done) out->spare[out->spares++] = ((uint64_t *)out->done.entries)[out->done.ours++ % HALF];
        __atomic_store_n(out->done.consumer, done, __ATOMIC_RELEASE);
        if (out->spares < there) there = out->spares;
        for (uint32_t i = 0; i < there; i++) {
            struct xdp_desc *d = &((struct xdp_desc *)in->rx.entries)[in->rx.ours++ % HALF];
            uint64_t chunk = out->spare[--out->spares];
            memcpy(out->memory + chunk, in->memory + d->addr, d->len);
            ((struct xdp_desc *)out->tx.entries)[out->tx.ours++ % HALF] = (struct xdp_desc){chunk, d->len, 0};
            ((uint64_t *)in->fill.entries)[in->fill.ours++ % HALF] = d->addr & ~(uint64_t)(CHUNK - 1);
        }
        __atomic_store_n(in->rx.consumer, in->rx.ours, __ATOMIC_RELEASE);
        __atomic_store_n(in->fill.producer, in->fill.ours, __ATOMIC_RELEASE);
        __atomic_store_n(out->tx.producer, out->tx.ours, __ATOMIC_RELEASE);
        while (__atomic_load_n(out->tx.consumer, __ATOMIC_ACQUIRE) != out->tx.ours && now_ns() < until)
            sendto(out->send, NULL, 0, MSG_DONTWAIT, NULL, 0);
        w->frames += there;
    }
}

static void *run(void *argument) {
    struct way *w = argument;
    if (w->mode_xdp) through_xdp(w);
    else packets(w);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: forward tpacket2|tpacket2-ring|xdp-native|xdp-generic A B SECONDS\n");
        return 2;
    }
    int a = (int)if_nametoindex(argv[2]), b = (int)if_nametoindex(argv[3]);
    if (a == 0) fail("find interface", argv[2]);
    if (b == 0) fail("find interface", argv[3]);
    struct way there = {.from = a, .to = b}, back = {.from = b, .to = a};
    there.by_ring = back.by_ring = strcmp(argv[1], "tpacket2-ring") == 0;
    there.mode_xdp = back.mode_xdp = strncmp(argv[1], "xdp-", 4) == 0;
    if (!there.mode_xdp && strncmp(argv[1], "tpacket2", 8) != 0) {
        fprintf(stderr, "%s: no forwarder of that name\n", argv[1]);
        return 2;
    }
    if (there.mode_xdp) {
        int native = strcmp(argv[1], "xdp-native") == 0;
        struct xsk *xa = xdp(a, native), *xb = xdp(b, native);
        there.in = back.out = xa;
        there.out = back.in = xb;
    }
    until = now_ns() + (uint64_t)(number('s', argv[4], 0, SECONDS_MAX) * 1e9);
    fprintf(stderr, "ready\n");
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, run, &there);
    pthread_create(&threads[1], NULL, run, &back);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    printf("{\"there\": %llu, \"back\": %llu}\n", (unsigned long long)there.frames, (unsigned long long)back.frames);
    return 0;
}
