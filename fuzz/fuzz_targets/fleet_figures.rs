#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fleet::fuzz::fuzz_figures(data));
