#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_report::fuzz::fuzz_histogram(data));
