//! Making directories: MKCOL (RFC 4918 9.3), and a form in listings.
//!
//! Owns: [`Mkdir`]. A directory is made beneath one that is there, never several at once, and never under a hidden
//! name.

use lamna_proto::exchange::program::{Holds, Input, Program, StepResult};
use lamna_proto::parse::path;
use rustix::fs::Mode;
use rustix::io::Errno;

use super::webdav::Change;
use super::{Action, ChangeTarget, MALFORMED, Refused, name_of, refused};
use crate::content::answers;

/// A directory that is to be made.
#[derive(Debug)]
pub(super) struct Mkdir {
    target: ChangeTarget,
    /// The form of a listing, which is posted to the directory that the new one is made in; its content as far as it
    /// has arrived.
    form: Option<Vec<u8>>,
}

/// Bytes of a form: a name, percent-encoded, and its key.
pub(super) const FORM_BYTES_MAX: u64 = 4096;
/// The mode of a new directory, before the process's umask.
const MODE: Mode = Mode::RWXU.union(Mode::RWXG).union(Mode::RWXO);

const EXISTS: Refused = Refused(405, "There is something of this name already.");
pub(super) const EXISTS_FORM: Refused = Refused(409, "There is something of this name already.");
const CONTENT: Refused = Refused(415, "A directory is made from nothing: content is not understood.");
const BAD_NAME: Refused = Refused(400, "The form has no name that a directory can have.");

impl Mkdir {
    /// The directory at `target`, or one in it if a form asks.
    pub(super) fn new(target: ChangeTarget, is_form: bool) -> Mkdir {
        Mkdir { target, form: is_form.then(Vec::new) }
    }

    /// The path of the new directory, without a slash at its end.
    fn path(&self) -> Result<Vec<u8>, Refused> {
        let path = &self.target.path;
        let Some(form) = &self.form else { return Ok(path.strip_suffix(b"/").unwrap_or(path).to_vec()) };
        if !path.ends_with(b"/") {
            return Err(MALFORMED);
        }
        let name = value_in(form, b"name=").filter(|name| !matches!(&**name, b"" | b"." | b".."));
        let name = name.filter(|name| !name.iter().any(|byte| matches!(byte, 0 | b'/'))).ok_or(BAD_NAME)?;
        Ok([&**path, &name].concat())
    }

    /// Makes it.
    fn make(&self) -> Result<Vec<u8>, Refused> {
        let path = self.path()?;
        let exists = if self.form.is_some() { EXISTS_FORM } else { EXISTS };
        if path.is_empty() && !self.target.path.is_empty() {
            return Err(exists);
        }
        self.target.check(Action::Mkdir, &path)?;
        let parent = self.target.directory(Action::Mkdir, &path)?;
        self.target.check_if()?;
        self.target.check_locks(&path, Change::Add)?;
        rustix::fs::mkdirat(&parent, name_of(&path), MODE).map_err(|errno| match errno {
            Errno::EXIST => exists,
            other => refused(other),
        })?;
        self.target.handle_change(&path);
        Ok(path)
    }
}

/// The value in a form behind `key`, which ends with `=` (URL Standard 5.1, `application/x-www-form-urlencoded`).
pub(super) fn value_in(form: &[u8], key: &[u8]) -> Option<Vec<u8>> {
    let mut value = form.split(|byte| *byte == b'&').find_map(|pair| pair.strip_prefix(key))?;
    let mut name = Vec::with_capacity(value.len());
    while let [byte, rest @ ..] = value {
        let digits = rest.get(..2).filter(|digits| *byte == b'%' && digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        value = if escaped.is_some() { &rest[2..] } else { rest };
        name.push(escaped.unwrap_or(if *byte == b'+' { b' ' } else { *byte }));
    }
    Some(name)
}

impl Program for Mkdir {
    fn content_bytes_max(&self) -> u64 {
        FORM_BYTES_MAX
    }

    fn holds(&self) -> Holds {
        Holds::default()
    }

    fn run(&mut self, Input { content, is_last, .. }: Input<'_>) -> StepResult {
        match &mut self.form {
            Some(form) => form.extend_from_slice(content),
            None if !content.is_empty() => return self.target.refusal(CONTENT),
            None => {}
        }
        if !is_last {
            return StepResult::Continue;
        }
        match self.make() {
            Ok(_) if self.form.is_some() => self.target.back_to(&self.target.path),
            Ok(path) => self.target.done(201, Some(&format!("{}/", path::encode(&path)))),
            Err(EXISTS) => self.target.refusal_with(EXISTS, Some(answers::allow(self.target.rules().changes))),
            Err(refused) => self.target.refusal(refused),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_form_is_decoded_once() {
        let name = |form: &str| value_in(form.as_bytes(), b"name=").map(|name| String::from_utf8(name).unwrap());
        assert_eq!(name("name=a+b%2Bc%C3%A4"), Some("a b+cä".to_owned()));
        assert_eq!(name("x=1&name=a%2541&name=b"), Some("a%41".to_owned()));
        assert_eq!(name("name=100%&x"), Some("100%".to_owned()));
        assert_eq!((name("nam=a"), name(""), name("name=")), (None, None, Some(String::new())));
    }
}
