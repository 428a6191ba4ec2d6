//! The keys of a site. docs/extending.md says how to add one.
//!
//! Owns: the list of all keys, in the order of `lamna check` and of the manual. From it come the table as it is written
//! ([`SiteTable`]) and the settings of a site ([`SiteSettings`]).

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};
use toml::Spanned;

use super::folders::{self, Alias, AliasTable};
use super::limits::{self, LimitTable};
use super::maintenance::{self, MaintenanceSettings, MaintenanceTable};
use super::row::{Plain, Row, SiteKey, rendered, row_of, site_keys};
use super::tls::SiteTls;
use super::{access, fields, hosts, logs, routes, tls};
use crate::access::{AccessRules, Accounts};
use crate::access_log::{LogFormat, LogTarget};
use crate::early_hints::{EarlyHintSettings, LinkPrefetchSettings, PERCENT};
use crate::error_pages::ErrorPages;
use crate::gateway::GatewaySettings;
use crate::key::Key;
use crate::redirect::{self, Redirect, RedirectTable};
use crate::reload::Reload;
use crate::route::applications::{self, ApplicationTable};
use crate::route::shapes::{AccessValue, SwitchOr};
use crate::route::{self, RouteSettings, RouteTable, Skipped};
use crate::site_limit::SiteLimit;
use crate::unit::Unit;
use crate::written::{Amount, MayBeEmpty, Text, Texts};

/// More than any disk has.
const UPLOAD_BYTES_MAX: u64 = 1 << 50;
const YEAR_S: u64 = 31_536_000;

site_keys! {
    /// Host names in lower case without port; `*.example.org` matches any one or more labels in front. Empty: any host.
    hosts: Vec<String> = Vec::new(), by hosts::Hosts {
        hosts: Vec<Text> = Key::texts(
            "list of names",
            "A host name without port, *.NAME for all below, or an address",
            "The host names that it answers for",
        )
        .default("any host")
        .more(", without ports; `*.example.org` is any name below; none belongs to two sites")
        .admits();
    }

    /// The directory that is served; empty if there is none, and the site only redirects.
    root: PathBuf = PathBuf::new(), by folders::Root {
        root: Option<Text> = Key::text("path", "The directory that is served")
            .default("required")
            .more("; it must exist. A site that only redirects, or passes requests on, needs none");
    }

    /// Names tried, in order, when the target is a directory.
    index: Vec<String> = vec!["index.html".into()], by folders::Index {
        index: Option<MayBeEmpty<Vec<Text>>> = Key::texts_or_none(
            "list of names",
            "A file that is tried for a directory",
            "Files that are tried, in order, for a directory",
        )
        .more("; `[]` is none");
    }

    /// Whether a directory without an index file is listed.
    browse: bool = false, plain {
        browse: bool = Key::switch("List directories without an index file")
            .more("; `--browse` turns it on for every site, `--browse=false` off");
    }

    /// Where the lines of its requests in the access log go; none for where those of the server go.
    log: Option<LogTarget> = None, by logs::Log {
        log: Option<Text> = Key::text("`off`, `-` or path", "Its access log: `off`, `-` for standard output, or a file")
            .default("what `log` says for the server")
            .more(": [logs.md](logs.md)");
    }

    /// How these are written; none for as those of the server.
    log_format: Option<LogFormat> = None, by logs::Format {
        log_format: Option<Text> = Key::text("format or template", "How lines of its access log are written")
            .default("what `log_format` says for the server");
    }

    /// Pages load themselves again when files change.
    live_reload: bool = false, plain {
        live_reload: bool = Key::switch("Pages load themselves again when files change")
            .more("; `--watch` turns it on for every site: [filters.md](filters.md#pages-that-load-themselves-again)");
    }

    /// Whether requests are learned from; none for what is said for all sites.
    hints: Option<bool> = None, plain {
        hints: Option<bool> = Key::switch("Learn from requests what is asked for next")
            .default("what `hints` says for the server")
            .more(": [hints.md](hints.md)");
    }

    /// Hints to clients before a page is there.
    early_hints: EarlyHintSettings = EarlyHintSettings::default(), plain {
        early_hints => is_on: bool = Key::switch("Tell clients what a page needs before it is there: 103 Early Hints")
            .more("; only those that navigate to it: [early-hints.md](early-hints.md)");
        early_hints_http1 => http1: bool =
            Key::switch("The same over HTTP/1.1, to clients that say that they navigate");
        early_hints_waste_percent_max => waste_percent_max: Option<Spanned<Amount>> =
            Key::number(Unit::Percent, PERCENT, "Of the bytes that are hinted, how many may be hinted in vain")
                .more(" before no more is hinted");
        early_hints_probability_percent_min => probability_percent_min: Option<Spanned<Amount>> =
            Key::number(Unit::Percent, PERCENT, "What fewer of the views of a page ask for is not hinted");
    }

    /// Which of its pages clients may fetch ahead.
    link_prefetch: LinkPrefetchSettings = LinkPrefetchSettings::default(), plain {
        link_prefetch => is_on: bool = Key::switch(
            "Tell clients which page is likely to be next, so that they fetch it ahead: Link with rel=prefetch",
        )
        .more("; only those that navigate: [early-hints.md](early-hints.md#the-next-page)");
        link_prefetch_waste_percent_max => waste_percent_max: Option<Spanned<Amount>> = Key::number(
            Unit::Percent,
            PERCENT,
            "Of the bytes that are fetched ahead, how many may be fetched in vain",
        )
        .more(" before no more links are sent");
        link_prefetch_probability_percent_min => probability_percent_min: Option<Spanned<Amount>> =
            Key::number(
                Unit::Percent,
                PERCENT,
                "What is shown after fewer of the views of a page is not fetched ahead",
            );
    }

    /// Whether clients may store files: PUT, and a form in listings.
    upload: bool = false, plain {
        upload: bool = Key::switch("Let clients store files")
            .more(": docs/uploads.md; `--upload` turns it on for every site")
            .admits();
    }

    /// Bytes of one upload; none for as many as there is room for.
    upload_bytes_max: Option<u64> = None, plain {
        upload_bytes_max: Option<Spanned<Amount>> =
            Key::number(Unit::Bytes, 1..=UPLOAD_BYTES_MAX, "Bytes of one upload; more are refused").more(" (413)");
    }

    /// Seconds that what has arrived of an upload is kept, so that the client can go on; 0 for not at all.
    upload_resume_s: u64 = 86_400, plain {
        upload_resume_s: Option<Spanned<Amount>> = Key::number(
            Unit::Seconds,
            0..=YEAR_S,
            "How long what has arrived of a file that is sent in parts is kept; 0 for not at all",
        );
    }

    /// Bytes of all files together that are kept in part.
    upload_resume_bytes_max: u64 = 64 << 30, plain {
        upload_resume_bytes_max: Option<Spanned<Amount>> =
            Key::number(Unit::Bytes, 1..=UPLOAD_BYTES_MAX, "Bytes of all files together that are kept in part")
                .more(
                    ", each counted as if it were complete; a client network has at most half: [uploads.md](uploads.md#going-on-with-an-upload)",
                );
    }

    /// Whether clients may delete files and empty directories: DELETE, and buttons in listings.
    delete: bool = false, plain {
        delete: bool = Key::switch("Let clients delete files and empty directories")
            .more(": docs/uploads.md; `--delete` turns it on for every site")
            .admits();
    }

    /// Whether clients may make directories: MKCOL, and a form in listings.
    mkdir: bool = false, plain {
        mkdir: bool = Key::switch("Let clients make directories")
            .more(": docs/uploads.md; `--mkdir` turns it on for every site")
            .admits();
    }

    /// Whether clients may mount the site by WebDAV.
    webdav: bool = false, plain {
        webdav: bool = Key::switch("Let clients mount the site by WebDAV; they change what `upload`, `delete` and `mkdir` let them")
            .more(": docs/webdav.md; `--webdav` turns it on for every site")
            .admits();
    }

    /// The accounts that access rules may name.
    accounts: Accounts = Accounts::default(), by access::Persons {
        users: BTreeMap<Text, Text> = Key::other(
            "table",
            texts_by_name,
            "By name: the hash of a password, as `lamna hash-password` prints it",
        )
        .admits();
        users_file: Option<Text> =
            Key::text("path", "A file of lines NAME:HASH with further users").admits();
        tokens: BTreeMap<Text, Text> = Key::other(
            "table",
            texts_by_name,
            "By name: the hash of a token, as `lamna hash-password --token` prints it",
        )
        .admits();
    }

    /// Access rules where no route says otherwise.
    access: AccessRules = AccessRules::default(), by access::Access {
        access: Option<Spanned<AccessValue>> = Key::other(
            "table, list of tables, `\"deny\"` or `\"anyone\"`",
            route::access_schema,
            "Who may read, upload, delete and make directories",
        )
        .default("anyone")
        .more(": docs/access.md")
        .admits();
    }

    /// Whether a target without extension that is not found is answered with the root's index file and status 200.
    spa: bool = false, plain {
        spa: bool = Key::switch("Answer paths that are not found with the index file of the root")
            .more(
                ", and folders without an index file, unless the extension is that of a known media type (`/app.js`); \
                 `--spa`",
            );
    }

    /// Whether `_headers` and `_redirects` in the root are read as routes, and not served.
    rule_files: bool = false, plain {
        rule_files: bool = Key::switch("Read `_headers` and `_redirects` in the root as routes")
            .more(": [routes.md](routes.md)");
    }

    /// Directory beneath a user's home directory that is served as `/~user/`; none: `/~user/` is an ordinary path.
    user_directory: Option<String> = None, by folders::UserDirectory {
        user_directory: Option<Text> =
            Key::text("path", "Directory beneath a home directory that is served as `/~user/`")
                .more(", as in `\"public_html\"`; see below");
    }

    /// How it speaks TLS; none if it does not.
    tls: Option<SiteTls> = None, by tls::Tls {
        certificate: Option<Text> =
            Key::text("path", "Certificate in PEM, followed by those that lead to one that clients know")
                .more(". See [tls.md](tls.md)")
                .reload(Reload::Connections)
                .admits();
        key: Option<Text> = Key::text("path", "Private key of the certificate, in PEM")
            .reload(Reload::Connections)
            .admits();
        client_ca: Option<Text> =
            Key::text("path", "Certificates in PEM, of which one must have signed that of every client")
                .reload(Reload::Connections)
                .admits();
        client_certificates: Option<Text> = Key::words(
            &["required", "optional"],
            "Whether clients need a certificate where there is a `client_ca`",
        )
        .default("`\"required\"`")
        .more(": [access.md](access.md)")
        .reload(Reload::Connections)
        .admits();
        tls: Option<Text> = Key::words(
            &["auto", "local"],
            "A certificate that is ordered by ACME, or one of a certificate authority of this machine",
        )
        .more(
            ": `\"auto\"` has one for each of the `hosts` ordered, installed and renewed, as `--domain` does for a \
             directory. `\"local\"` is for local names only. See [tls.md](tls.md)",
        )
        .reload(Reload::Connections)
        .admits();
    }

    /// Extra header fields of every response of this site: name and value.
    headers: Vec<(String, String)> = Vec::new(), by fields::Headers {
        headers: BTreeMap<Text, Spanned<Texts>> =
            Key::other("table", fields::schema, "Further fields of every response")
                .more(": a string, or a list of strings for several lines; see below");
    }

    /// Path beneath the root of the page sent as the content of an error of this status.
    error_pages: ErrorPages = ErrorPages::default(), by folders::OwnPages {
        error_pages: BTreeMap<Text, Text> = Key::other(
            "table",
            ErrorPages::schema,
            "By status, 400 to 599, 4xx or 5xx: the path of the page, beneath the root",
        )
        .more(
            ". Without the file Lamna's own is sent. Without a page for 404, `404.html` in the root is one: \
             [pages.md](pages.md)",
        );
    }

    /// Whether the site begins in maintenance: every request is answered with 503.
    maintenance: Option<MaintenanceSettings> = None, by maintenance::Maintenance {
        maintenance: Option<Spanned<SwitchOr<MaintenanceTable>>> = Key::other(
            "`true`, `false` or table",
            maintenance::schema,
            "Answer with 503, with `page`, `retry_after_s` and `except`",
        )
        .default("`false`")
        .more(", until `lamna ctl maintenance off`: [control.md](control.md#maintenance)");
    }

    /// Redirects, tried in order before the file system.
    redirects: Vec<Redirect> = Vec::new(), by redirect::Redirects {
        redirect: Vec<RedirectTable> =
            Key::other("list of tables", redirect::schema, "Paths that lead elsewhere").more("; see below");
    }

    /// How much each client network may ask for.
    limits: Vec<SiteLimit> = Vec::new(), by limits::Limits {
        limit: Vec<Spanned<LimitTable>> =
            Key::other("list of tables", limits::schema, "How much clients may take of some paths")
                .more(": docs/limits.md");
    }

    /// Path prefixes served from other directories, longest prefix first.
    aliases: Vec<Alias> = Vec::new(), by folders::Aliases {
        alias: Vec<AliasTable> =
            Key::other("list of tables", folders::alias_schema, "Paths that are served from other directories")
                .more("; see below");
    }

    /// Applications that routes name, in the order of the file.
    shared_applications: Vec<GatewaySettings> = Vec::new(), by routes::Applications {
        application: Vec<Spanned<ApplicationTable>> =
            Key::other("list of tables", applications::schema, "Applications that several routes name")
                .more(": [gateways.md](gateways.md#one-application-for-several-routes)");
    }

    /// Rules for some requests only, in the order of the file; last those of `_headers` and `_redirects`.
    routes: Vec<RouteSettings> = Vec::new(), by routes::Routes {
        route: Vec<Spanned<RouteTable>> =
            Key::other("list of tables", route::schema, "What applies to some requests only")
                .more(": [routes.md](routes.md)");
    }
}

fn texts_by_name() -> Value {
    json!({ "type": "object", "additionalProperties": { "type": "string" } })
}
