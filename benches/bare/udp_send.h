/* The sender's loop of udp_send.c and udp_gso_send.c: sendmmsg of one prepared batch until the time is up. */
#ifndef UDP_SEND_H
#define UDP_SEND_H
#include "bare.h"
#include <netinet/udp.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#define UDP_PAYLOAD_MAX 65507
#define SEGMENTS_MAX 128 /* UDP_MAX_SEGMENTS since Linux 6.9; 64 before */
#define BATCH_MAX 1024

/* With `merged` each message carries several segments of -l bytes, else one datagram. */
static inline int udp_send_main(int argc, char **argv, int merged) {
    const char *host = "127.0.0.1", *port = DEFAULT_PORT;
    double seconds = 1;
    int payload = 160, segments = 0, batch = merged ? 16 : 64, buffer = DEFAULT_SOCKET_BUFFER, flag;
    while ((flag = getopt(argc, argv, "c:p:t:l:s:m:w:")) != -1) {
        switch (flag) {
        case 'c': host = optarg; break;
        case 'p': port = optarg; break;
        case 't': seconds = number('t', optarg, 0.01, SECONDS_MAX); break;
        case 'l': payload = (int)number('l', optarg, 1, UDP_PAYLOAD_MAX); break;
        case 's': segments = (int)number('s', optarg, 1, SEGMENTS_MAX); break;
        case 'm': batch = (int)number('m', optarg, 1, BATCH_MAX); break;
        case 'w': buffer = (int)number('w', optarg, 0, 1 << 30); break;
        default:
            fprintf(stderr, "usage: %s -c address [-p port] [-t seconds] [-l payload bytes] [-m messages per call]"
                            " [-w socket buffer bytes]%s\n", argv[0], merged ? " [-s segments per message]" : "");
            return 2;
        }
    }
    int fit = UDP_PAYLOAD_MAX / payload;
    if (!merged) segments = 1;
    else if (segments == 0) segments = fit < SEGMENTS_MAX ? fit : SEGMENTS_MAX;
    if (segments > fit) segments = fit;

    int fd = open_socket(host, port, SOCK_DGRAM, buffer);
    /* The socket option, not a control message: nothing is parsed per call. */
    if (merged && setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &payload, sizeof payload) != 0) fail("set UDP_SEGMENT on", host);
    struct iovec one = {.iov_base = memory((size_t)payload * (size_t)segments), .iov_len = (size_t)payload * (size_t)segments};
    struct mmsghdr messages[BATCH_MAX];
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < batch; i++) messages[i].msg_hdr = (struct msghdr){.msg_iov = &one, .msg_iovlen = 1};

    uint64_t start = now_ns(), end = start + (uint64_t)(seconds * 1e9), sent = 0, calls = 0, now = start;
    do {
        int n = sendmmsg(fd, messages, (unsigned)batch, 0);
        calls++;
        if (n < 0 && errno == EINVAL && segments > 64) { /* before Linux 6.9 */
            segments = 64;
            one.iov_len = (size_t)payload * 64;
            continue;
        }
        if (n > 0) sent += (uint64_t)n * (uint64_t)segments;
        /* A full buffer or a receiver that has left is not the sender's end: the receiver's count is the result. */
        else if (errno != EAGAIN && errno != ENOBUFS && errno != EINTR && errno != ECONNREFUSED) fail("send to", host);
        now = now_ns();
    } while (now < end);
    double took = (double)(now - start) / 1e9;
    printf("{\"program\":\"%s\",\"packets\":%llu,\"payload_bytes\":%d,\"seconds\":%.6f,\"packets_per_second\":%.1f,"
           "\"io_calls\":%llu,\"segments_per_message\":%d,\"messages_per_call\":%d}\n",
           merged ? "udp_gso_send" : "udp_send", (unsigned long long)sent, payload, took, (double)sent / took,
           (unsigned long long)calls, segments, batch);
    return 0;
}
#endif
