//! The `lamna` program: reads the command line and hands over to the libraries.
fn main() {}
