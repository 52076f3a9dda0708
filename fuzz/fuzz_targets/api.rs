#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rowstamp_fuzz::api::check(data));
