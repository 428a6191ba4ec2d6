//! Results as data and as pictures: CSV for machines, self-contained SVG for people. Nothing here computes a result.

mod csv;
mod svg;

pub use csv::csv;
pub use svg::{Panel, Series, svg};
