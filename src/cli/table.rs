//! Tables as text.

/// Columns two blanks apart, all beginning on the left; nothing where there is no row.
pub(super) fn table<const N: usize>(head: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let rows: Vec<Vec<String>> = rows.map(Vec::from).collect();
    if rows.is_empty() { String::new() } else { aligned(&head, rows, N) }
}

/// Columns two blanks apart; the first `words` of them begin on the left, the others end on the
/// right.
pub(super) fn aligned(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>, words: usize) -> String {
    let head = head.iter().map(|cell| (*cell).to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let mut widths: Vec<usize> = Vec::new();
    for row in &rows {
        widths.resize(row.len().max(widths.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(
            |(at, (cell, &width))| {
                if at < words { format!("{cell:width$}") } else { format!("{cell:>width$}") }
            },
        );
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}
