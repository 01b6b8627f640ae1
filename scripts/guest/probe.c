/* Sends numbered frames by one interface and records those that arrive at another one.
 *
 *   probe FROM TO PACKETS SPACING_US BURST BYTES WAIT_MS FILE
 *
 * BURST frames leave back to back every SPACING_US; all that arrived until WAIT_MS after the last one is recorded. A frame is UDP over
 * IPv4 and follows from its number alone, so that each changed bit is found. FILE gets records of 16 bytes, little-endian: time (u64,
 * ns on the realtime clock), number (u32), and what it is (u32): 0xffffffff a frame that was sent, 0xfffffffe one that arrived
 * unchanged, 0xfffffffd one that arrived with several changed bits, else the only changed bit, counted from the start of the frame.
 * Arrivals have the kernel's stamps, so they are read when all is over. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { HEADERS = 14 + 20 + 8, LEAST = HEADERS + 16, MOST = 1514, BUFFER = 256 << 20 };
enum { SENT = -1, UNCHANGED = -2, SEVERAL = -3 };
static const char *program = "probe";

struct record {
    uint64_t ns;
    uint32_t number, what;
};

static _Noreturn void fail(const char *operation, const char *object) {
    fprintf(stderr, "%s: %s %s: %s\n", program, operation, object, strerror(errno));
    exit(1);
}

static uint64_t ns(struct timespec t) { return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec; }

static int packet_socket(const char *interface, int protocol) {
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0), size = BUFFER, one = 1;
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons((uint16_t)protocol), .sll_ifindex = (int)if_nametoindex(interface)};
    if (fd < 0 || address.sll_ifindex == 0) fail("open", interface);
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) != 0 || setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) != 0
        || setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one) != 0 || setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one) != 0)
        fail("set options of", interface);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0) fail("bind to", interface);
    return fd;
}

/* The frame of a number. The number is there four times, so that one changed bit does not hide it. */
static void make(uint8_t *frame, uint32_t number, unsigned bytes) {
    static const uint8_t start[HEADERS] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0,
                                           198, 18, 0, 1, 198, 18, 0, 2, 0x27, 0x10, 0x27, 0x11};
    memset(frame, 0, bytes);
    memcpy(frame, start, HEADERS);
    uint16_t length = htons((uint16_t)(bytes - 14)), datagram = htons((uint16_t)(bytes - 34));
    memcpy(frame + 16, &length, 2);
    memcpy(frame + 38, &datagram, 2);
    uint32_t sum = 0;
    for (int i = 14; i < 34; i += 2) sum += (uint32_t)frame[i] << 8 | frame[i + 1];
    sum = (sum & 0xffff) + (sum >> 16);
    uint16_t check = htons((uint16_t)~(sum + (sum >> 16)));
    memcpy(frame + 24, &check, 2);
    for (int i = 0; i < 4; i++) memcpy(frame + HEADERS + 4 * i, &number, 4);
}

/* What an arrived frame is; its number is that of two equal copies. */
static struct record judge(const uint8_t *frame, unsigned bytes) {
    uint32_t copies[4];
    uint8_t whole[MOST];
    memcpy(copies, frame + HEADERS, sizeof copies);
    uint32_t number = copies[0] == copies[1] || copies[0] == copies[2] ? copies[0] : copies[3];
    make(whole, number, bytes);
    uint32_t what = (uint32_t)UNCHANGED;
    for (unsigned bit = 0; bit < 8 * bytes; bit++) {
        if (((frame[bit / 8] ^ whole[bit / 8]) >> bit % 8 & 1) == 0) continue;
        what = what == (uint32_t)UNCHANGED ? bit : (uint32_t)SEVERAL;
    }
    return (struct record){.number = number, .what = what};
}

static void write_record(FILE *file, struct record record) {
    if (fwrite(&record, sizeof record, 1, file) != 1) fail("write", "records");
}

static void receive(int fd, unsigned bytes, FILE *file) {
    uint8_t frame[MOST + 1], control[64];
    for (;;) {
        struct iovec data = {frame, sizeof frame};
        struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        ssize_t got = recvmsg(fd, &message, 0);
        if (got < 0 && errno == EAGAIN) return;
        if (got < 0) fail("receive", "frames");
        /* Frames of others have other lengths. */
        struct cmsghdr *stamp = CMSG_FIRSTHDR(&message);
        if (got != (ssize_t)bytes || stamp == NULL || stamp->cmsg_type != SCM_TIMESTAMPNS) continue;
        struct timespec at;
        memcpy(&at, CMSG_DATA(stamp), sizeof at);
        struct record record = judge(frame, bytes);
        record.ns = ns(at);
        write_record(file, record);
    }
}

int main(int argc, char **argv) {
    if (argc != 9) {
        fprintf(stderr, "usage: probe FROM TO PACKETS SPACING_US BURST BYTES WAIT_MS FILE\n");
        return 2;
    }
    uint32_t packets = (uint32_t)atoi(argv[3]), burst = (uint32_t)atoi(argv[5]), bytes = (uint32_t)atoi(argv[6]);
    uint64_t spacing = (uint64_t)atoi(argv[4]) * 1000, wait = (uint64_t)atoi(argv[7]) * 1000000;
    if (burst == 0 || bytes < LEAST || bytes > MOST) {
        fprintf(stderr, "probe: BURST %u BYTES %u: at least 1 frame, %d to %d bytes\n", burst, bytes, LEAST, MOST);
        return 2;
    }
    int from = packet_socket(argv[1], 0), to = packet_socket(argv[2], ETH_P_ALL);
    FILE *file = fopen(argv[8], "w");
    if (file == NULL) fail("open", argv[8]);
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t next = ns(t) + 10000000;
    for (uint32_t number = 0; number < packets; number++) {
        if (number % burst == 0) {
            t = (struct timespec){(time_t)(next / 1000000000), (long)(next % 1000000000)};
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
            next += spacing;
        }
        uint8_t frame[MOST];
        make(frame, number, bytes);
        clock_gettime(CLOCK_REALTIME, &t);
        if (send(from, frame, bytes, 0) != (ssize_t)bytes) fail("send by", argv[1]);
        write_record(file, (struct record){ns(t), number, (uint32_t)SENT});
    }
    t = (struct timespec){(time_t)(wait / 1000000000), (long)(wait % 1000000000)};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
    receive(to, bytes, file);
    if (fclose(file) != 0) fail("write", argv[8]);
    return 0;
}
