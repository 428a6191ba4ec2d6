//! The keys of a route, and what the simple ones mean. docs/extending.md says how to add one.
//!
//! Owns: the list of all keys, in the order in which a table is told. `match` and `priority` are not among it: they say
//! for which requests the others are.

use std::collections::BTreeMap;

use lamna_filter::Step;
use lamna_proto::gateway::path::Spelling;
use serde::Deserialize;
use serde_json::{Value, json};
use toml::Spanned;

use super::condition::Condition;
use super::cors::{self, Cors};
use super::fields;
use super::filters;
use super::gateways;
use super::headers::{HeaderRule, IMMUTABLE, Statuses};
use super::pattern::Pattern;
use super::prefixes::{RestorePrefix, StripPrefix};
use super::request_fields::{self, RequestFields, RequestRules};
use super::respond::{self, Respond};
use super::row::{Answer, Field, Matching, Order, RouteKey, Row, Section, SwitchKey, route_keys};
use super::shapes::{
    AccessValue, AnswerCacheTable, CgiTable, CorsTable, FilterStep, GatewayTable, Headers, MatchTable, Never,
    RedirectTable, RespondValue, StructuredTable, SwitchOr, TextsOr,
};
use super::spelling::{self, PathSpelling};
use super::template::Template;
use super::ways::{self, RouteRedirect};
use super::{Source, Switch, access, applications, cgi, kept_answers};
use crate::access::AccessRules;
use crate::access_log::{LogTarget, RouteLog};
use crate::answer_cache::AnswerCache;
use crate::checker::Checker;
use crate::error_pages::ErrorPages;
use crate::gateway::GatewaySettings;
use crate::key::Key;
use crate::page::{list, quoted};
use crate::schema::values::{filled_table, list_of, several, several_or_none, table, text};
use crate::site;
use crate::written::{Filled, MayBeEmpty, Text, Texts};

route_keys! {
    /// Changes of header fields; of rules the least specific first.
    headers: Vec<HeaderRule> => Vec<HeaderRule>, by fields::Fields {
        headers = "headers": Option<Headers> = Key::other(
            "table, or list of tables",
            fields::schema,
            "Fields that are set, or tables that say more",
        )
        .more(
            ": `false` for one that is removed, `true` for one that is as the answer has it; the tables have `set`, \
             `default`, `add`, `remove`, `keep` and `status`",
        );
    }

    /// Which files never change.
    immutable: Option<Immutable> => Option<Immutable>, by NeverChanges {
        immutable = "immutable": Option<Spanned<SwitchOr<Never>>> =
            Key::other(
                "boolean or `\"all\"`",
                || json!({ "enum": [true, false, "all"] }),
                "Whether caches may keep files for a year",
            )
            .more(": those with a hash in their name (a part of 8 or more letters and digits, both), or all");
    }

    /// Another address, of rules with the route that it is from.
    redirect: Switch<RouteRedirect> => Option<(RouteRedirect, usize)>, by ways::Redirect {
        redirect = "redirect": Option<Spanned<SwitchOr<RedirectTable>>> = Key::other(
            "text, table or `false`",
            || json!({ "type": ["string", "object", "boolean"] }),
            "Where to, or false",
        )
        .more(
            ", whatever the method is (307 and 308 keep it); the table has `to`, `status` (302) and `if_missing` \
             (`false`; `true`: only where there is nothing)",
        );
    }

    /// The path that is looked for instead, of rules with the route that it is from.
    rewrite: Switch<Template> => Option<(Template, usize)>, by ways::Rewrite {
        rewrite = "rewrite": Option<Spanned<SwitchOr<Never>>> =
            Key::other(
                "text or `false`",
                || json!({ "type": ["string", "boolean"] }),
                "The path that is looked for, or false",
            )
            .more("; routes are not asked again");
    }

    /// Paths that are tried in turn, of rules with the route that they are from. Empty: the path alone.
    try_files: Option<Vec<Template>> => Option<(Vec<Template>, usize)>, by ways::TryFiles {
        try_files = "try": Option<Spanned<MayBeEmpty<Texts>>> =
            Key::other("text or list", || several_or_none(""), "Paths that are tried in turn")
                .more(
                "; `$path` is a file, a folder with an index file, or one that is listed; `[]` is the path alone. With `proxy` \
                 the application comes behind them, as with `@NAME` at the end",
            );
    }

    /// Names of index files; none for those of the site.
    index: Option<Vec<String>> => Option<Vec<String>>, by Index {
        index = "index": Option<MayBeEmpty<Vec<Text>>> = Key::texts_or_none(
            "list of names",
            "A file that is tried for a directory",
            "Files that are tried, in order, for a directory",
        )
        .more("; as that of the site; `[]` is none");
    }

    /// Pages for errors, by status, where they differ from those of the site.
    error_pages: ErrorPages => ErrorPages, by OwnPages {
        error_pages = "error_pages": BTreeMap<Text, Text> = Key::other(
            "table",
            ErrorPages::schema,
            "By status, 400 to 599, 4xx or 5xx: the path of the page, beneath the root",
        )
        .more("; as that of the site: [pages.md](pages.md)");
    }

    /// Rights of other origins.
    cors: Switch<Cors> => Option<Cors>, by cors::OtherOrigins {
        cors = "cors": Option<Spanned<SwitchOr<CorsTable>>> =
            Key::other("boolean or table", cors::schema, "Whether pages of other origins may read")
                .more("; a table is below");
    }

    /// The fixed answer.
    respond: Switch<Respond> => Option<Respond>, by respond::Responds {
        respond = "respond": Option<Spanned<RespondValue>> =
            Key::other("status, table or `false`", respond::schema, "The fixed answer to every request, or false")
                .more("; the table has `status` (200), `text` or `file`, and `headers`: [pages.md](pages.md)");
    }

    /// Whether errors of applications are answered with the pages for their status.
    intercept_errors: Option<bool> => Option<bool>, by InterceptErrors {
        intercept_errors = "intercept_errors": Option<bool> =
            Key::switch("Whether errors of applications are answered with the pages of `error_pages`")
                .more("; otherwise an application's own content is sent: [pages.md](pages.md)");
    }

    /// The application that answers.
    gateway: Switch<GatewaySettings> => Option<GatewaySettings>, by gateways::Gateway {
        proxy = "proxy": Option<Spanned<SwitchOr<GatewayTable>>> =
            Key::other("text, table or `false`", gateways::proxy_schema, "The application that answers, over HTTP")
                .more(": docs/gateways.md");
        fastcgi = "fastcgi": Option<Spanned<SwitchOr<GatewayTable>>> = Key::other(
            "text, table or `false`",
            gateways::fastcgi_schema,
            "The application that runs scripts, over FastCGI",
        )
        .more(": docs/gateways.md");
        scgi = "scgi": Option<Spanned<SwitchOr<GatewayTable>>> = Key::other(
            "text, table or `false`",
            gateways::stream_schema,
            "The application that answers, over SCGI",
        )
        .more(": docs/gateways.md");
        uwsgi = "uwsgi": Option<Spanned<SwitchOr<GatewayTable>>> = Key::other(
            "text, table or `false`",
            gateways::stream_schema,
            "The application that answers, over the protocol of uWSGI",
        )
        .more(": docs/gateways.md");
        application = "application": Option<Text> =
            Key::other("text", applications::name_schema, "The name of the application of the site that answers")
                .more(", as `[[site.application]]` has it: docs/gateways.md");
        cgi = "cgi": Option<Spanned<SwitchOr<CgiTable>>> =
            Key::other("boolean or table", cgi::schema, "Whether the files of the route are programs (RFC 3875)")
                .more(": docs/gateways.md");
    }

    /// The spelling in which the application is asked for paths; none for the one that suits the rules.
    path_spelling: Option<Spelling> => Option<Spelling>, by PathSpelling {
        path = "path": Option<Text> = Key::other(
            "`\"as-sent\"` or `\"normal\"`",
            spelling::schema,
            "The spelling in which the application is asked for a path",
        )
        .more(": [gateways.md](gateways.md#paths)");
    }

    /// The beginning of paths that the application does not know; without a slash at its end.
    strip_prefix: Option<String> => Option<String>, by StripPrefix {
        strip_prefix = "strip_prefix": Option<Text> =
            Key::other("path", || text(""), "The beginning of paths that is taken away for the application")
                .more(", as `/app`: [gateways.md](gateways.md#a-prefix)");
    }

    /// Whether addresses in answers of the application are put behind the prefix.
    restore_prefix: Option<bool> => Option<bool>, by RestorePrefix {
        restore_prefix = "restore_prefix": Option<bool> =
            Key::switch("Whether an application's own addresses in its answers are put behind the prefix")
                .more(": [gateways.md](gateways.md#a-prefix)");
    }

    /// Changes of the fields of requests to the application; of rules the least specific first, each with the route
    /// that it is from.
    request_headers: Vec<HeaderRule> => RequestRules, by RequestFields {
        request_headers = "request_headers": Option<Headers> = Key::other(
            "table, or list of tables",
            request_fields::schema,
            "Fields that are set in what the application is sent, or tables that say more",
        )
        .more(
            ": as `headers`, without `status`; values may have variables: [gateways.md](gateways.md#request-fields)",
        );
    }

    /// How the answers of applications are kept; of rules none if they are not.
    answer_cache: Switch<AnswerCache> => Option<AnswerCache>, by kept_answers::KeptAnswers {
        cache = "cache": Option<Spanned<SwitchOr<AnswerCacheTable>>> =
            Key::other("boolean or table", kept_answers::schema, "Whether the answers of the application are kept")
                .more(": [caching-answers.md](caching-answers.md); a table is below");
    }

    /// The name of the part of the program that answers. Not in a file: only programs that embed the server have one.
    handler: Option<String> => Option<String>, by Handler {}

    /// Filters that files pass through. Empty: none, whatever less specific routes say.
    filters: Option<Vec<Step>> => Option<Vec<Step>>, by filters::Filters {
        filters = "filters": Option<MayBeEmpty<Vec<Spanned<FilterStep>>>> =
            Key::other(
                "list",
                filters::schema_of_route,
                "Filters that files and answers of applications pass through",
            )
            .more(", as Markdown to HTML, or `\"compress\"`: [filters.md](filters.md); `[]` is nothing");
        structured = "structured": Option<Spanned<SwitchOr<StructuredTable>>> = Key::other(
            "boolean or table",
            filters::structured_schema,
            "Whether clients may ask for an overview of a page and for its sections",
        )
        .more(": [structured.md](structured.md); the table has `save_data` (`false`)");
    }

    /// Whether clients may store files.
    upload: Option<bool> => Option<bool>, by Upload {
        upload = "upload": Option<bool> =
            Key::switch("Whether clients may store files").more(": [uploads.md](uploads.md)").admits();
    }

    /// Whether clients may delete files and empty directories.
    delete: Option<bool> => Option<bool>, by Delete {
        delete = "delete": Option<bool> =
            Key::switch("Whether clients may delete files and empty directories")
                .more(": [uploads.md](uploads.md)").admits();
    }

    /// Whether the pages of folders are searched.
    search: Option<bool> => Option<bool>, by Search {
        search = "search": Option<bool> =
            Key::switch("Whether the pages of folders are searched with ?q=").more(": [search.md](search.md)");
    }

    /// Whether clients are told what pages need before these are there.
    early_hints: Option<bool> => Option<bool>, by EarlyHints {
        early_hints = "early_hints": Option<bool> =
            Key::switch("Whether clients are told what pages need before these are there")
                .more("; otherwise what the site says: [early-hints.md](early-hints.md)");
    }

    /// Whether pages there may be fetched ahead; true: those of applications as well.
    link_prefetch: Option<bool> => Option<bool>, by LinkPrefetch {
        link_prefetch = "link_prefetch": Option<bool> =
            Key::switch("Whether pages there may be fetched ahead; true: those of applications as well")
                .more("; otherwise what the site says: [early-hints.md](early-hints.md#the-next-page)");
    }

    /// Whether clients may make directories.
    mkdir: Option<bool> => Option<bool>, by Mkdir {
        mkdir = "mkdir": Option<bool> =
            Key::switch("Whether clients may make directories").more(": [uploads.md](uploads.md)").admits();
    }

    /// Whether clients may mount folders by WebDAV.
    webdav: Option<bool> => Option<bool>, by Webdav {
        webdav = "webdav": Option<bool> =
            Key::switch("Whether clients may mount folders by WebDAV").more(": [webdav.md](webdav.md)").admits();
    }

    /// The access log of requests; none for that of the site.
    log: Option<RouteLog> => Option<RouteLog>, by Log {
        log = "log": Option<Text> = Key::text(
            "`off`, `on`, `-` or path",
            "The access log of requests: `on` for that of the site, `off`, `-` for standard output, or a file",
        )
        .default("`\"on\"`")
        .more(": [logs.md](logs.md)");
    }

    /// Rights of clients, of rules where they differ from those of the site.
    access: AccessRules => AccessRules, by access::Access {
        access = "access": Option<Spanned<AccessValue>> =
            Key::other(
                "table, list of tables, `\"deny\"` or `\"anyone\"`",
                access::schema,
                "Who may read, upload, delete and make directories",
            )
            .more(": [access.md](access.md)")
            .admits();
    }
}

/// `priority`, which says in which order routes are looked at.
pub(crate) const PRIORITY: Key =
    Key::other("number", || json!({ "type": "integer" }), "Routes with a greater one count first")
        .named("priority")
        .default("0");

/// The schema of `route`, with the keys that say for which requests one is.
pub(crate) fn schema() -> Value {
    let not = matches(json!({ "type": "object", "minProperties": 1, "description": "The same again" }));
    let not = filled_table(not.into_iter().skip(2), "What must not fit: a table as `match`, without paths");
    let mut keys: Vec<_> = keys().map(Key::schema).collect();
    keys.extend([
        (
            "match",
            json!({ "anyOf": [text(""), list_of(text("")), filled_table(matches(not), "What has to fit, all of it")] }),
        ),
        PRIORITY.schema(),
    ]);
    list_of(table(keys, &["match"], "What applies to some requests only"))
}

/// The keys of `match`: first those of paths.
fn matches(not: Value) -> [(&'static str, Value); 9] {
    let regex = table([("regex", text(""))], &["regex"], "An expression that fits");
    let value = json!({ "anyOf": [{ "type": "boolean" }, text(""), list_of(text("")), regex] });
    let values = |description: &str| json!({ "type": "object", "minProperties": 1, "additionalProperties": value, "description": description });
    [
        ("path", several("Patterns of the decoded path")),
        ("regex", several("Regular expressions over the decoded path")),
        ("method", several("Methods, in capitals")),
        ("host", list_of(text("A host name"))),
        ("header", values("Fields: true, false, texts, or { regex = \"...\" }")),
        ("query", values("Parameters of the query: values as for header")),
        ("client", several("Networks of clients")),
        ("protocol", several("HTTP/1.0 or HTTP/1.1")),
        ("not", not),
    ]
}

/// `search`.
pub(super) struct Search;

impl SwitchKey for Search {
    const ORDER: Order = Order::OF_CONTENT;

    fn given(table: &RouteTable) -> Option<bool> {
        table.search
    }

    fn report(is_on: bool) -> Option<String> {
        is_on.then(|| "its pages are searched with ?q=".to_owned())
    }
}

/// `early_hints`.
pub(super) struct EarlyHints;

impl SwitchKey for EarlyHints {
    const ORDER: Order = Order::OF_CONTENT;

    fn given(table: &RouteTable) -> Option<bool> {
        table.early_hints
    }

    fn report(is_on: bool) -> Option<String> {
        let words = if is_on { "clients are told what its pages need (103 Early Hints)" } else { "no early hints" };
        Some(words.to_owned())
    }
}

/// `link_prefetch`.
pub(super) struct LinkPrefetch;

impl SwitchKey for LinkPrefetch {
    const ORDER: Order = Order::OF_CONTENT;

    fn given(table: &RouteTable) -> Option<bool> {
        table.link_prefetch
    }

    fn report(is_on: bool) -> Option<String> {
        let words = match is_on {
            true => "its pages may be fetched ahead, those of applications as well",
            false => "its pages are not fetched ahead",
        };
        Some(words.to_owned())
    }
}

/// `log`.
pub(super) struct Log;

impl RouteKey for Log {
    const ANSWER: Answer = Answer::There;

    fn judge(given: &RouteTable, _: &[Pattern], checker: &mut Checker<'_>) -> Option<RouteLog> {
        let given = given.log.as_ref()?;
        match given.get_ref().as_str() {
            "on" => Some(RouteLog::Site),
            _ => Some(RouteLog::Own(site::log_target(given, checker))),
        }
    }

    fn render(said: &Option<RouteLog>) -> Option<String> {
        said.as_ref().map(|log| quoted(&log.text()))
    }

    fn merge(routes: &Matching<'_>) -> Option<RouteLog> {
        Log::first(routes)
    }

    fn report(rule: &Option<RouteLog>) -> Vec<String> {
        let said = match rule {
            None | Some(RouteLog::Site) => None,
            Some(RouteLog::Own(LogTarget::Off)) => Some("its requests are not in the access log".to_owned()),
            Some(RouteLog::Own(target)) => Some(format!("its requests are in the access log {}", target.text())),
        };
        said.into_iter().collect()
    }
}

/// `upload`.
pub(super) struct Upload;

impl SwitchKey for Upload {
    const ORDER: Order = OF_CHANGES;

    fn given(table: &RouteTable) -> Option<bool> {
        table.upload
    }

    fn report(is_on: bool) -> Option<String> {
        on_or_off::<Upload>(is_on)
    }
}

/// `delete`.
pub(super) struct Delete;

impl SwitchKey for Delete {
    const ORDER: Order = OF_CHANGES;

    fn given(table: &RouteTable) -> Option<bool> {
        table.delete
    }

    fn report(is_on: bool) -> Option<String> {
        on_or_off::<Delete>(is_on)
    }
}

/// `mkdir`.
pub(super) struct Mkdir;

impl SwitchKey for Mkdir {
    const ORDER: Order = OF_CHANGES;

    fn given(table: &RouteTable) -> Option<bool> {
        table.mkdir
    }

    fn report(is_on: bool) -> Option<String> {
        on_or_off::<Mkdir>(is_on)
    }
}

/// `webdav`.
pub(super) struct Webdav;

impl SwitchKey for Webdav {
    const ORDER: Order = OF_CHANGES;

    fn given(table: &RouteTable) -> Option<bool> {
        table.webdav
    }

    fn report(is_on: bool) -> Option<String> {
        on_or_off::<Webdav>(is_on)
    }
}

fn on_or_off<K: Field>(is_on: bool) -> Option<String> {
    Some(format!("{} is {}", K::NAMES.first()?, if is_on { "on" } else { "off" }))
}

/// The place of keys about changes that clients may make.
const OF_CHANGES: Order = Order { shown: 5, reported: Section::Clients, judged: 6 };

/// Which files never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Immutable {
    /// None.
    None,
    /// Those with a hash in their name.
    Hashed,
    /// All.
    All,
}

/// `immutable`.
pub(super) struct NeverChanges;

impl RouteKey for NeverChanges {
    const ORDER: Order = Order { shown: 0, reported: Section::Files, judged: 1 };
    const ANSWER: Answer = Answer::There;

    fn judge(given: &RouteTable, _: &[Pattern], checker: &mut Checker<'_>) -> Option<Immutable> {
        let given = given.immutable.as_ref()?;
        match given.get_ref() {
            SwitchOr::Is(true) => Some(Immutable::Hashed),
            SwitchOr::Is(false) => Some(Immutable::None),
            SwitchOr::Text(text) if text == "all" => Some(Immutable::All),
            _ => {
                let message = "`immutable` is true for names with a hash, \"all\" for every file, or false";
                checker.problem(given.span(), message);
                None
            }
        }
    }

    fn render(said: &Option<Immutable>) -> Option<String> {
        said.map(|immutable| match immutable {
            Immutable::None => "false".to_owned(),
            Immutable::Hashed => "true".to_owned(),
            Immutable::All => quoted("all"),
        })
    }

    /// A field about caching in a more specific route counts before it.
    fn merge(routes: &Matching<'_>) -> Option<Immutable> {
        let names_caching = |rule: &HeaderRule| rule.names().any(|name| name.eq_ignore_ascii_case("Cache-Control"));
        let says = |route: &&RouteSettings| route.immutable.is_some() || route.headers.iter().any(names_caching);
        routes.iter().map(|(_, route)| *route).find(says)?.immutable
    }

    fn report(rule: &Option<Immutable>) -> Vec<String> {
        let whose = match rule {
            Some(Immutable::Hashed) => "names with a hash",
            Some(Immutable::All) => "files",
            Some(Immutable::None) | None => return Vec::new(),
        };
        vec![format!("Cache-Control: {IMMUTABLE} ({whose})")]
    }
}

/// `index`.
pub(super) struct Index;

impl RouteKey for Index {
    const ORDER: Order = Order { shown: 0, reported: Section::Ways, judged: 2 };
    const ANSWER: Answer = Answer::There;

    fn judge(given: &RouteTable, _: &[Pattern], checker: &mut Checker<'_>) -> Option<Vec<String>> {
        given.index.as_ref().map(|names| names.iter().map(|name| site::index_name(name, checker)).collect())
    }

    fn render(said: &Option<Vec<String>>) -> Option<String> {
        said.as_ref().map(list)
    }

    fn merge(routes: &Matching<'_>) -> Option<Vec<String>> {
        Index::first(routes)
    }

    fn report(rule: &Option<Vec<String>>) -> Vec<String> {
        rule.iter().map(|index| format!("index files {}", index.join(", "))).collect()
    }
}

/// `error_pages`.
pub(super) struct OwnPages;

impl RouteKey for OwnPages {
    const ORDER: Order = Order { shown: 0, reported: Section::Pages, judged: 7 };
    const ANSWER: Answer = Answer::There;

    fn judge(given: &RouteTable, _: &[Pattern], checker: &mut Checker<'_>) -> ErrorPages {
        ErrorPages::judge(&given.error_pages, checker)
    }

    fn render(said: &ErrorPages) -> Option<String> {
        let pages = said.render().map(|(statuses, page)| format!("{statuses} = {page}"));
        (!said.is_empty()).then(|| format!("{{ {} }}", pages.collect::<Vec<_>>().join(", ")))
    }

    /// One by one, and a class in place of each status of it in less specific routes.
    fn merge(routes: &Matching<'_>) -> ErrorPages {
        routes.iter().rev().fold(ErrorPages::default(), |pages, (_, route)| pages.with(&route.error_pages))
    }

    fn contradiction(one: &RouteSettings, two: &RouteSettings) -> Option<String> {
        let said = |statuses| two.error_pages.iter().find(|(other, _)| *other == statuses);
        let differs = |(statuses, page): &(Statuses, &str)| said(*statuses).is_some_and(|(_, other)| other != *page);
        one.error_pages.iter().find(differs).map(|(statuses, _)| format!("the page for {}", statuses.text()))
    }

    fn report(rule: &ErrorPages) -> Vec<String> {
        rule.iter().map(|(statuses, page)| format!("page for {}: {page}", statuses.text())).collect()
    }
}

/// `intercept_errors`.
pub(super) struct InterceptErrors;

impl SwitchKey for InterceptErrors {
    const ORDER: Order = Order { shown: 1, reported: Section::Pages, judged: 7 };

    fn given(table: &RouteTable) -> Option<bool> {
        table.intercept_errors
    }

    fn report(is_on: bool) -> Option<String> {
        is_on.then(|| "errors of the application are answered with these pages".to_owned())
    }
}

/// The part of the program that answers: no key, but a part of every route.
pub(super) struct Handler;

impl RouteKey for Handler {
    const ANSWER: Answer = Answer::Program;

    fn judge(_: &RouteTable, _: &[Pattern], _: &mut Checker<'_>) -> Option<String> {
        None
    }

    fn render(_: &Option<String>) -> Option<String> {
        None
    }

    fn merge(routes: &Matching<'_>) -> Option<String> {
        Handler::first(routes)
    }

    fn report(_: &Option<String>) -> Vec<String> {
        Vec::new()
    }
}
