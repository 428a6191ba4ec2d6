//! Results as data and as pictures: CSV for machines, tables and self-contained SVG for people. Nothing here computes a
//! result.

mod csv;
mod svg;
mod table;

pub use csv::csv;
pub use svg::{Panel, Series, escaped, svg};
pub use table::table;
