//! Lines of a file of any size, each kept up to a limit.

use std::io::{self, BufRead, Read};

pub(crate) struct Line<'a> {
    /// Without its end.
    pub(crate) bytes: &'a [u8],
    /// Counted from 1.
    pub(crate) number: u64,
    /// The line was longer than the limit, and is not whole.
    pub(crate) is_cut: bool,
}

pub(crate) struct Lines<R> {
    from: R,
    line: Vec<u8>,
    bytes_max: usize,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(from: R, bytes_max: usize) -> Self {
        Lines { from, line: Vec::new(), bytes_max, number: 0 }
    }

    pub(crate) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        let most = u64::try_from(self.bytes_max).unwrap_or(u64::MAX).saturating_add(1);
        let is_any = self.from.by_ref().take(most).read_until(b'\n', &mut self.line)? > 0;
        let is_ended = self.line.pop_if(|last| *last == b'\n').is_some();
        let is_cut = !is_ended && self.line.len() > self.bytes_max;
        if is_cut {
            self.line.truncate(self.bytes_max);
            self.from.skip_until(b'\n')?;
        }
        self.number += u64::from(is_any);
        Ok(is_any.then_some(Line { bytes: &self.line, number: self.number, is_cut }))
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;

    #[test]
    fn lines_are_whole_or_cut() {
        let mut lines = Lines::new(&b"ab\n\nabcdef\nx"[..], 4);
        let mut found = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            found.push((String::from_utf8(line.bytes.to_vec()).unwrap(), line.number, line.is_cut));
        }
        let expect = [("ab", 1, false), ("", 2, false), ("abcd", 3, true), ("x", 4, false)];
        assert_eq!(found, expect.map(|(line, number, is_cut)| (line.to_owned(), number, is_cut)));
    }
}
