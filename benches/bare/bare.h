/* What every bare program shares: clock, flags, addresses, failing loudly.
 *
 * The bare programs are limits, not tools: they move bytes the way weir does and count packets, nothing
 * else. What weir reaches is judged as a share of what these reach in the same run. */
#ifndef BARE_H
#define BARE_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_PORT "9347"
#define DEFAULT_SOCKET_BUFFER (32 << 20)
#define SECONDS_MAX 3600.0

/* Names the operation, its object and the reason; every failure ends the program. */
static inline _Noreturn void fail(const char *operation, const char *object) {
    fprintf(stderr, "%s %s: %s\n", operation, object, strerror(errno));
    exit(1);
}

static inline uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A number in [low, high], or exit 2 naming the flag. */
static inline double number(char flag, const char *text, double low, double high) {
    char *end = NULL;
    errno = 0;
    double value = strtod(text, &end);
    if (errno != 0 || end == text || *end != '\0' || !(value >= low && value <= high)) {
        fprintf(stderr, "-%c %s: a number from %g to %g is wanted\n", flag, text, low, high);
        exit(2);
    }
    return value;
}

/* A connected (host given) or bound (host NULL) socket. No names are resolved: addresses only. */
static inline int open_socket(const char *host, const char *port, int type, int buffer_bytes) {
    struct addrinfo hints = {.ai_family = host != NULL ? AF_UNSPEC : AF_INET6, .ai_socktype = type,
                             .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | (host != NULL ? 0 : AI_PASSIVE)};
    struct addrinfo *found = NULL;
    int code = getaddrinfo(host, port, &hints, &found);
    if (code != 0) {
        fprintf(stderr, "address %s port %s: %s\n", host != NULL ? host : "any", port, gai_strerror(code));
        exit(2);
    }
    int fd = socket(found->ai_family, type | SOCK_CLOEXEC, 0);
    if (fd < 0) fail("open socket for port", port);
    int one = 1, zero = 0;
    if (host == NULL) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    }
    if (buffer_bytes > 0) {
        /* The forced form passes net.core.rmem_max; without the right to it, take what is given. */
        if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer_bytes, sizeof buffer_bytes) != 0)
            setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
        if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer_bytes, sizeof buffer_bytes) != 0)
            setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
    }
    if (host != NULL) {
        if (connect(fd, found->ai_addr, found->ai_addrlen) != 0) fail("connect", host);
    } else {
        if (bind(fd, found->ai_addr, found->ai_addrlen) != 0) fail("bind port", port);
        if (type == SOCK_STREAM && listen(fd, 128) != 0) fail("listen on port", port);
    }
    freeaddrinfo(found);
    return fd;
}

/* Zeroed memory that is touched once, so that no page fault falls into the measured time. */
static inline void *memory(size_t bytes) {
    void *block = NULL;
    if (posix_memalign(&block, 4096, bytes) != 0) {
        fprintf(stderr, "memory: %zu bytes are not to be had\n", bytes);
        exit(1);
    }
    memset(block, 0, bytes);
    return block;
}

/* Non-zero once something is readable; 0 after `milliseconds` of silence. */
static inline int readable(int fd, int milliseconds) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int n;
    do n = poll(&p, 1, milliseconds);
    while (n < 0 && errno == EINTR);
    if (n < 0) fail("poll", "socket");
    return n;
}
#endif
