//! A stream as it comes out of a socket: in slices.

use crate::input::Input;

/// How many slices a stream is cut into at most.
pub const SLICES_MAX: usize = 64;

/// One byte: how long a slice is, from all at once to byte by byte.
pub fn cut<'a>(input: &mut Input<'_>, stream: &'a [u8]) -> Vec<&'a [u8]> {
    let wanted = usize::from(input.byte());
    if wanted == 0 {
        return vec![stream];
    }
    stream.chunks(wanted.max(stream.len().div_ceil(SLICES_MAX))).collect()
}
