/* Bare limit of TCP sending: -P threads, each writing one connection by copy or by sendfile. */
#include "bare.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/sendfile.h>

#define STREAMS_MAX 256

static const char *host = "127.0.0.1", *port = DEFAULT_PORT;
static size_t block = 131072;
static int by_sendfile;
static double seconds = 1;
static int sockets[STREAMS_MAX];
static uint64_t sent[STREAMS_MAX];

static void *stream(void *argument) {
    size_t index = (size_t)(uintptr_t)argument;
    int fd = sockets[index], file = -1;
    char *data = NULL;
    if (by_sendfile) {
        file = memfd_create("block", MFD_CLOEXEC);
        if (file < 0 || ftruncate(file, (off_t)block) != 0) fail("make file for", host);
        /* Pages must exist: a hole would be filled during the run. */
        void *map = mmap(NULL, block, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (map == MAP_FAILED) fail("map file for", host);
        memset(map, 'w', block);
        munmap(map, block);
    } else {
        data = memory(block);
    }
    uint64_t end = now_ns() + (uint64_t)(seconds * 1e9), total = 0;
    do {
        off_t offset = 0;
        ssize_t n = by_sendfile ? sendfile(fd, file, &offset, block) : send(fd, data, block, MSG_NOSIGNAL);
        if (n <= 0) {
            if (errno == EINTR) continue;
            fail("send to", host);
        }
        total += (uint64_t)n;
    } while (now_ns() < end);
    sent[index] = total;
    shutdown(fd, SHUT_WR);
    /* The peer's end of file says that all was read. */
    char byte;
    while (recv(fd, &byte, 1, 0) > 0) {}
    free(data);
    if (file >= 0) close(file);
    return NULL;
}

int main(int argc, char **argv) {
    int streams = 1, buffer = 0, flag;
    while ((flag = getopt(argc, argv, "c:p:t:l:P:m:w:")) != -1) {
        switch (flag) {
        case 'c': host = optarg; break;
        case 'p': port = optarg; break;
        case 't': seconds = number('t', optarg, 0.01, SECONDS_MAX); break;
        case 'l': block = (size_t)number('l', optarg, 1, 1 << 30); break;
        case 'P': streams = (int)number('P', optarg, 1, STREAMS_MAX); break;
        case 'w': buffer = (int)number('w', optarg, 0, 1 << 30); break;
        case 'm':
            if (strcmp(optarg, "copy") != 0 && strcmp(optarg, "sendfile") != 0) {
                fprintf(stderr, "-m %s: copy or sendfile is wanted\n", optarg);
                return 2;
            }
            by_sendfile = strcmp(optarg, "sendfile") == 0;
            break;
        default:
            fprintf(stderr, "usage: %s -c address [-p port] [-t seconds] [-l bytes per call] [-P streams]"
                            " [-m copy|sendfile] [-w socket buffer bytes, 0: the system's]\n", argv[0]);
            return 2;
        }
    }
    for (int i = 0; i < streams; i++) sockets[i] = open_socket(host, port, SOCK_STREAM, buffer);
    pthread_t threads[STREAMS_MAX];
    uint64_t start = now_ns(), total = 0;
    for (int i = 0; i < streams; i++)
        if ((errno = pthread_create(&threads[i], NULL, stream, (void *)(uintptr_t)i)) != 0) fail("start thread for", host);
    for (int i = 0; i < streams; i++) pthread_join(threads[i], NULL);
    double took = (double)(now_ns() - start) / 1e9;
    for (int i = 0; i < streams; i++) total += sent[i];
    printf("{\"program\":\"tcp_send\",\"method\":\"%s\",\"streams\":%d,\"bytes\":%llu,\"seconds\":%.6f,\"bits_per_second\":%.0f}\n",
           by_sendfile ? "sendfile" : "copy", streams, (unsigned long long)total, took, (double)total * 8 / took);
    return 0;
}
