/* Bare limit of merged receiving: UDP_GRO, recvmmsg, datagrams counted by segment size. */
#include "udp_recv.h"

int main(int argc, char **argv) { return udp_recv_main(argc, argv, 1); }
