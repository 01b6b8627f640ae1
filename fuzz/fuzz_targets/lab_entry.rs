#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_lab::fuzz::fuzz_entry(data));
