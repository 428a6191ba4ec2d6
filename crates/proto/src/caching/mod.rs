//! Keeping the answers of applications for others who ask the same: the decisions of a shared cache (RFC 9111).
//!
//! ```text
//!  request ── Facts ──> usable: Fresh | Stale, and to be refreshed | Validate | Unfit        (a kept answer and its Terms)
//!  answer  ── keepable ──> Terms, or why not ── Vary ──> the part of the key that the request adds
//!  304     ── update ──> the kept fields as they are from now on
//!  unsafe request ── invalidates ──> what was kept for its target is not used any more, nor for what its answer names (named)
//! ```
//!
//! Owns: what may be kept ([`keepable`]), for how long ([`Terms`]), for which request it may be used ([`usable`]), what
//! `Vary` selects by ([`VaryNames`]), what a validation changes ([`update()`]), and the words of `Cache-Status`
//! ([`status`]). Guarantees: pure; what is said in two ways counts in the stricter one; judging a request allocates
//! nothing. Keeps nothing, and asks nobody.
//!
//! Where this is stricter than RFC 9111 has to be: an answer with `Set-Cookie` is not kept; an answer that does not say
//! itself how long it is fresh is neither made for nor used for a request with cookies; `no-cache` and `private` with
//! field names count as those without. Where it is laxer: a `stale-while-revalidate` or `stale-if-error` counts beside
//! `s-maxage` (RFC 9111 5.2.2.10 would have that forbid it), because whoever writes both means both, and other shared
//! caches read it so.

mod directives;
mod keep;
mod named;
mod serve;
pub mod status;
mod targeted;
mod update;
mod vary;

pub use directives::{RequestDirectives, ResponseDirectives};
pub use keep::{Given, NotKept, Settings, Terms, invalidates, is_of_condition, is_of_request, keepable};
pub use named::{Named, named};
pub use serve::{Facts, Unfit, Use, usable, usable_after_failure};
pub use update::{is_validated_by, update, write_conditions};
pub use vary::{Varies, VaryNames};
