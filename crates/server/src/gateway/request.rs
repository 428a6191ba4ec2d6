//! What an application is asked: the request as it is written for it.
//!
//! Owns: [`begin`], and [`Asking`], what it is made from. Guarantees: nothing of the client's head is passed through: all is written from what was
//! understood.

use std::borrow::Cow;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use lamna_proto::error::Refusal;
use lamna_proto::exchange::Translate;
use lamna_proto::gateway::cgi::{self, Place};
use lamna_proto::gateway::fields::Fields;
use lamna_proto::gateway::http1::{self, Asked, HostChoice, Unwritable, requested_upgrade};
use lamna_proto::gateway::{Inbound, Origin, Protocol, RequestContent, fastcgi, path};
use lamna_proto::message::{Field, Method, Request, RequestId, Version};
use lamna_proto::parse::target::{self, Target};

use super::exchange::Gateway;
use crate::cache::Script;
use crate::config::gateway::GatewayProtocol;
use crate::content::route::Effective;
use crate::content::site::Site;
use crate::upstream::group::Group;

/// A request that an application answers, and what is known of the client.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    /// The site that is asked.
    pub site: &'a Site,
    /// What its routes come to.
    pub rules: &'a Arc<Effective>,
    /// The application.
    pub group: &'a Arc<Group>,
    /// The file that it is to run, if it runs files.
    pub script: Option<&'a Script>,
    /// What is asked for.
    pub translate: &'a Translate<'a>,
    /// By which request.
    pub request: Request<'a>,
    /// From where; none for Unix sockets.
    pub client: Option<IpAddr>,
    /// Whether `client` is a proxy whose words about the client are believed.
    pub is_trusted: bool,
    /// Whether the request came over TLS.
    pub is_secure: bool,
    /// What the request is called.
    pub called: &'a str,
}

/// Protocols that may be changed to.
const UPGRADES: &[&str] = &["websocket"];

/// The program that answers a request.
///
/// # Errors
/// The request cannot be given to an application.
pub fn begin(asking: &Asking<'_>) -> Result<Gateway, Refusal> {
    let Asking { request, translate, group, .. } = *asking;
    let mut path = Vec::new();
    path::write(translate.path, &mut path).map_err(|_| Refusal::TargetPath)?;
    let fields = Fields::of(request);
    let content = content_of(request);
    // An upgrade has no content, and HTTP/2 has another way to ask for one.
    let may_upgrade = content == RequestContent::None && request.head.version == Version::Http11;
    let upgrade = requested_upgrade(fields, UPGRADES).filter(|_| may_upgrade);
    let inbound = Inbound {
        method: request.method_token(),
        path: &path,
        query: translate.query,
        authority: authority_of(request),
        fields,
        content,
        origin: Origin {
            client: asking.client.map(|address| (address, 0)),
            is_trusted: asking.is_trusted,
            is_secure: asking.is_secure,
            protocol: match request.head.version {
                Version::Http10 => Protocol::Http10,
                Version::Http11 => Protocol::Http11,
                Version::Http2 => Protocol::Http2,
            },
        },
    };
    let asked = Asked { is_head: request.head.method == Method::Head, upgrade: upgrade.map(Into::into) };
    let mut head = Vec::with_capacity(usize::from(request.head.length) + HEAD_SPARE_BYTES);
    match group.settings.protocol {
        GatewayProtocol::Http => {
            write_http(&inbound, group, upgrade, &mut head)?;
            // In front of the empty line.
            head.truncate(head.len() - b"\r\n".len());
            for part in [RequestId::FIELD, ": ", asking.called, "\r\n\r\n"] {
                head.extend_from_slice(part.as_bytes());
            }
        }
        GatewayProtocol::FastCgi => write_fastcgi(&inbound, asking, &mut head)?,
    }
    Ok(Gateway::new(asking, asked, content, head))
}

/// Who is asked. A host in the target overrides the field (RFC 9112 3.2.2), as it does where the site is chosen.
fn authority_of(request: Request<'_>) -> Option<&[u8]> {
    match target::parse(request.target(), false) {
        Ok(Target::Absolute { authority, .. }) => Some(authority),
        _ => request.field(Field::Host),
    }
}

/// The head of a request to an application that speaks HTTP.
fn write_http(inbound: &Inbound<'_>, group: &Group, upgrade: Option<&[u8]>, head: &mut Vec<u8>) -> Result<(), Refusal> {
    let authority = group.authority();
    let how = http1::Outgoing {
        host: match &group.settings.host {
            Some(host) => HostChoice::Fixed(host.as_bytes()),
            None => HostChoice::Client { upstream: authority.as_bytes() },
        },
        forwarded: false,
        expects_continue: false,
        upgrade,
        keep_alive: true,
    };
    http1::write_head(inbound, &how, head).map_err(|why| match why {
        Unwritable::Host => Refusal::HostInvalid,
        Unwritable::Target => Refusal::TargetPath,
        Unwritable::Method | Unwritable::Forwards => Refusal::MethodNotAllowed,
        Unwritable::Connection | Unwritable::Upgrade => Refusal::FieldsTooLarge,
    })
}

/// What begins a request to an application that speaks FastCGI.
fn write_fastcgi(inbound: &Inbound<'_>, asking: &Asking<'_>, head: &mut Vec<u8>) -> Result<(), Refusal> {
    if inbound.content == RequestContent::Streamed {
        return Err(Refusal::LengthRequired);
    }
    let mut decoded = Vec::new();
    lamna_proto::parse::path::normalise(inbound.path, &mut decoded).map_err(|_| Refusal::TargetPath)?;
    let root;
    let place = match asking.script {
        Some(script) => {
            root = script.root.as_os_str().as_bytes();
            Place::of_script(Cow::Borrowed(&script.name), &script.path_info, root)
        }
        None => cgi::mounted(b"", &decoded).ok_or(Refusal::TargetPath)?,
    };
    let server = cgi::Server { software: SOFTWARE, name: b"localhost", address: None };
    let variables = cgi::Variables { request: inbound, place: &place, server, user: None };
    let mut is_named_too_often = false;
    let written = fastcgi::write_begin(true, head, |parameters| {
        is_named_too_often =
            cgi::for_each_variable(&variables, &mut |name, value| parameters.give(name, value)).is_err();
        parameters.give(b"HTTP_X_REQUEST_ID", asking.called.as_bytes());
    });
    if written.is_err() || is_named_too_often { Err(Refusal::FieldsTooLarge) } else { Ok(()) }
}

/// What scripts are told that runs them.
const SOFTWARE: &str = concat!("lamna/", env!("CARGO_PKG_VERSION"));

/// What [`http1::write_head`] adds to a head at most.
const HEAD_SPARE_BYTES: usize = 400;

/// What content follows the head, as far as that says so: in HTTP/2 it need not.
fn content_of(request: Request<'_>) -> RequestContent {
    let length = request.field(Field::ContentLength).and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    let is_usual = matches!(request.head.method, Method::Post | Method::Put | Method::Patch);
    match length {
        _ if request.field(Field::TransferEncoding).is_some() => RequestContent::Streamed,
        Some(bytes) => RequestContent::Sized(bytes),
        None if request.head.version == Version::Http2 && is_usual => RequestContent::Streamed,
        None => RequestContent::None,
    }
}
