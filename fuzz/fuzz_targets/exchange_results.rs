#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_exchange::fuzz::fuzz_results(data));
