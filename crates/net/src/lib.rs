//! Sockets, offloads, timestamps, clocks, namespaces, host facts; one interface per platform.
