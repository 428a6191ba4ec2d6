//! Errors of applications that are answered with a page of the route.
//!
//! Owns: what becomes of the head and of the content of such an answer. Guarantees: the status and the fields that it
//! needs stay (`WWW-Authenticate`, `Retry-After`, `Allow`); fields of the content that is replaced go.

use lamna_policy::upstream::Outcome;
use lamna_proto::exchange::program::{Part, StreamHead};

use super::progress::Purpose;
use super::{Gateway, State};
use crate::content::page_file::PageFile;

/// Fields of one representation (RFC 9110 8), and of its state.
const OF_CONTENT: [&str; 13] = [
    "accept-ranges",
    "content-digest",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-type",
    "digest",
    "etag",
    "last-modified",
    "repr-digest",
];

impl Gateway {
    /// Puts the page for its status in the place of an error that begins with `part`, if the route asks for that.
    /// Whether it has.
    pub(super) fn intercept(&mut self, part: &mut Part) -> bool {
        let Some(head) = part.head.as_mut().filter(|head| self.purpose == Purpose::Answer && !head.tunnels) else {
            return false;
        };
        let Some(page) = self.rules.intercepted(head.status.0) else { return false };
        describe(page, head);
        part.content = (!self.asked.is_head && !page.content.is_empty()).then(|| page.clone() as _);
        if part.end.is_none() {
            // The rest of it is not waited for.
            self.state = State::Over;
            if let Some(attempt) = self.attempt.take() {
                self.group.end(attempt, self.now, Outcome::Answered);
            }
        }
        part.end = Some(Vec::new());
        true
    }
}

/// Says in `head` what `page` is.
fn describe(page: &PageFile, head: &mut StreamHead) {
    let mut fields = Vec::with_capacity(head.fields.len());
    for line in head.fields.split_inclusive(|byte| *byte == b'\n') {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        if !OF_CONTENT.iter().any(|one| name.eq_ignore_ascii_case(one.as_bytes())) {
            fields.extend_from_slice(line);
        }
    }
    fields.extend_from_slice(format!("Content-Type: {}\r\n", page.media_type).as_bytes());
    (head.fields, head.length) = (fields, Some(page.content.len() as u64));
}
