//! Numbers as people read them: a count with its noun, and tables for a terminal.
//!
//! Owns: singular and plural, and the widths of columns. Every table of the program is written here, so that no cell
//! can run into the next one, however long it is.

use std::fmt;

/// A count and its noun in singular or plural: `1 worker`, `2 workers`, `0 processes`. `noun` is the singular of a
/// regular English noun.
///
/// ```
/// use lamna_policy::words::count;
/// assert_eq!(count(1, "process"), "1 process");
/// assert_eq!(count(2, "process"), "2 processes");
/// ```
pub fn count(number: impl TryInto<u64> + fmt::Display + Copy, noun: &str) -> String {
    format!("{number} {}", noun_for(number, noun))
}

/// The noun alone, in singular or plural, for sentences in which it does not follow its number.
pub fn noun_for(number: impl TryInto<u64>, noun: &str) -> String {
    // A number that is no `u64` is not 1.
    if matches!(number.try_into(), Ok(1)) { noun.to_owned() } else { plural(noun) }
}

fn plural(noun: &str) -> String {
    let ends_with_sound = ["s", "x", "z", "ch", "sh"].iter().any(|end| noun.ends_with(end));
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if ends_with_sound => format!("{noun}es"),
        _ => format!("{noun}s"),
    }
}

/// On which side the cells of a column are filled with spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Texts begin at the same place.
    Left,
    /// Numbers end at the same place.
    Right,
}

/// Rows of cells. Each column is as wide as its widest cell, and two spaces stand between columns.
#[derive(Clone, Debug, Default)]
pub struct Table {
    columns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

/// The gap between columns.
const GAP: &str = "  ";

impl Table {
    /// A table without rows. Columns that are not named are aligned to the left.
    pub fn new(columns: &[Align]) -> Table {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Appends a row, which may have any number of cells.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

impl fmt::Display for Table {
    /// One line for each row, each with its line feed and without spaces at its end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(|column| self.width(column)).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                if column > 0 {
                    line.push_str(GAP);
                }
                match self.columns.get(column) {
                    Some(Align::Right) => line.push_str(&format!("{cell:>width$}")),
                    Some(Align::Left) | None => line.push_str(&format!("{cell:<width$}")),
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_thing_is_singular_and_any_other_number_is_plural() {
        for (number, noun, text) in [
            (1, "worker", "1 worker"),
            (0, "worker", "0 workers"),
            (2, "process", "2 processes"),
            (2, "entry", "2 entries"),
            (2, "delay", "2 delays"),
            (3, "box", "3 boxes"),
        ] {
            assert_eq!(count(number, noun), text);
        }
        assert_eq!(count(-1_i64, "request"), "-1 requests");
        assert_eq!(noun_for(1_usize, "thread"), "thread");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&[Align::Left, Align::Right]);
        table.row(["thread worker-0", "570", "ms"]);
        table.row(["now", "1"]);
        assert_eq!(table.to_string(), "thread worker-0  570  ms\nnow                1\n");
    }

    proptest! {
        #[test]
        fn cells_never_run_together(rows in prop::collection::vec(prop::collection::vec("[a-z\u{e9}]{1,30}", 1..5), 1..6)) {
            let mut table = Table::new(&[Align::Left, Align::Right]);
            rows.iter().for_each(|row| table.row(row.iter().map(String::as_str)));
            let text = table.to_string();
            for (line, row) in text.lines().zip(&rows) {
                let cells: Vec<&str> = line.split_whitespace().collect();
                prop_assert_eq!(cells, row.iter().map(String::as_str).collect::<Vec<_>>());
            }
        }
    }
}
