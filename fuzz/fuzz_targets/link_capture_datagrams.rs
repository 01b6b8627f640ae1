#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_link::fuzz::fuzz_capture_datagrams(data));
