#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| folklore_fuzz::store::summary(bytes));
