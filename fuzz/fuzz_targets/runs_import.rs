#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_runs::fuzz::fuzz_import(data));
