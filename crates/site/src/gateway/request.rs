//! The request to an application, as it is written for it.
//!
//! Owns: [`begin`], and [`GatewayRequest`], what it is made from. Guarantees: nothing of the client's head is passed
//! through: all is written from what was understood.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use lamna_config::access::ServiceSettings;
use lamna_config::gateway::{BufferSettings, BufferedContent, GatewayProtocol};
use lamna_config::route::template::Variable;
use lamna_proto::error::Refusal;
use lamna_proto::exchange::RequestedResource;
use lamna_proto::gateway::cgi::{self, ScriptPaths};
use lamna_proto::gateway::fields::{EndToEnd, Fields, LineEnds};
use lamna_proto::gateway::forwarding::{Interface, spells};
use lamna_proto::gateway::http1::{self, Asked, HostChoice, Unwritable, requested_upgrade};
use lamna_proto::gateway::proxy::{self, Sender};
use lamna_proto::gateway::{Believed, Inbound, Origin, Protocol, RequestContent, fastcgi, forwarding, scgi, uwsgi};
use lamna_proto::message::{Content, Field, Method, Request, RequestId, Version};
use lamna_proto::parse::path::normalise_for_rules;
use lamna_proto::parse::target::{self, Target};

use super::asked_path::{path_at_application, write_asked_path};
use super::exchange::Gateway;
use super::restored::Restored;
use super::service::AuthRequest;
use super::spooled::SpoolPayer;
use super::websocket::Opening;
use crate::cache::Script;
use crate::content::access::{AuthAssertions, Identity};
use crate::content::route::{Effective, Filling};
use crate::content::site::Site;
use crate::upstream::group::Group;
use crate::upstream::shares::Payer;

/// A request that an application answers, and what is known of the client.
#[derive(Clone, Copy, Debug)]
pub struct GatewayRequest<'a> {
    /// The site that is asked.
    pub site: &'a Site,
    /// The effective rules of the request.
    pub rules: &'a Arc<Effective>,
    /// The application.
    pub group: &'a Arc<Group>,
    /// The file that it is to run, if it runs files.
    pub script: Option<&'a Script>,
    /// The target.
    pub requested: &'a RequestedResource<'a>,
    /// The request.
    pub request: Request<'a>,
    /// From where; none for Unix sockets.
    pub client: Option<IpAddr>,
    /// The verified identity of the client, where access required one.
    pub identity: Option<Identity<'a>>,
    /// The subject of the certificate that the client has shown, where the site asks for one.
    pub client_subject: Option<&'a str>,
    /// Both ends of the client's connection, for applications that are told them; none if it has no address. The port
    /// of a client behind a proxy is not known, and 0.
    pub ends: Option<(SocketAddr, SocketAddr)>,
    /// Which words of `client`, if that is a trusted proxy, are believed about the client behind it.
    pub believed: Believed,
    /// The client, by these words.
    pub behind: Option<IpAddr>,
    /// Whether the request came over TLS.
    pub is_secure: bool,
    /// The ID of the request.
    pub called: &'a str,
    /// The client network for which the connection to the application counts; none if it counts for none.
    pub payer: Option<&'a Payer>,
    /// For whom the file counts that keeps the content, and how much it may take.
    pub spools: SpoolPayer<'a>,
}

impl<'a> GatewayRequest<'a> {
    /// The assertions of auth services about the request.
    fn assertions(&self) -> Option<&'a AuthAssertions> {
        AuthAssertions::of(self.requested.found)
    }
}

/// Protocols that may be changed to.
const UPGRADES: &[&str] = &["websocket"];

/// The program that answers a request.
///
/// # Errors
/// The request cannot be given to an application.
pub fn begin(gateway_request: &GatewayRequest<'_>) -> Result<Box<Gateway>, Refusal> {
    begin_with(gateway_request, Fields::of(gateway_request.request))
}

/// The same for a request with other fields than the client has sent.
///
/// # Errors
/// As [`begin`].
pub fn begin_with(gateway_request: &GatewayRequest<'_>, fields: Fields<'_>) -> Result<Box<Gateway>, Refusal> {
    let GatewayRequest { request, requested, group, rules, .. } = *gateway_request;
    let (received, mut lines) = (fields, Vec::new());
    let fields = without_own_fields(gateway_request, fields, &mut lines)?;
    let for_filters = rules.filters.reads().map(|codings| fields_for_filters(fields, codings));
    let fields = match &for_filters {
        Some(lines) => Fields::check(lines, LineEnds::CrLf).map_err(|_| Refusal::RunFailed)?,
        None => fields,
    };
    let mut path = Vec::new();
    write_asked_path(gateway_request.site, rules, gateway_request.script, requested.path, &mut path)?;
    let stream_for = stream_for(request, group)?;
    let content = match RequestContent::from(request.content()) {
        // What comes on a stream that is opened for another protocol is that protocol's.
        _ if stream_for.is_some() => RequestContent::None,
        RequestContent::Streamed if group.settings.buffer.is_some() => RequestContent::Buffered,
        content => content,
    };
    // An upgrade has no content, and HTTP/2 has another way to ask for one.
    let may_upgrade = content == RequestContent::None && request.head.version == Version::Http11;
    let upgrade = requested_upgrade(fields, UPGRADES).filter(|_| may_upgrade).or(stream_for);
    // Host names ignore case, and a stored answer is found by any spelling. So applications get one.
    let is_kept = rules.rules.answer_cache.is_some();
    let lower = |authority: &'_ [u8]| Cow::Owned(authority.to_ascii_lowercase());
    let authority = authority_of(request).map(|one| if is_kept { lower(one) } else { Cow::Borrowed(one) });
    let speaks_http = group.settings.protocol == GatewayProtocol::Http;
    // Scripts are told the whole path, and which part of it leads to them.
    let at_application = if speaks_http { path_at_application(rules, &path)? } else { Cow::Borrowed(&path[..]) };
    let own = own_fields(gateway_request, received, speaks_http)?;
    let inbound = Inbound {
        method: if stream_for.is_some() { b"GET" } else { request.method_token() },
        path: &at_application,
        query: requested.query,
        authority: authority.as_deref(),
        fields,
        own: Fields::check(&own, LineEnds::CrLf).map_err(|_| Refusal::FieldsTooLarge)?,
        content,
        origin: origin_of(gateway_request),
    };
    let asked = Asked { is_head: request.head.method == Method::Head, upgrade: upgrade.map(Into::into) };
    let mut head = Vec::with_capacity(usize::from(request.head.length) + own.len() + HEAD_SPARE_BYTES);
    let mut opening = None;
    let expects_continue = expects_continue(request, group, content);
    match group.settings.protocol {
        GatewayProtocol::Http => {
            write_http(&inbound, group, (upgrade, expects_continue), &mut head)?;
            if stream_for.is_some() {
                // In front of the empty line.
                head.truncate(head.len() - b"\r\n".len());
                opening = Some(Opening::begin(&mut head));
                head.extend_from_slice(b"\r\n");
            }
        }
        protocol => write_variables(protocol, &inbound, gateway_request, &mut head)?,
    }
    let restored = restored(gateway_request, inbound.own);
    let gateway = Gateway::new(gateway_request, asked, opening, content, head).with_restored(restored);
    Ok(if expects_continue { gateway.with_expectation() } else { gateway })
}

/// The field that tells an application which prefix of the path it does not get. It is of no standard; proxies and
/// frameworks agree on it.
const FORWARDED_PREFIX: &str = "x-forwarded-prefix";

/// Its value: `prefix`, behind what a trusted proxy has taken away before.
fn forwarded_prefix(fields: Fields<'_>, believed: Believed, prefix: &str) -> Vec<u8> {
    let before = fields.values(FORWARDED_PREFIX).next().filter(|_| believed == Believed::XForwarded);
    let before = before.unwrap_or_default();
    [before.strip_suffix(b"/").unwrap_or(before), prefix.as_bytes()].concat()
}

/// How addresses in the answer to this request become those that clients ask for, if its routes say so: of an
/// application that is told the fields `own`. Applications of FastCGI are told the prefix.
fn restored(gateway_request: &GatewayRequest<'_>, own: Fields<'_>) -> Option<Box<Restored>> {
    let GatewayRequest { rules, group, request, believed, is_secure, .. } = *gateway_request;
    let settings = &group.settings;
    if rules.rules.restore_prefix != Some(true) || settings.protocol != GatewayProtocol::Http {
        return None;
    }
    let authority = told_authority(request, believed).to_vec();
    let places = settings.upstreams.iter().map(|upstream| upstream.address.authority());
    let places = places.chain(settings.host.clone()).map(String::into_bytes);
    Some(Box::new(Restored {
        prefix: rules.rules.strip_prefix.clone().unwrap_or_default(),
        base: settings.base_path.clone(),
        client: (!authority.is_empty()).then_some((if is_secure { "https" } else { "http" }, authority)),
        own: places.chain(own.values("host").map(<[u8]>::to_vec)).collect(),
    }))
}

/// The fields that the server itself says to an application, as lines: what the routes say, the prefix that the
/// application does not know, what auth services have said, and the request ID. The client has sent `received`.
fn own_fields(
    gateway_request: &GatewayRequest<'_>,
    received: Fields<'_>,
    speaks_http: bool,
) -> Result<Vec<u8>, Refusal> {
    let GatewayRequest { site, rules, requested, request, believed, called, .. } = *gateway_request;
    let mut out = Vec::new();
    if !rules.request_fields.is_empty() {
        let mut path = Vec::new();
        normalise_for_rules(requested.path, &mut path).map_err(|_| Refusal::TargetPath)?;
        let host = requested.host.unwrap_or_default().to_ascii_lowercase();
        let text = |text: &str| Some(Cow::Owned(text.as_bytes().to_vec()));
        // In a subject with `?` some sign is not known, so that it is no client's name (docs/access.md).
        let plain = |name: &'_ str| (!name.contains('?')).then(|| name.to_owned());
        let variable = |variable: &Variable| match variable {
            Variable::Client => text(&gateway_request.behind?.to_canonical().to_string()),
            Variable::Scheme => text(if gateway_request.is_secure { "https" } else { "http" }),
            Variable::RequestId => text(called),
            Variable::User => text(&plain(gateway_request.identity?.name())?),
            Variable::CertificateSubject => text(&plain(gateway_request.client_subject?)?),
            // It is what the site was chosen by.
            Variable::Field(_) => authority_of(request).map(|one| Cow::Owned(one.to_vec())),
        };
        let fields = Fields::of(request);
        let end_to_end = EndToEnd::of(fields).map_err(|_| Refusal::FieldsTooLarge)?;
        let (origin, interface) =
            (origin_of(gateway_request), if speaks_http { Interface::Http } else { Interface::Script });
        let goes_on = |name: &str| {
            let mut sent = end_to_end.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()));
            let is_own = site.routes.is_own_field(name.as_bytes());
            !is_own && sent.any(|(name, value)| forwarding::goes_on(name, value, origin, interface))
        };
        // Filters are given what they read.
        let is_written = |name: &str| rules.filters.reads().is_some() && name.eq_ignore_ascii_case("accept-encoding");
        let filling = Filling {
            path: &path,
            host: &host,
            fields,
            variable: &variable,
            goes_on: &goes_on,
            is_written: &is_written,
        };
        rules.request_fields.write(&filling, |route| site.routes.captures(usize::from(route), &path), &mut out);
    }
    let mut say = |name: &[u8], value: &[u8]| {
        [name, b": ", value, b"\r\n"].iter().for_each(|part| out.extend_from_slice(part));
    };
    if let Some(prefix) = rules.rules.strip_prefix.as_deref().filter(|_| speaks_http) {
        say(b"X-Forwarded-Prefix", &forwarded_prefix(received, believed, prefix));
    }
    let assertions = gateway_request.assertions().map_or(&[][..], |assertions| &assertions.lines);
    let assertions = Fields::check(assertions, LineEnds::CrLf).unwrap_or_default().iter();
    for (name, value) in assertions.filter(|(name, _)| !rules.request_fields.replace(name)) {
        say(name, value);
    }
    say(RequestId::FIELD.as_bytes(), called.as_bytes());
    Ok(out)
}

/// The program that asks `service`, which is at `asking.group`, whether a request is let in. `before` is what others
/// have said of it.
///
/// # Errors
/// The service cannot be asked about such a request.
pub fn begin_auth_request(
    gateway_request: &GatewayRequest<'_>,
    service: &Arc<ServiceSettings>,
    before: Option<Arc<AuthAssertions>>,
) -> Result<AuthRequest, Refusal> {
    let GatewayRequest { site, request, requested, group, rules, .. } = *gateway_request;
    // As the application is asked for it.
    let mut asked_for = Vec::new();
    write_asked_path(site, rules, None, requested.path, &mut asked_for)?;
    if let Some(query) = requested.query {
        asked_for.push(b'?');
        asked_for.extend_from_slice(query);
    }
    let method = if request.head.method == Method::Connect { b"GET" } else { request.method_token() };
    if !asked_for.iter().chain(method).all(u8::is_ascii_graphic) {
        return Err(Refusal::TargetPath);
    }
    let mut lines = Vec::new();
    keep_lines(Fields::of(request), |name| is_of_question(name) && !site.routes.is_own_field(name), &mut lines);
    let (path, query) = match service.path.split_once('?') {
        Some((path, query)) => (path, Some(query.as_bytes())),
        None => (&*service.path, None),
    };
    let inbound = Inbound {
        method: b"GET",
        path: path.as_bytes(),
        query,
        authority: authority_of(request),
        fields: Fields::check(&lines, LineEnds::CrLf).map_err(|_| Refusal::FieldsTooLarge)?,
        own: Fields::default(),
        content: RequestContent::None,
        origin: origin_of(gateway_request),
    };
    let mut head = Vec::with_capacity(usize::from(request.head.length) + HEAD_SPARE_BYTES);
    write_http(&inbound, group, (None, false), &mut head)?;
    head.truncate(head.len() - b"\r\n".len());
    for part in [&b"X-Forwarded-Method: "[..], method, b"\r\nX-Forwarded-Uri: ", &asked_for, b"\r\n"] {
        head.extend_from_slice(part);
    }
    end_head(gateway_request, &mut head);
    let gateway = Gateway::auth_request(gateway_request, head);
    Ok(AuthRequest::new(gateway, service, before, rules, (site.label(), gateway_request.called.into())))
}

/// Whether a service is told a field of a request: but for what asks for a part of something, or whether it is still
/// what it was, and what we say in its place. The host is the one by which the site was chosen, as the path is the one
/// that is judged here. What other servers say in the place of `X-Forwarded-Uri` a service might believe as well.
fn is_of_question(name: &[u8]) -> bool {
    const OURS: [&str; 5] = ["x-forwarded-method", "x-forwarded-uri", "x-forwarded-host", "x-rewrite-url", "range"];
    let begins = |beginning: &str| name.get(..beginning.len()).is_some_and(|start| spells(start, beginning));
    !begins("if-") && !begins("x-original-") && !OURS.iter().any(|own| spells(name, own))
}

/// The fields that a client may say to applications: not those that services and routes say, in whatever spelling.
fn without_own_fields<'f>(
    gateway_request: &GatewayRequest<'_>,
    fields: Fields<'f>,
    lines: &'f mut Vec<u8>,
) -> Result<Fields<'f>, Refusal> {
    let GatewayRequest { site: Site { routes, .. }, rules, group, .. } = gateway_request;
    let strips = rules.rules.strip_prefix.is_some() && group.settings.protocol == GatewayProtocol::Http;
    if !routes.have_own_fields() && rules.request_fields.is_empty() && !strips {
        return Ok(fields);
    }
    let is_kept = |name: &[u8]| {
        !routes.is_own_field(name) && rules.request_fields.let_on(name) && !(strips && spells(name, FORWARDED_PREFIX))
    };
    keep_lines(fields, is_kept, lines);
    Fields::check(lines, LineEnds::CrLf).map_err(|_| Refusal::FieldsTooLarge)
}

fn keep_lines(fields: Fields<'_>, is_kept: impl Fn(&[u8]) -> bool, lines: &mut Vec<u8>) {
    for (name, value) in fields.iter().filter(|(name, _)| is_kept(name)) {
        [name, b": ", value, b"\r\n"].iter().for_each(|part| lines.extend_from_slice(part));
    }
}

/// Ends a head: the request ID, and the empty line.
fn end_head(gateway_request: &GatewayRequest<'_>, head: &mut Vec<u8>) {
    for part in [RequestId::FIELD, ": ", gateway_request.called, "\r\n\r\n"] {
        head.extend_from_slice(part.as_bytes());
    }
}

fn origin_of(gateway_request: &GatewayRequest<'_>) -> Origin {
    Origin {
        client: gateway_request.client.map(|address| {
            let known = gateway_request.ends.filter(|(client, _)| client.ip() == address);
            (address, known.map_or(0, |(client, _)| client.port()))
        }),
        believed: gateway_request.believed,
        behind: gateway_request.behind,
        is_secure: gateway_request.is_secure,
        protocol: match gateway_request.request.head.version {
            Version::Http10 => Protocol::Http10,
            Version::Http11 => Protocol::Http11,
            Version::Http2 => Protocol::Http2,
        },
    }
}

/// The fields of a request whose answer passes through filters that look into it: it has to be whole, and under a
/// coding that they read.
fn fields_for_filters(fields: Fields<'_>, codings: &str) -> Vec<u8> {
    const CHANGED: [&str; 3] = ["accept-encoding", "range", "if-range"];
    let mut lines = Vec::new();
    let mut push = |name: &[u8], value: &[u8]| {
        [name, b": ", value, b"\r\n"].iter().for_each(|part| lines.extend_from_slice(part));
    };
    let is_changed = |name: &[u8]| CHANGED.iter().any(|one| name.eq_ignore_ascii_case(one.as_bytes()));
    fields.iter().filter(|(name, _)| !is_changed(name)).for_each(|(name, value)| push(name, value));
    push(b"Accept-Encoding", codings.as_bytes());
    lines
}

/// The protocol for which a client of HTTP/2 opens a stream (RFC 8441 4); none if it does not.
///
/// # Errors
/// It is one that is not spoken here, or the application does not speak it (501, as RFC 9220 3 has it for HTTP/3).
fn stream_for<'a>(request: Request<'a>, group: &Group) -> Result<Option<&'a [u8]>, Refusal> {
    if request.head.method != Method::Connect {
        return Ok(None);
    }
    let fields = Fields::of(request);
    let protocol = fields.values("upgrade").next().filter(|_| group.settings.protocol == GatewayProtocol::Http);
    let protocol = protocol.filter(|protocol| UPGRADES.iter().any(|one| one.as_bytes() == *protocol));
    // A key of the client's would stand beside ours.
    let has_key = fields.values("sec-websocket-key").next().is_some();
    protocol.filter(|_| !has_key).map(Some).ok_or(Refusal::MethodUnknown)
}

/// The PROXY protocol header for a connection; empty if the application is not told its client.
pub(super) fn preface_of(gateway_request: &GatewayRequest<'_>) -> Vec<u8> {
    let sender = gateway_request.ends.map_or(Sender::Unknown, |(from, to)| Sender::Client(from, to));
    gateway_request.group.settings.send_proxy.map_or_else(Vec::new, |version| proxy::header(version, sender))
}

/// The requested authority. A host in the target overrides the field (RFC 9112 3.2.2), as it does where the site is
/// chosen.
pub fn authority_of(request: Request<'_>) -> Option<&[u8]> {
    match target::parse(request.target(), false) {
        Ok(Target::Absolute { authority, .. }) => Some(authority),
        _ => request.field(Field::Host),
    }
}

/// Whether a request is for caches to look at: it has no content, and asks for no other protocol.
pub fn may_be_cached(request: Request<'_>) -> bool {
    request.content() == Content::None && requested_upgrade(Fields::of(request), UPGRADES).is_none()
}

/// The requested authority, as an application learns it: from a trusted proxy, or else from the request.
pub fn told_authority(request: Request<'_>, believed: Believed) -> &[u8] {
    let fields = Fields::of(request);
    let said = if believed == Believed::XForwarded {
        fields.values("x-forwarded-host").find(|value| !value.is_empty())
    } else {
        None
    };
    said.or(authority_of(request)).unwrap_or_default()
}

/// Writes the words of a trusted proxy about the way of a request that an answer may depend on, but for its host and
/// its scheme, which are `known`.
pub fn write_told_way(request: Request<'_>, believed: Believed, known: (&[u8], bool), out: &mut Vec<u8>) {
    out.clear();
    if believed != Believed::Nothing {
        forwarding::append_told(Fields::of(request), believed, known, out);
    }
}

/// Whether the application is asked whether it wants the content, as the client asks (RFC 9110 10.1.1).
fn expects_continue(request: Request<'_>, group: &Group, content: RequestContent) -> bool {
    let is_passed_on = matches!(content, RequestContent::Sized(1..) | RequestContent::Streamed);
    is_passed_on
        && request.head.version != Version::Http10
        && request.field(Field::Expect).is_some()
        && group.settings.protocol == GatewayProtocol::Http
        && group.settings.buffer.is_none()
        && group.expectations.asks()
}

/// The head of a request to an application that speaks HTTP, with the protocol that it may be changed to, and whether
/// it asks if the content is wanted.
fn write_http(
    inbound: &Inbound<'_>,
    group: &Group,
    (upgrade, expects_continue): (Option<&[u8]>, bool),
    head: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let authority = group.authority();
    let how = http1::Outgoing {
        host: match &group.settings.host {
            Some(host) => HostChoice::Fixed(host.as_bytes()),
            None => HostChoice::Client { upstream: authority.as_bytes() },
        },
        forwarded: false,
        expects_continue,
        upgrade,
        // A connection that is for one client is not kept for others.
        keep_alive: group.settings.send_proxy.is_none(),
    };
    http1::write_head(inbound, &how, head).map_err(|why| match why {
        Unwritable::Host => Refusal::HostInvalid,
        Unwritable::Target => Refusal::TargetPath,
        Unwritable::Method | Unwritable::Forwards => Refusal::MethodNotAllowed,
        Unwritable::Connection | Unwritable::Upgrade => Refusal::FieldsTooLarge,
    })
}

/// Writes the beginning of a request to an application that is told of it by the variables of CGI.
fn write_variables(
    protocol: GatewayProtocol,
    inbound: &Inbound<'_>,
    gateway_request: &GatewayRequest<'_>,
    head: &mut Vec<u8>,
) -> Result<(), Refusal> {
    // Without a length there may be no content: that is known when some comes, or the end (`Gateway::lacks_length`). A
    // client that waits to be told to send it has some.
    if inbound.content == RequestContent::Streamed && gateway_request.request.field(Field::Expect).is_some() {
        return Err(Refusal::LengthRequired);
    }
    let mut decoded = Vec::new();
    normalise_for_rules(inbound.path, &mut decoded).map_err(|_| Refusal::TargetPath)?;
    let root;
    let paths = match gateway_request.script {
        Some(script) => {
            root = script.root.as_os_str().as_bytes();
            ScriptPaths::of_script(&script.prefix, &script.name, &script.path_info, root)
        }
        None => {
            let prefix = gateway_request.rules.rules.strip_prefix.as_deref().unwrap_or_default();
            cgi::mounted(prefix.as_bytes(), &decoded).ok_or(Refusal::TargetPath)?
        }
    };
    let address = gateway_request.ends.map(|(_, own)| (own.ip(), own.port()));
    let server = cgi::Server { software: SOFTWARE, name: b"localhost", address };
    let user = gateway_request.identity.map(|identity| (identity.scheme(), identity.name().as_bytes()));
    let variables = cgi::Variables { request: inbound, paths: &paths, server, user };
    let mut is_named_too_often = false;
    let mut give_to =
        |give: &mut dyn FnMut(&[u8], &[u8])| is_named_too_often = cgi::for_each_variable(&variables, give).is_err();
    let written = match protocol {
        GatewayProtocol::Scgi => {
            let bytes = if let RequestContent::Sized(bytes) = inbound.content { bytes } else { 0 };
            scgi::write_begin(bytes, head, |give| give_to(give))
        }
        GatewayProtocol::Uwsgi => uwsgi::write_begin(head, |give| give_to(give)),
        GatewayProtocol::Http | GatewayProtocol::FastCgi => {
            fastcgi::write_begin(gateway_request.group.settings.keeps_connections(), head, |parameters| {
                give_to(&mut |name, value| parameters.give(name, value));
            })
        }
    };
    if written.is_err() || is_named_too_often { Err(Refusal::FieldsTooLarge) } else { Ok(()) }
}

/// The server's name and version, for scripts.
const SOFTWARE: &str = concat!("lamna/", env!("CARGO_PKG_VERSION"));

/// Most bytes that [`http1::write_head`] adds to a head.
const HEAD_SPARE_BYTES: usize = 400;

/// How the content of a request to `group` is kept until it is whole; none if it goes on as it comes, or there is none.
pub(super) fn keeps(group: &Group, content: RequestContent) -> Option<BufferSettings> {
    let settings = group.settings.buffer.as_ref()?;
    let is_kept = match content {
        RequestContent::None | RequestContent::Sized(0) => false,
        RequestContent::Sized(_) => settings.content == BufferedContent::All,
        RequestContent::Streamed | RequestContent::Buffered => true,
    };
    is_kept.then(|| settings.clone())
}
