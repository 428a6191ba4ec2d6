//! Requests that a program answers itself which the server is a part of (`embed`).
//!
//! Owns: [`Handler`], what such a program implements, and what carries one request out. Guarantees: content is whole
//! before the handler is asked, and never more than it takes; a handler that panics ends its request with 500 and
//! nothing else. It is asked where the engine has what may take long done.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use lamna_proto::exchange::RequestedResource;
use lamna_proto::exchange::program::{Holds, Input, Program, StepResult};
use lamna_proto::gateway::fields::Fields;
use lamna_proto::message::{Request, Status};
use lamna_proto::resource::{Description, Representation, Resource};
use lamna_sys::contain::contain;

use crate::content::route::Effective;

/// Answers the requests of a route.
pub trait Handler: fmt::Debug + Send + Sync {
    /// The answer to a request. It may wait.
    fn answer(&self, request: &Asked) -> Reply;

    /// Bytes of content that it takes; more are refused with 413.
    fn content_bytes_max(&self) -> u64 {
        1 << 20
    }
}

/// Handlers by name.
pub type Handlers = BTreeMap<String, Arc<dyn Handler>>;

/// Functions are handlers.
pub struct Answering<F>(pub F);

impl<F> fmt::Debug for Answering<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Answering")
    }
}

impl<F: Fn(&Asked) -> Reply + Send + Sync> Handler for Answering<F> {
    fn answer(&self, request: &Asked) -> Reply {
        (self.0)(request)
    }
}

/// A request that a handler answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The method, as it was sent.
    pub method: String,
    /// The path as it was sent: begins with `/`, not decoded.
    pub path: String,
    /// The query, without `?`.
    pub query: Option<String>,
    /// The host that is asked, without port.
    pub host: Option<String>,
    /// The fields, as they were sent.
    pub fields: Vec<(String, Vec<u8>)>,
    /// The content, whole.
    pub content: Vec<u8>,
}

impl Asked {
    /// The value of the first field of this name, in any case.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        let found = self.fields.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| &**value)
    }

    fn of(requested: &RequestedResource<'_>, request: Request<'_>) -> Asked {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Asked {
            method: text(request.method_token()),
            path: text(requested.path),
            query: requested.query.map(text),
            host: requested.host.map(text),
            fields: Fields::of(request).iter().map(|(name, value)| (text(name), value.to_vec())).collect(),
            content: Vec::new(),
        }
    }
}

/// The answer of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status: from 200 to 599, or it is 500.
    pub status: u16,
    /// The media type of the content.
    pub media_type: String,
    /// Further fields, beside those of the route. Those of framing are the server's.
    pub fields: Vec<(String, String)>,
    /// The content.
    pub content: Vec<u8>,
}

impl Reply {
    /// 200 with this text.
    pub fn text(text: impl Into<String>) -> Reply {
        let media_type = "text/plain; charset=utf-8".to_owned();
        Reply { status: 200, media_type, fields: Vec::new(), content: text.into().into_bytes() }
    }
}

/// The program that answers a request to a route with `handler`.
pub fn begin(
    handler: &Arc<dyn Handler>,
    rules: &Arc<Effective>,
    requested: &RequestedResource<'_>,
    request: Request<'_>,
) -> Box<dyn Program> {
    Box::new(Handling { handler: handler.clone(), rules: rules.clone(), asked: Asked::of(requested, request) })
}

#[derive(Debug)]
struct Handling {
    handler: Arc<dyn Handler>,
    rules: Arc<Effective>,
    asked: Asked,
}

impl Program for Handling {
    fn content_bytes_max(&self) -> u64 {
        self.handler.content_bytes_max()
    }

    fn asks(&self) -> Option<String> {
        Some("the program that the server is a part of".to_owned())
    }

    fn holds(&self) -> Holds {
        Holds::of_bytes(self.asked.content.capacity())
    }

    fn run(&mut self, Input { content, is_last, .. }: Input<'_>) -> StepResult {
        self.asked.content.extend_from_slice(content);
        if !is_last {
            return StepResult::Continue;
        }
        let reply = contain("A handler of the program has failed: the request is answered with 500.", || {
            self.handler.answer(&self.asked)
        });
        let resource = reply.filter(is_possible).and_then(|reply| self.resource(&reply));
        resource.map_or(StepResult::Failed, |resource| StepResult::Answer(Arc::new(resource)))
    }
}

/// Fields that the server writes.
const OWN_FIELDS: [&str; 6] = ["connection", "content-length", "content-type", "date", "transfer-encoding", "upgrade"];

/// Whether a reply can be written into an answer as it is.
fn is_possible(reply: &Reply) -> bool {
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let is_value = |value: &str| value.bytes().all(|byte| byte == b'\t' || byte >= b' ' && byte != 0x7f);
    let is_own = |name: &str| OWN_FIELDS.iter().any(|own| name.eq_ignore_ascii_case(own));
    (200..600).contains(&reply.status)
        && is_value(&reply.media_type)
        && reply.fields.iter().all(|(name, value)| is_name(name) && is_value(value) && !is_own(name))
}

impl Handling {
    /// None if the fields are too long for a head.
    fn resource(&self, reply: &Reply) -> Option<Resource> {
        let extras = self.rules.extras(reply.status);
        let fields = [&*extras.fields, &reply.fields].concat();
        let status = Status(reply.status);
        let has_content = !matches!(reply.status, 204 | 304);
        let description = Description {
            media_type: Some(&*reply.media_type).filter(|media_type| has_content && !media_type.is_empty()),
            fields: &fields,
            vary: extras.vary,
            ..Description::of(status)
        };
        let content = if has_content { &*reply.content } else { &[] };
        Some(Resource::one(status, Representation::with_content(&description, content).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_that_would_change_the_framing_is_none() {
        let with = |name: &str, value: &str| Reply { fields: vec![(name.into(), value.into())], ..Reply::text("a") };
        assert!(is_possible(&Reply::text("a")) && is_possible(&with("X-A", "b c")));
        for (name, value) in
            [("Content-Length", "5"), ("X-A", "b\r\nX-B: c"), ("X A", "b"), ("", "b"), ("connection", "x")]
        {
            assert!(!is_possible(&with(name, value)), "{name}: {value:?}");
        }
        for status in [0, 101, 199, 600] {
            assert!(!is_possible(&Reply { status, ..Reply::text("a") }));
        }
    }
}
