/* Bare limit of per-packet receiving: recvmmsg, one datagram a message. */
#include "udp_recv.h"

int main(int argc, char **argv) { return udp_recv_main(argc, argv, 0); }
