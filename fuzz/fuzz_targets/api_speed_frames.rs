#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_api::speed::fuzz::fuzz_speed_frames(data));
