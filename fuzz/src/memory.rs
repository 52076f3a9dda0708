//! How much memory an input takes.

use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// What an input may take beside what its size explains: lanes, buffers of the runtime, tables that are made once.
pub const SOME_BYTES: usize = 1 << 20;

/// Runs it, and panics where it held more than this at once, beside what was there before.
pub fn within<T>(bytes_max: usize, run: impl FnOnce() -> T) -> T {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let result = run();
    let most = ALLOCATOR.peak_usage().saturating_sub(before);
    assert!(most <= bytes_max, "{most} bytes of memory, {bytes_max} at most");
    result
}
