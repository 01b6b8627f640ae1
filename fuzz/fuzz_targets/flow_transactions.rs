#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_flow::fuzz::fuzz_transactions(data));
