/* Bare limit of merged sending: UDP_SEGMENT, many datagrams a message, sendmmsg. */
#include "udp_send.h"

int main(int argc, char **argv) { return udp_send_main(argc, argv, 1); }
