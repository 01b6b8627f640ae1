#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_wire::fuzz::fuzz_ditg_log(data));
