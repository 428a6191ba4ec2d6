//! Reports: what the results say, for people.
//!
//! Owns: tables ([`table`], [`headline`]), claims held against figures ([`check`]), and one page with all of it
//! ([`html`], drawn by
//! [`svg`]).

pub mod check;
pub mod headline;
pub mod html;
pub mod svg;
pub mod table;
