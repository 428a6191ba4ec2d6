//! The action of a request on served files: read, upload, delete, or make a directory.
//!
//! Owns: [`Action::of`], the one place where that is decided, from the head of the request. Access rules by action
//! asks here. Opens nothing.

use lamna_proto::exchange::RequestedResource;
use lamna_proto::message::Method;

use super::upload::multipart;

/// The action of a request. In the order of [`ACTIONS`](lamna_config::access::ACTIONS).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Reads what is there (GET, HEAD).
    Read,
    /// Stores a file or several, or asks how much of one has arrived (PUT, POST of a form with files).
    Upload,
    /// Deletes a file or an empty directory (DELETE, POST with the query `delete`), or takes it away from where it is
    /// (MOVE, POST with the query `move`).
    Delete,
    /// Makes a directory (MKCOL, POST with the query `mkdir`).
    Mkdir,
}

/// The query by which a form deletes what it is posted to.
pub const DELETE_QUERY: &str = "delete";
/// The query by which a form makes a directory in the one that it is posted to.
pub const MKDIR_QUERY: &str = "mkdir";
/// The query by which a form moves what it is posted to. The destination is in the form, or follows with `=`.
pub const MOVE_QUERY: &str = "move";

impl Action {
    /// All of them.
    pub const ALL: [Action; 4] = [Action::Read, Action::Upload, Action::Delete, Action::Mkdir];

    /// The action of the request for a target; none if there is no such action here (405). Depends on nothing but the
    /// method, the query and the type of the content.
    pub fn of(requested: &RequestedResource<'_>) -> Option<Action> {
        let Some(request) = requested.request else { return Some(Action::Read) };
        match (request.head.method, requested.query) {
            (method, _) if method.reads() => Some(Action::Read),
            // A WebSocket over HTTP/2, which HTTP/1.1 asks for by GET.
            (Method::Connect, _) => Some(Action::Read),
            (Method::Put, _) => Some(Action::Upload),
            (Method::Delete, _) => Some(Action::Delete),
            (Method::Mkcol, _) => Some(Action::Mkdir),
            // A move reads as well: [`Action::is_of`].
            (Method::Propfind | Method::Copy, _) => Some(Action::Read),
            (Method::Move, _) => Some(Action::Delete),
            (Method::Proppatch | Method::Lock | Method::Unlock, _) => Some(Action::Upload),
            (Method::Post, Some(query)) if query == DELETE_QUERY.as_bytes() => Some(Action::Delete),
            (Method::Post, Some(query)) if query == MKDIR_QUERY.as_bytes() => Some(Action::Mkdir),
            (Method::Post, Some(query)) if move_of(query).is_some() => Some(Action::Delete),
            (Method::Post, _) => {
                let content_type = request.lines_named(b"content-type").next()?;
                multipart::boundary(content_type).map(|_| Action::Upload)
            }
            _ => None,
        }
    }

    /// Whether the request for a target has to be let in to this action there. Where there is no such action as it asks
    /// for, to all of them. A copy or a move has to be let in at its destination besides.
    pub fn is_of(self, requested: &RequestedResource<'_>) -> bool {
        let is_move = || match requested.request.map(|request| request.head.method) {
            Some(Method::Move) => true,
            Some(Method::Post) => requested.query.and_then(move_of).is_some(),
            _ => false,
        };
        self == Action::Read && is_move() || Action::of(requested).is_none_or(|own| own == self)
    }

    /// The same where an application answers: what the content of a form is, and what a query says, means nothing here.
    /// Its POST may do anything, and so may methods of WebDAV.
    pub fn of_application(requested: &RequestedResource<'_>) -> Option<Action> {
        match requested.request.map(|request| request.head.method) {
            Some(Method::Post) => None,
            Some(method) if method.is_of_webdav() => None,
            _ => Action::of(requested),
        }
    }
}

/// Whether a query is that of a form which moves something, and where to, if it says that.
pub fn move_of(query: &[u8]) -> Option<Option<&[u8]>> {
    match query.strip_prefix(MOVE_QUERY.as_bytes())? {
        [] => Some(None),
        [b'=', destination @ ..] => Some(Some(destination)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_proto::limits::Limits;
    use lamna_proto::message::Request;
    use lamna_proto::parse::head::{self, Parsed};

    fn action(method: &str, query: Option<&str>, content_type: &str) -> Option<Action> {
        asked(method, query, content_type, Action::of)
    }

    fn asked(
        method: &str,
        query: Option<&str>,
        content_type: &str,
        of: fn(&RequestedResource<'_>) -> Option<Action>,
    ) -> Option<Action> {
        let bytes = format!("{method} /a HTTP/1.1\r\nHost: a\r\nContent-Type: {content_type}\r\n\r\n");
        let Ok(Parsed::Complete(head)) = head::parse(bytes.as_bytes(), &Limits::default()) else { panic!("{bytes}") };
        let request = Some(Request { bytes: bytes.as_bytes(), head: &head });
        let query = query.map(str::as_bytes);
        of(&RequestedResource {
            host: None,
            path: b"/a",
            query,
            path_and_query: b"/a",
            request,
            is_again: false,
            redirects: 0,
            led: None,
            found: None,
        })
    }

    #[test]
    fn methods_and_forms_say_what_a_request_does() {
        let (form, files) = ("application/x-www-form-urlencoded", "multipart/form-data; boundary=x");
        for (method, query, content_type, expected) in [
            ("GET", Some("delete"), "", Some(Action::Read)),
            ("HEAD", None, "", Some(Action::Read)),
            ("PUT", Some("mkdir"), "", Some(Action::Upload)),
            ("DELETE", None, "", Some(Action::Delete)),
            ("MKCOL", None, "", Some(Action::Mkdir)),
            ("POST", None, files, Some(Action::Upload)),
            ("POST", Some("sort=name"), files, Some(Action::Upload)),
            ("POST", Some("delete"), form, Some(Action::Delete)),
            ("POST", Some("delete"), files, Some(Action::Delete)),
            ("POST", Some("mkdir"), form, Some(Action::Mkdir)),
            ("POST", Some("delete=1"), form, None),
            ("POST", Some("move"), form, Some(Action::Delete)),
            ("POST", Some("move=/b"), files, Some(Action::Delete)),
            ("POST", Some("moved"), form, None),
            ("POST", None, form, None),
            ("POST", None, "multipart/form-data", None),
            ("PROPFIND", None, "", Some(Action::Read)),
            ("COPY", None, "", Some(Action::Read)),
            ("MOVE", None, "", Some(Action::Delete)),
            ("LOCK", None, "", Some(Action::Upload)),
            ("PATCH", Some("delete"), "", None),
            ("TRACE", None, "", None),
            ("delete", None, "", None),
        ] {
            assert_eq!(action(method, query, content_type), expected, "{method} {query:?} {content_type}");
        }
    }

    #[test]
    fn what_is_moved_is_read_as_well() {
        let is_read = |method, query| {
            asked(method, query, "", |requested| Some(Action::Read).filter(|read| read.is_of(requested)))
        };
        for (method, query, expected) in [
            ("MOVE", None, true),
            ("POST", Some("move"), true),
            ("POST", Some("move=/b"), true),
            ("POST", Some("delete"), false),
            ("DELETE", Some("move"), false),
        ] {
            assert_eq!(is_read(method, query).is_some(), expected, "{method} {query:?}");
        }
    }

    #[test]
    fn what_an_application_is_sent_by_post_may_do_anything() {
        let files = "multipart/form-data; boundary=x";
        for (method, query, expected) in [
            ("POST", None, None),
            ("POST", Some("delete"), None),
            ("POST", Some("mkdir"), None),
            ("PUT", None, Some(Action::Upload)),
            ("PROPFIND", None, None),
            ("MOVE", None, None),
            ("GET", None, Some(Action::Read)),
        ] {
            assert_eq!(asked(method, query, files, Action::of_application), expected, "{method} {query:?}");
        }
    }

    #[test]
    fn what_nobody_in_particular_asks_for_is_read() {
        let nobody = RequestedResource {
            host: None,
            path: b"/",
            query: None,
            path_and_query: b"/",
            request: None,
            is_again: false,
            redirects: 0,
            led: None,
            found: None,
        };
        assert_eq!(Action::of(&nobody), Some(Action::Read));
    }
}
