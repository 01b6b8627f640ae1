//! The running generator and answering side: sockets, threads, sessions.
