#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_model::fuzz::fuzz_delivery_trace(data));
