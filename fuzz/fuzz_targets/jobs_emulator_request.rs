#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_jobs::fuzz::fuzz_emulator_request(data));
