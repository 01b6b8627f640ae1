#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_net::fuzz::fuzz_restoration(data));
