//! Counters as rows: a row, which says how it is called and told, and the cells that it is counted in.
//!
//! Owns: [`Row`], and the macro [`counters!`](crate::counters), which makes a struct of cells out of rows. Guarantees:
//! what is declared as a row is stored, handed over and told without being named again. Counting allocates nothing and
//! takes no lock. Does not gather or print: the endpoint of the administrator does.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How a counter is called and told: one metric of Prometheus, or one sample of it, one member of the JSON of `lamna
/// ctl stats`, and one figure of its text.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The metric. Several rows may be samples of one, with labels that tell them apart.
    pub name: &'static str,
    /// How its values behave.
    pub kind: Kind,
    /// The unit of its values.
    pub unit: Unit,
    /// The labels of its samples.
    pub labels: Labels,
    /// So many values it has; 0 for as many as there are workers.
    pub values: usize,
    /// Where it is in the JSON: names of members, with dots between them.
    pub json: &'static str,
    /// The form of its values there.
    pub shape: Shape,
    /// The line of the text that it is told in.
    pub line: &'static str,
    /// The word behind its number there.
    pub word: &'static str,
    /// Its help: a sentence about the counter.
    pub help: &'static str,
    /// The help of the metric, if this is one of several rows of it. One of them says so.
    pub family: Option<&'static str>,
}

/// How the values of a metric behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// They only grow.
    Counter,
    /// They are how it is now.
    Gauge,
    /// They are counts by buckets of durations ([`crate::tally`]); the last one is the sum of all durations.
    Histogram,
}

impl Kind {
    /// As Prometheus names it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// The unit of a counter. Prometheus is told of times in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
    /// Microseconds.
    Microseconds,
    /// Milliseconds.
    Milliseconds,
}

/// The labels that tell samples of a metric from each other.
#[derive(Clone, Copy, Debug)]
pub enum Labels {
    /// These names and values. A metric of one sample has none.
    Fixed(&'static [(&'static str, &'static str)]),
    /// A name, and what its value is for each of the counter's values.
    Each(&'static str, fn(usize) -> Cow<'static, str>),
}

/// The form in the JSON of the values of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The only value; of a histogram, its buckets and its sum; of several values, an object with labels for keys.
    Plain,
    /// A list of the values.
    List,
    /// The sum of them.
    Sum,
}

impl Row {
    /// The row of what is counted and not told as it is: others are worked out of it.
    pub const UNTOLD: Row = Row::new("", Kind::Counter);

    /// Whether it is told.
    pub fn is_told(&self) -> bool {
        !self.name.is_empty()
    }

    /// A row of a metric whose values only grow.
    pub const fn counter(name: &'static str) -> Row {
        Row::new(name, Kind::Counter)
    }

    /// A row of a metric whose values are how it is now.
    pub const fn gauge(name: &'static str) -> Row {
        Row::new(name, Kind::Gauge)
    }

    /// A row of durations by buckets.
    pub const fn histogram(name: &'static str) -> Row {
        Row { unit: Unit::Microseconds, ..Row::new(name, Kind::Histogram) }
    }

    const fn new(name: &'static str, kind: Kind) -> Row {
        Row {
            name,
            kind,
            unit: Unit::Count,
            labels: Labels::Fixed(&[]),
            values: 1,
            json: "",
            shape: Shape::Plain,
            line: "",
            word: "",
            help: "",
            family: None,
        }
    }

    /// Counts in something else than things.
    pub const fn unit(self, unit: Unit) -> Row {
        Row { unit, ..self }
    }

    /// Is one of several samples: the one with these labels.
    pub const fn labels(self, labels: &'static [(&'static str, &'static str)]) -> Row {
        Row { labels: Labels::Fixed(labels), ..self }
    }

    /// Has a sample for each of its values, with what `name_of` says as the value of a label.
    pub const fn each(self, label: &'static str, name_of: fn(usize) -> Cow<'static, str>) -> Row {
        Row { labels: Labels::Each(label, name_of), ..self }
    }

    /// Has so many values; [`counters!`](crate::counters) counts them.
    pub const fn values(self, values: usize) -> Row {
        Row { values, ..self }
    }

    /// Where it is in the JSON.
    pub const fn json(self, json: &'static str) -> Row {
        Row { json, ..self }
    }

    /// Its values there are not what they are as a rule.
    pub const fn shape(self, shape: Shape) -> Row {
        Row { shape, ..self }
    }

    /// Where it is in the text.
    pub const fn text(self, line: &'static str, word: &'static str) -> Row {
        Row { line, word, ..self }
    }

    /// The meaning of the metric that this row and others are samples of.
    pub const fn family(self, family: &'static str) -> Row {
        Row { family: Some(family), ..self }
    }

    /// The meaning of the count, as a sentence; [`counters!`](crate::counters) takes the comment of the field.
    pub const fn help(self, help: &'static str) -> Row {
        Row { help: help.trim_ascii(), ..self }
    }
}

/// Counters that were declared together.
pub trait CounterSet: Default {
    /// Their rows, in the order of their declaration.
    const ROWS: &'static [Row];

    /// The cells of each row, in the same order.
    fn cells(&self) -> impl IntoIterator<Item = &[AtomicU64]>;

    /// Whether nothing was counted.
    fn is_zero(&self) -> bool {
        self.cells().into_iter().flatten().all(|cell| cell.load(Relaxed) == 0)
    }

    /// Adds all that was counted here to `common`, where others add as well, and begins anew. To be called by the
    /// thread that counts here.
    fn hand_over(&self, common: &Self) {
        let own = self.cells().into_iter().flatten();
        for (own, common) in own.zip(common.cells().into_iter().flatten()) {
            let number = own.load(Relaxed);
            if number > 0 {
                own.store(0, Relaxed);
                common.fetch_add(number, Relaxed);
            }
        }
    }
}

/// The cells of a field: one, or several.
#[doc(hidden)]
pub trait Cells {
    fn zero() -> Self;
    fn cells(&self) -> &[AtomicU64];
}

impl Cells for AtomicU64 {
    fn zero() -> AtomicU64 {
        AtomicU64::new(0)
    }

    fn cells(&self) -> &[AtomicU64] {
        std::slice::from_ref(self)
    }
}

impl<const COUNT: usize> Cells for [AtomicU64; COUNT] {
    fn zero() -> [AtomicU64; COUNT] {
        std::array::from_fn(|_| AtomicU64::new(0))
    }

    fn cells(&self) -> &[AtomicU64] {
        self
    }
}

/// Adds to a cell of a set that one thread counts in. Not atomic as a whole, because nobody else writes.
#[inline]
pub fn add(cell: &AtomicU64, number: u64) {
    cell.store(cell.load(Relaxed).wrapping_add(number), Relaxed);
}

/// Declares counters: a struct of atomic numbers, and their rows. Each field has a comment, which is its help, a name,
/// so many values in brackets if there are several, and its row.
///
/// ```
/// use lamna_proto::counter::{CounterSet, Row, add};
///
/// lamna_proto::counters! {
///     /// What a shop did.
///     pub struct Shop {
///         /// Loaves sold.
///         pub loaves = Row::counter("shop_loaves_total").json("sold.loaves").text("sold", "loaves");
///     }
/// }
///
/// let (own, common) = (Shop::default(), Shop::default());
/// add(&own.loaves, 2);
/// own.hand_over(&common);
/// assert_eq!((Shop::ROWS[0].help, common.loaves.into_inner()), ("Loaves sold.", 2));
/// ```
#[macro_export]
macro_rules! counters {
    ($(#[$attribute:meta])* $visibility:vis struct $name:ident {
        $($(#[doc = $help:literal])+ $field_visibility:vis $field:ident $([$count:expr])? = $row:expr;)*
    }) => {
        $(#[$attribute])*
        #[derive(Debug)]
        $visibility struct $name {
            $($(#[doc = $help])+ $field_visibility $field: $crate::counters!(@cells $($count)?),)*
        }

        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $crate::counter::Cells::zero()),* }
            }
        }

        impl $crate::counter::CounterSet for $name {
            const ROWS: &'static [$crate::counter::Row] =
                &[$($row.values($crate::counters!(@values $($count)?)).help(concat!($($help),+))),*];

            fn cells(&self) -> impl IntoIterator<Item = &[::std::sync::atomic::AtomicU64]> {
                [$($crate::counter::Cells::cells(&self.$field)),*]
            }
        }
    };
    (@cells) => { ::std::sync::atomic::AtomicU64 };
    (@cells $count:expr) => { [::std::sync::atomic::AtomicU64; $count] };
    (@values) => { 1 };
    (@values $count:expr) => { $count };
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::counters! {
        /// Rows of every form.
        struct Example {
            /// One
            /// value.
            one = Row::counter("one_total").json("one").text("numbers", "ones");
            /// Two values.
            two [2] = Row::gauge("two").each("side", |side| ["left", "right"][side].into()).json("two").text("two", "");
            /// Not told.
            quiet = Row::UNTOLD;
        }
    }

    #[test]
    fn what_was_handed_over_is_not_counted_again_told_or_not() {
        let (own, common) = (Example::default(), Example::default());
        add(&own.one, 3);
        add(&own.two[1], 4);
        add(&own.quiet, 5);
        assert!(!own.is_zero());
        own.hand_over(&common);
        own.hand_over(&common);
        assert!(own.is_zero());
        assert_eq!(
            [&common.one, &common.two[0], &common.two[1], &common.quiet].map(|cell| cell.load(Relaxed)),
            [3, 0, 4, 5]
        );
    }

    #[test]
    fn a_row_has_its_comment_for_help_and_as_many_values_as_cells() {
        let rows: Vec<_> = Example::ROWS.iter().map(|row| (row.name, row.values, row.help)).collect();
        assert_eq!(rows, [("one_total", 1, "One value."), ("two", 2, "Two values."), ("", 1, "Not told.")]);
        let example = Example::default();
        assert_eq!(example.cells().into_iter().map(<[AtomicU64]>::len).collect::<Vec<_>>(), [1, 2, 1]);
        assert_eq!(Example::ROWS.iter().filter(|row| row.is_told()).count(), 2);
    }
}
