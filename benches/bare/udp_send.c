/* Bare limit of per-packet sending: one datagram a message, sendmmsg. */
#include "udp_send.h"

int main(int argc, char **argv) { return udp_send_main(argc, argv, 0); }
