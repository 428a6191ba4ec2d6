//! The form in listings that renames or moves a file or a folder.
//!
//! Owns: [`MoveForm`], which reads where to, and leads the browser there: to the same address with the destination in
//! its query. So the destination is known from the head of a request, as with MOVE, and both ends are judged by the
//! same steps. Changes nothing.

use lamna_proto::exchange::program::{Holds, Input, Program, StepResult};
use lamna_proto::parse::path;

use super::mkdir::{FORM_BYTES_MAX, value_in};
use super::webdav::path_of_url;
use super::{ChangeTarget, ELSEWHERE, MALFORMED, Refused, name_of, parent_of};
use crate::content::action::MOVE_QUERY;
use crate::content::answers;

const BAD_NAME: Refused = Refused(400, "The form has no name or path that something can be moved to.");

/// A form that says where something goes.
#[derive(Debug)]
pub(super) struct MoveForm {
    target: ChangeTarget,
    /// Its content as far as it has arrived.
    form: Vec<u8>,
}

impl MoveForm {
    /// A form that is posted to what it moves.
    pub(super) fn new(target: ChangeTarget) -> MoveForm {
        MoveForm { target, form: Vec::new() }
    }

    /// The address that does it.
    fn location(&self) -> Result<String, Refused> {
        let own = self.target.path.strip_suffix(b"/").unwrap_or(&self.target.path);
        match () {
            () if self.target.is_from_elsewhere => return Err(ELSEWHERE),
            () if own.is_empty() => return Err(MALFORMED),
            () => {}
        }
        let destination = value_in(&self.form, b"to=").and_then(|to| destination(own, &to)).ok_or(BAD_NAME)?;
        Ok(format!("{}?{MOVE_QUERY}={}", path::encode(&self.target.path), path::encode(&destination)))
    }
}

/// Where `to` leads from the folder that `own` is in: a name, or a path that may begin at the root or lead up. A path
/// that ends with a slash is of the folder that `own` goes into.
fn destination(own: &[u8], to: &[u8]) -> Option<Vec<u8>> {
    let above = if to.starts_with(b"/") { b"" } else { parent_of(own) };
    let name = match to {
        [] => return None,
        [.., b'/'] => name_of(own),
        _ => b"",
    };
    path_of_url(path::encode(&[above, to, name].concat()).as_bytes())
}

impl Program for MoveForm {
    fn content_bytes_max(&self) -> u64 {
        FORM_BYTES_MAX
    }

    fn holds(&self) -> Holds {
        Holds::of_bytes(self.form.capacity())
    }

    fn run(&mut self, Input { content, is_last, .. }: Input<'_>) -> StepResult {
        self.form.extend_from_slice(content);
        if !is_last {
            return StepResult::Continue;
        }
        // The browser sends the form again, and so the method stays (RFC 9110 15.4.8).
        let redirect = |location: String| {
            answers::redirect(307, &location, false, &self.target.rules().extras(307)).map_err(|_| MALFORMED)
        };
        match self.location().and_then(redirect) {
            Ok(resource) => StepResult::Answer(resource.into()),
            Err(refused) => self.target.refusal(refused),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_leads_from_the_folder_that_something_is_in() {
        let to = |own: &str, to: &str| {
            destination(own.as_bytes(), to.as_bytes()).map(|path| String::from_utf8(path).unwrap())
        };
        for (own, given, expected) in [
            ("/a", "b", Some("/b")),
            ("/d/a", "b c?#%", Some("/d/b c?#%")),
            ("/d/a", "../b", Some("/b")),
            ("/d/a", "/b", Some("/b")),
            ("/d/a", "e/", Some("/d/e/a")),
            ("/d/a", "/", Some("/a")),
            ("/d/a", "../", Some("/a")),
            ("/d/a", "", None),
            ("/d/a", "../../b", None),
            ("/a", "b\0", None),
        ] {
            assert_eq!(to(own, given).as_deref(), expected, "{own} {given}");
        }
    }
}
