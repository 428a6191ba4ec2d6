//! Raw system calls: the only module that may contain `unsafe`.
//!
//! One file for each thing that rustix does not offer safely. Each gives a safe function and says why it is safe.

pub(crate) mod defer_accept;
pub(crate) mod inherit;
