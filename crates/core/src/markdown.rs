//! Writes Markdown tables. It escapes nothing: the caller knows where its text comes from.

/// A table with columns of at least `narrowest` characters, aligned for people who read the source.
pub(crate) fn table<const N: usize>(
    header: [&str; N],
    rows: &[[String; N]],
    narrowest: usize,
) -> String {
    let header = header.map(str::to_owned);
    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = rows.iter().chain([&header]).map(|row| row[column].chars().count());
        cells.fold(narrowest, usize::max)
    });
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!(" {cell:width$} |"));
        format!("|{}\n", cells.collect::<String>())
    };
    let rule = widths.map(|width| "-".repeat(width));
    [&header, &rule].into_iter().chain(rows).map(line).collect()
}
