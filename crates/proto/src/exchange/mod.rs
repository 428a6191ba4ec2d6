//! One request and its answer: which representation is selected, and how much of it is sent.

pub mod conditional;
pub mod negotiate;
pub mod range;
