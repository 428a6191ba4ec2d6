//! CGI, the Common Gateway Interface (RFC 3875): variables for a script, and what it prints.
//!
//! Owns: what a script is called ([`ScriptPaths`]), the variables that tell it of the request ([`for_each_variable`]),
//! and reading its output ([`AnswerReader`]; [`StreamReader`] where a connection ends it). FastCGI, SCGI and uwsgi use
//! them. Guarantees: no field of the request becomes a
//! variable that a program gives another meaning. Does not start processes, open files or ask the file system.

mod answer;
mod script;
mod stream;
mod variables;

pub use answer::{AnswerReader, HEAD_BYTES_MAX};
pub use script::{ScriptPaths, mounted};
pub use stream::StreamReader;
pub use variables::{Server, TooLong, Variables, for_each_variable};
