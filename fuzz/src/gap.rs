//! What stands between two tokens: blanks and comments, read by other code than the lexer's.

/// Whether `gap` holds nothing else. `in_code`: it may begin inside of a version comment whose content is read; on the way
/// out, whether the next gap may.
///
/// Of a version comment either the content is read, or all of it is passed over. Which of both, the lexer's judge asks the
/// servers; here each is followed, and one must lead to the gap's end.
pub fn is_gap(gap: &[u8], in_code: &mut bool) -> bool {
    // Each place, outside and inside of a comment that is code: still to be followed, or seen.
    let mut seen = vec![[false; 2]; gap.len() + 1];
    let mut open = vec![(0, *in_code)];
    let mut ends = [false; 2];
    while let Some((at, code)) = open.pop() {
        let state = &mut seen[at][usize::from(code)];
        if std::mem::replace(state, true) {
            continue;
        }
        let rest = &gap[at..];
        let behind = |rest: Option<&[u8]>, code| rest.map(|rest| (gap.len() - rest.len(), code));
        match rest {
            [] => ends[usize::from(code)] = true,
            [b' ' | b'\t'..=b'\r', ..] => open.push((at + 1, code)),
            [b'#', ..] | [b'-', b'-', ..] => open.extend(behind(Some(line(rest)), code)),
            [b'/', b'*', body @ ..] => {
                open.extend(behind(behind_close(body), code));
                let bang = body.iter().take(2).position(|&byte| byte == b'!');
                if let (Some(bang), Some(b'!' | b'M')) = (bang, body.first()) {
                    open.extend(behind(passed_over(body), code));
                    let digits = body[bang + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                    // Fewer than five digits are code.
                    let read = [0, 5, 6].into_iter().filter(|&len| len <= digits);
                    open.extend(read.map(|len| (at + 2 + bang + 1 + len, true)));
                }
            }
            [b'*', b'/', ..] if code => open.extend([(at + 2, false), (at + 2, true)]),
            _ => {}
        }
    }
    *in_code = ends[1];
    ends[0] || ends[1]
}

fn line(rest: &[u8]) -> &[u8] {
    rest.iter().position(|&byte| byte == b'\n').map_or(&[], |at| &rest[at + 1..])
}

fn behind_close(body: &[u8]) -> Option<&[u8]> {
    body.windows(2).position(|two| two == b"*/").map(|at| &body[at + 2..])
}

/// Behind a version comment that holds plain comments.
fn passed_over(mut body: &[u8]) -> Option<&[u8]> {
    loop {
        let at = body.windows(2).position(|two| two == b"*/" || two == b"/*")?;
        let behind = &body[at + 2..];
        if &body[at..at + 2] == b"*/" {
            return Some(behind);
        }
        body = behind_close(behind)?;
    }
}
