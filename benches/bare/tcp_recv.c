/* Bare limit of TCP receiving: -P threads, each reading one connection by copy or discarding with MSG_TRUNC. */
#include "bare.h"
#include <pthread.h>

#define STREAMS_MAX 256
#define WAIT_MS 10000

static size_t block = 131072;
static int discard;
static double seconds = SECONDS_MAX;
static int sockets[STREAMS_MAX];
static uint64_t received[STREAMS_MAX], firsts[STREAMS_MAX], lasts[STREAMS_MAX];

static void *stream(void *argument) {
    size_t index = (size_t)(uintptr_t)argument;
    int fd = sockets[index];
    char *data = memory(block);
    uint64_t total = 0, first = 0, last = 0;
    for (;;) {
        ssize_t n = recv(fd, data, block, discard ? MSG_TRUNC : 0);
        if (n == 0) break;
        if (n < 0) {
            if (errno == EINTR) continue;
            fail("receive from", "stream");
        }
        last = now_ns();
        /* The time starts at the first arrival, so its bytes are not in the rate's numerator. */
        if (first == 0) first = last;
        else total += (uint64_t)n;
        if ((double)(last - first) > seconds * 1e9) break;
    }
    received[index] = total;
    firsts[index] = first;
    lasts[index] = last;
    close(fd);
    free(data);
    return NULL;
}

int main(int argc, char **argv) {
    const char *port = DEFAULT_PORT;
    int streams = 1, buffer = 0, flag;
    while ((flag = getopt(argc, argv, "p:t:l:P:m:w:")) != -1) {
        switch (flag) {
        case 'p': port = optarg; break;
        case 't': seconds = number('t', optarg, 0.01, SECONDS_MAX); break;
        case 'l': block = (size_t)number('l', optarg, 1, 1 << 30); break;
        case 'P': streams = (int)number('P', optarg, 1, STREAMS_MAX); break;
        case 'w': buffer = (int)number('w', optarg, 0, 1 << 30); break;
        case 'm':
            if (strcmp(optarg, "copy") != 0 && strcmp(optarg, "discard") != 0) {
                fprintf(stderr, "-m %s: copy or discard is wanted\n", optarg);
                return 2;
            }
            discard = strcmp(optarg, "discard") == 0;
            break;
        default:
            fprintf(stderr, "usage: %s [-p port] [-t seconds] [-l bytes per call] [-P streams] [-m copy|discard]"
                            " [-w socket buffer bytes, 0: the system's]\n", argv[0]);
            return 2;
        }
    }
    int listener = open_socket(NULL, port, SOCK_STREAM, buffer);
    for (int i = 0; i < streams; i++) {
        if (readable(listener, WAIT_MS) == 0) {
            fprintf(stderr, "%d of %d connections came to port %s within %d ms\n", i, streams, port, WAIT_MS);
            return 3;
        }
        if ((sockets[i] = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0) fail("accept on port", port);
    }
    pthread_t threads[STREAMS_MAX];
    for (int i = 0; i < streams; i++)
        if ((errno = pthread_create(&threads[i], NULL, stream, (void *)(uintptr_t)i)) != 0) fail("start thread on port", port);
    uint64_t first = UINT64_MAX, last = 0, total = 0;
    for (int i = 0; i < streams; i++) {
        pthread_join(threads[i], NULL);
        total += received[i];
        if (firsts[i] != 0 && firsts[i] < first) first = firsts[i];
        if (lasts[i] > last) last = lasts[i];
    }
    double took = last > first ? (double)(last - first) / 1e9 : 0;
    printf("{\"program\":\"tcp_recv\",\"method\":\"%s\",\"streams\":%d,\"bytes\":%llu,\"seconds\":%.6f,\"bits_per_second\":%.0f}\n",
           discard ? "discard" : "copy", streams, (unsigned long long)total, took, took > 0 ? (double)total * 8 / took : 0.0);
    return 0;
}
