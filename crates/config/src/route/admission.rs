//! Questions to all rows of routes: who is let in by them, and how they lead elsewhere.
//!
//! Owns: the comparison of routes by the keys that let clients in, and the list of keys that say where answers come
//! from.

use super::row::Row;
use super::{ROWS, RouteSettings};

/// Whether two lists of routes let the same clients in, as far as their settings tell: those that say who may do
/// something are the same in that, and are for the same requests.
pub fn admit_the_same(one: &[RouteSettings], other: &[RouteSettings]) -> bool {
    let (one, other) = (admitting(one), admitting(other));
    one.len() == other.len() && one.iter().zip(&other).all(|(one, other)| is_alike(one, other))
}

fn admitting(routes: &[RouteSettings]) -> Vec<&RouteSettings> {
    routes.iter().filter(|route| rows().any(|row| (row.is_said)(route))).collect()
}

fn is_alike(one: &RouteSettings, other: &RouteSettings) -> bool {
    let requests =
        |route: &RouteSettings| (route.source, route.priority, route.paths.clone(), route.conditions.clone());
    requests(one) == requests(other) && rows().all(|row| (row.is_alike)(one, other))
}

fn rows() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(|row| row.admits())
}

/// The keys that say where answers come from: the names of each, of which the first stands for all, and the value that
/// says that it leads nowhere.
pub fn directing() -> impl Iterator<Item = (Vec<&'static str>, &'static str)> {
    let names = |row: &Row| row.keys.iter().map(|key| key.name).collect();
    ROWS.iter().filter(|row| row.directs).map(move |row| (names(row), row.nothing))
}
