/* The one judge of spacing for every sender: kernel receive stamps of one interface, gaps between packets.
 *
 * TPACKET_V3 on purpose: it wakes this program by block, seldom, so that the judge takes no time from those
 * it judges; stamps are made in the receive path, not when they are read. */
#include "bare.h"
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <math.h>
#include <net/if.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#define BLOCK_BYTES (1u << 18)
#define BLOCKS 64u
#define PACKETS_MAX (1u << 24)

static volatile sig_atomic_t stopped;
static void stop(int signal_number) {
    (void)signal_number;
    stopped = 1;
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double quantile(const uint64_t *sorted, size_t n, double q) {
    double at = q * (double)(n - 1);
    size_t low = (size_t)floor(at), high = low + 1 < n ? low + 1 : low;
    return (double)sorted[low] + (at - (double)low) * ((double)sorted[high] - (double)sorted[low]);
}

/* UDP to `port` with `payload` bytes (0: any of either)? Frames are outside bytes: every length is checked. */
static int wanted(const uint8_t *frame, size_t length, unsigned port, unsigned payload) {
    if (length < 14) return 0;
    unsigned type = (unsigned)frame[12] << 8 | frame[13];
    const uint8_t *ip = frame + 14;
    size_t rest = length - 14, header;
    if (type == ETH_P_IP) {
        if (rest < 20 || ip[9] != IPPROTO_UDP) return 0;
        header = (size_t)(ip[0] & 15) * 4;
        if (header < 20) return 0;
    } else if (type == ETH_P_IPV6) {
        if (rest < 40 || ip[6] != IPPROTO_UDP) return 0;
        header = 40;
    } else {
        return 0;
    }
    if (rest < header + 8) return 0;
    const uint8_t *udp = ip + header;
    unsigned destination = (unsigned)udp[2] << 8 | udp[3], bytes = (unsigned)udp[4] << 8 | udp[5];
    return (port == 0 || destination == port) && (payload == 0 || bytes == payload + 8);
}

int main(int argc, char **argv) {
    const char *interface = NULL;
    double seconds = 10;
    unsigned port = 0, payload = 0;
    int flag;
    while ((flag = getopt(argc, argv, "i:t:p:l:")) != -1) {
        switch (flag) {
        case 'i': interface = optarg; break;
        case 't': seconds = number('t', optarg, 0.01, SECONDS_MAX); break;
        case 'p': port = (unsigned)number('p', optarg, 0, 65535); break;
        case 'l': payload = (unsigned)number('l', optarg, 0, 65507); break;
        default: interface = NULL; optind = argc;
        }
    }
    if (interface == NULL) {
        fprintf(stderr, "usage: %s -i interface [-t seconds] [-p UDP destination port] [-l payload bytes]\n"
                        "SIGTERM or SIGINT ends the capture early; the result is printed.\n", argv[0]);
        return 2;
    }
    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);

    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (fd < 0) fail("open packet socket on", interface);
    int version = TPACKET_V3, one = 1;
    if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version) != 0) fail("set TPACKET_V3 on", interface);
    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one);
    struct tpacket_req3 ring = {.tp_block_size = BLOCK_BYTES, .tp_block_nr = BLOCKS, .tp_frame_size = 2048,
                                .tp_frame_nr = BLOCK_BYTES / 2048 * BLOCKS, .tp_retire_blk_tov = 50};
    if (setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &ring, sizeof ring) != 0) fail("make receive ring on", interface);
    uint8_t *map = mmap(NULL, (size_t)BLOCK_BYTES * BLOCKS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (map == MAP_FAILED) fail("map receive ring of", interface);
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)if_nametoindex(interface)};
    if (address.sll_ifindex == 0) fail("find interface", interface);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0) fail("bind to", interface);
    fprintf(stderr, "ready\n"); /* the harness waits for this line before it starts a sender */

    uint64_t *stamps = malloc(PACKETS_MAX * sizeof *stamps); /* pages come as they are written */
    if (stamps == NULL) fail("memory for stamps of", interface);
    size_t n = 0;
    unsigned block_index = 0;
    uint64_t limit = now_ns() + (uint64_t)(seconds * 1e9);
    int last_round = 0;
    while (n < PACKETS_MAX) {
        struct tpacket_block_desc *block = (void *)(map + (size_t)block_index * BLOCK_BYTES);
        if ((__atomic_load_n(&block->hdr.bh1.block_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER) == 0) {
            if (last_round) break;
            struct pollfd p = {.fd = fd, .events = POLLIN};
            poll(&p, 1, 100);
            /* One more look after the end: a block is handed over up to 50 ms after its first packet. */
            if (stopped || now_ns() >= limit) {
                usleep(120000);
                last_round = 1;
            }
            continue;
        }
        struct tpacket3_hdr *packet = (void *)((uint8_t *)block + block->hdr.bh1.offset_to_first_pkt);
        for (uint32_t i = 0; i < block->hdr.bh1.num_pkts && n < PACKETS_MAX; i++) {
            if (wanted((uint8_t *)packet + packet->tp_mac, packet->tp_snaplen, port, payload))
                stamps[n++] = (uint64_t)packet->tp_sec * 1000000000u + packet->tp_nsec;
            packet = (void *)((uint8_t *)packet + packet->tp_next_offset);
        }
        __atomic_store_n(&block->hdr.bh1.block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        block_index = (block_index + 1) % BLOCKS;
    }
    struct tpacket_stats_v3 stats = {0};
    socklen_t size = sizeof stats;
    getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &size);
    if (n < 3) {
        fprintf(stderr, "%zu matching packets came to %s: no spacing to tell\n", n, interface);
        return 3;
    }
    double took = (double)(stamps[n - 1] - stamps[0]) / 1e9;
    for (size_t i = 0; i + 1 < n; i++) stamps[i] = stamps[i + 1] > stamps[i] ? stamps[i + 1] - stamps[i] : 0;
    size_t gaps = n - 1;
    qsort(stamps, gaps, sizeof *stamps, compare);
    double p16 = quantile(stamps, gaps, 0.16), p84 = quantile(stamps, gaps, 0.84);
    printf("{\"program\":\"spacing\",\"packets\":%zu,\"seconds\":%.9f,\"packets_per_second\":%.4f,"
           "\"spacing_deviation_seconds\":%.9f,\"gap_p1_seconds\":%.9f,\"gap_p16_seconds\":%.9f,\"gap_p50_seconds\":%.9f,"
           "\"gap_p84_seconds\":%.9f,\"gap_p99_seconds\":%.9f,\"gap_max_seconds\":%.9f,\"dropped_packets\":%u}\n",
           n, took, (double)gaps / took, (p84 - p16) / 2e9, quantile(stamps, gaps, 0.01) / 1e9, p16 / 1e9,
           quantile(stamps, gaps, 0.5) / 1e9, p84 / 1e9, quantile(stamps, gaps, 0.99) / 1e9,
           (double)stamps[gaps - 1] / 1e9, stats.tp_drops);
    return 0;
}
