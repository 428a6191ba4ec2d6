//! FastCGI as the web server's side of it, for applications in the role of responder (FastCGI Specification 1.0, Open
//! Market 1996).
//!
//! Owns: [`write_begin`], [`StdinWriter`] and [`abort`] for what goes there, [`AnswerReader`] for what comes back.
//! Guarantees: records may be split anywhere; what is held is a record's header and the head of the answer. One request
//! at a time uses a connection (the specification's request id is always 1): applications that mix several on one
//! connection are hardly to be found, and one that is slow would hold up the others. A connection is kept for the next
//! request if both sides say so.
//!
//! ```text
//!  us:   BEGIN_REQUEST, PARAMS ..., PARAMS (empty), STDIN ..., STDIN (empty)       ABORT_REQUEST at any time after the first
//!  them: STDOUT ..., STDERR ..., END_REQUEST       in any order before the end
//! ```

mod answer;
mod record;
mod request;

pub use answer::{AnswerReader, SURPLUS_BYTES_MAX};
pub use record::{HEADER_BYTES, RECORD_BYTES_MAX, RecordReader, RecordStep, header, kind};
pub use request::{PARAMETER_BYTES_MAX, Parameters, StdinRecord, StdinWriter, abort, add_parameter, write_begin};
