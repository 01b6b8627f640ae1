/* The receiver's loop of udp_recv.c and udp_gro_recv.c: recvmmsg into large buffers, packets counted. */
#ifndef UDP_RECV_H
#define UDP_RECV_H
#include "bare.h"
#include <netinet/udp.h>

#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#define MESSAGE_BYTES 65536
#define BATCH_MAX 1024
#define WAIT_MAX_SECONDS 10.0
#define SILENCE_MS 250

/* Ends -t seconds after the first packet, or after 250 ms of silence; its rate is from first to last packet. */
static inline int udp_recv_main(int argc, char **argv, int merged) {
    const char *port = DEFAULT_PORT;
    double seconds = 10;
    int batch = 64, buffer = DEFAULT_SOCKET_BUFFER, flag;
    while ((flag = getopt(argc, argv, "p:t:m:w:")) != -1) {
        switch (flag) {
        case 'p': port = optarg; break;
        case 't': seconds = number('t', optarg, 0.01, SECONDS_MAX); break;
        case 'm': batch = (int)number('m', optarg, 1, BATCH_MAX); break;
        case 'w': buffer = (int)number('w', optarg, 0, 1 << 30); break;
        default:
            fprintf(stderr, "usage: %s [-p port] [-t seconds] [-m messages per call] [-w socket buffer bytes]\n", argv[0]);
            return 2;
        }
    }
    int fd = open_socket(NULL, port, SOCK_DGRAM, buffer), one = 1;
    if (merged && setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof one) != 0) fail("set UDP_GRO on port", port);
    size_t control_bytes = CMSG_SPACE(sizeof(int));
    char *data = memory((size_t)batch * MESSAGE_BYTES), *control = memory((size_t)batch * control_bytes);
    struct iovec vectors[BATCH_MAX];
    struct mmsghdr messages[BATCH_MAX];
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < batch; i++) {
        vectors[i] = (struct iovec){.iov_base = data + (size_t)i * MESSAGE_BYTES, .iov_len = MESSAGE_BYTES};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &vectors[i], .msg_iovlen = 1};
    }
    uint64_t first = 0, last = 0, packets = 0, bytes = 0, skbs = 0, calls = 0, end = 0;
    if (readable(fd, (int)(WAIT_MAX_SECONDS * 1e3)) == 0) {
        fprintf(stderr, "no packet came to port %s within %g s\n", port, WAIT_MAX_SECONDS);
        return 3;
    }
    for (;;) {
        if (merged)
            for (int i = 0; i < batch; i++) {
                messages[i].msg_hdr.msg_control = control + (size_t)i * control_bytes;
                messages[i].msg_hdr.msg_controllen = control_bytes;
            }
        int n = recvmmsg(fd, messages, (unsigned)batch, MSG_DONTWAIT, NULL);
        if (n <= 0) {
            if (errno != EAGAIN && errno != EINTR && errno != ECONNREFUSED) fail("receive on port", port);
            if (readable(fd, SILENCE_MS) == 0) break;
            continue;
        }
        calls++;
        last = now_ns();
        if (first == 0) {
            first = last;
            end = first + (uint64_t)(seconds * 1e9);
        }
        for (int i = 0; i < n; i++) {
            unsigned length = messages[i].msg_len;
            unsigned segment = 0;
            if (merged)
                for (struct cmsghdr *c = CMSG_FIRSTHDR(&messages[i].msg_hdr); c != NULL; c = CMSG_NXTHDR(&messages[i].msg_hdr, c))
                    if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
                        int size;
                        memcpy(&size, CMSG_DATA(c), sizeof size);
                        segment = (unsigned)size;
                    }
            packets += segment > 0 && length > 0 ? (length + segment - 1) / segment : 1;
            bytes += length;
            skbs++;
        }
        if (last >= end) break;
    }
    double took = (double)(last - first) / 1e9;
    printf("{\"program\":\"%s\",\"packets\":%llu,\"bytes\":%llu,\"seconds\":%.6f,\"packets_per_second\":%.1f,"
           "\"messages\":%llu,\"io_calls\":%llu}\n",
           merged ? "udp_gro_recv" : "udp_recv", (unsigned long long)packets, (unsigned long long)bytes, took,
           took > 0 ? (double)packets / took : 0.0, (unsigned long long)skbs, (unsigned long long)calls);
    return 0;
}
#endif
