//! Bytes to values and back: the native data header, control messages, packet views, checksums. No I/O.
