//! `Cache-Status` (RFC 9211): what the cache did for an answer.
//!
//! Owns: the words.

use super::keep::NotKept;

/// An answer that was kept, and was used as it is.
pub const HIT: &str = "Lamna; hit";
/// A kept answer that the application has confirmed.
pub const VALIDATED: &str = "Lamna; fwd=stale; fwd-status=304";
/// A kept answer in the place of one that the application failed to give.
pub const STALE_IF_ERROR: &str = "Lamna; fwd=stale; detail=stale-if-error";

/// Why the application was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// Nothing is kept for the target.
    Miss,
    /// Nothing for what the request selects by.
    VaryMiss,
    /// The stored answer is stale.
    Stale,
    /// The request wants it so.
    Request,
    /// The method.
    Method,
    /// The cache was left aside: an answer for this request is not for others.
    Bypass,
}

impl Forwarded {
    fn word(self) -> &'static str {
        match self {
            Forwarded::Miss => "uri-miss",
            Forwarded::VaryMiss => "vary-miss",
            Forwarded::Stale => "stale",
            Forwarded::Request => "request",
            Forwarded::Method => "method",
            Forwarded::Bypass => "bypass",
        }
    }
}

/// The line for an answer that comes from the application, and is kept, or is not.
pub fn line(why: Forwarded, is_kept: Result<(), NotKept>) -> String {
    let kept = match is_kept {
        Ok(()) => "; stored".to_owned(),
        Err(why) => format!("; detail={}", detail(why)),
    };
    format!("Cache-Status: Lamna; fwd={}{kept}\r\n", why.word())
}

fn detail(why: NotKept) -> &'static str {
    match why {
        NotKept::Method => "method",
        NotKept::Status => "status",
        NotKept::NoStore => "no-store",
        NotKept::Private => "private",
        NotKept::Authorization => "authorization",
        NotKept::SetCookie => "set-cookie",
        NotKept::Vary => "vary",
        NotKept::Cookie => "cookie",
        NotKept::Useless => "no-freshness",
        NotKept::Events => "events",
        NotKept::TooLarge => "too-large",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_why_the_application_was_asked_and_what_became_of_its_answer() {
        assert_eq!(line(Forwarded::Miss, Ok(())), "Cache-Status: Lamna; fwd=uri-miss; stored\r\n");
        assert_eq!(
            line(Forwarded::Stale, Err(NotKept::SetCookie)),
            "Cache-Status: Lamna; fwd=stale; detail=set-cookie\r\n"
        );
    }
}
