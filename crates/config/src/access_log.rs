//! Access logs: where lines go, how they are written, and which requests belong to which log.
//!
//! Owns: [`LogTarget`], [`LogFormat`] with its templates, and [`AccessLogs`], which is all logs of a configuration.
//! Guarantees: a file that is named several times is one file. Opens nothing and writes no line.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::settings::Settings;
use super::suggest::nearest;

/// Where access log lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Nowhere.
    Off,
    /// Standard output.
    Stdout,
    /// Appended to a file, which is reopened on HUP.
    File(PathBuf),
}

impl LogTarget {
    /// The target that `off`, `-` or a path means. A relative path is kept as it is.
    pub fn from_text(text: &str) -> Self {
        match text {
            "off" => LogTarget::Off,
            "-" => LogTarget::Stdout,
            path => LogTarget::File(PathBuf::from(path)),
        }
    }

    /// As it is written.
    pub fn text(&self) -> String {
        match self {
            LogTarget::Off => "off".to_owned(),
            LogTarget::Stdout => "-".to_owned(),
            LogTarget::File(file) => file.to_string_lossy().into_owned(),
        }
    }
}

/// The word of a route about the log of its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteLog {
    /// They are in that of the site.
    Site,
    /// They are in a log of their own, or in none; in the format of the site.
    Own(LogTarget),
}

impl RouteLog {
    /// As it is written.
    pub fn text(&self) -> String {
        match self {
            RouteLog::Site => "on".to_owned(),
            RouteLog::Own(target) => target.text(),
        }
    }
}

/// How an access log line is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Apache's combined log format.
    Combined,
    /// The same behind the host and the port that were asked: Apache's and Debian's `vhost_combined`.
    VhostCombined,
    /// One JSON object a line with OpenTelemetry attribute names.
    Json,
    /// As a template says.
    Template(Arc<LogTemplate>),
}

impl LogFormat {
    /// The names of those that are no templates, in the order of documentation.
    pub const NAMES: [&str; 3] = ["combined", "vhost-combined", "json"];

    /// The format of this name, or of this template: a text with a `$` is one.
    ///
    /// # Errors
    /// Why it is neither, as the rest of a sentence that begins with the text.
    pub fn from_text(text: &str) -> Result<LogFormat, String> {
        match text {
            "combined" => Ok(LogFormat::Combined),
            "vhost-combined" => Ok(LogFormat::VhostCombined),
            "json" => Ok(LogFormat::Json),
            _ if text.contains('$') => LogTemplate::parse(text).map(Arc::new).map(LogFormat::Template),
            _ => Err(match nearest(text, LogFormat::NAMES) {
                Some(name) => format!("is no format of a log: did you mean `{name}`?"),
                None => "is no format of a log: expected combined, vhost-combined, json, or a template with variables \
                         such as $status"
                    .to_owned(),
            }),
        }
    }

    /// As it is written.
    pub fn text(&self) -> &str {
        match self {
            LogFormat::Combined => "combined",
            LogFormat::VhostCombined => "vhost-combined",
            LogFormat::Json => "json",
            LogFormat::Template(template) => &template.text,
        }
    }

    /// Whether its lines say what requests are called, whatever `request_id` says.
    pub fn names_requests(&self) -> bool {
        match self {
            LogFormat::Combined | LogFormat::VhostCombined => false,
            LogFormat::Json => true,
            LogFormat::Template(template) => template.has(&Variable::RequestId),
        }
    }
}

/// A format of one's own: text, and variables that stand for what a request was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogTemplate {
    /// Its parts, in their order.
    pub parts: Vec<Part>,
    /// Whether lines are JSON: values are escaped as in its strings.
    pub is_json: bool,
    text: String,
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Stands in the line as it is.
    Text(Box<str>),
    /// A value.
    Value {
        /// The variable.
        variable: Variable,
        /// The byte of the template behind it, which therefore ends the value, and is escaped within.
        end: Option<u8>,
    },
}

/// The most bytes of a template.
const TEMPLATE_BYTES_MAX: usize = 4096;

/// The variables of templates, by the names that nginx has for them.
macro_rules! variables {
    ($($(#[doc = $what:literal])+ $variable:ident = $name:literal;)*) => {
        /// A variable of a template.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Variable {
            $($(#[doc = $what])+ $variable,)*
            /// The field of the request with this name, in lower case.
            Field(Box<str>),
        }

        /// Each variable with its name and its meaning, but for those of fields.
        pub const VARIABLES: &[(&str, Variable, &str)] =
            &[$(($name, Variable::$variable, concat!($($what),+).trim_ascii()),)*];
    };
}

variables! {
    /// The client's address.
    RemoteAddress = "remote_addr";
    /// The verified user.
    RemoteUser = "remote_user";
    /// The time of the answer, as `21/Nov/2026:04:00:00 +0000`.
    TimeLocal = "time_local";
    /// The time of the answer, as `2026-11-21T04:00:00+00:00`.
    TimeIso8601 = "time_iso8601";
    /// The time of the answer in seconds since 1970, with milliseconds.
    Seconds = "msec";
    /// The line of the request: method, target and version.
    Request = "request";
    /// The method.
    Method = "request_method";
    /// The target as it was sent, with its query.
    Target = "request_uri";
    /// The query, without `?`.
    Query = "args";
    /// The protocol, as `HTTP/1.1`.
    Protocol = "server_protocol";
    /// `https` over TLS, else `http`.
    Scheme = "scheme";
    /// The host that was asked, without port.
    Host = "host";
    /// The port that was asked: that of the scheme where the request names none.
    Port = "server_port";
    /// The status.
    Status = "status";
    /// Bytes of content that were sent.
    ContentBytes = "body_bytes_sent";
    /// Seconds from the request to the last byte of its answer, with milliseconds.
    Duration = "request_time";
    /// The ID of the request.
    RequestId = "request_id";
    /// The version of TLS, as `TLSv1.3`.
    TlsVersion = "ssl_protocol";
    /// The cipher suite of TLS.
    TlsCipher = "ssl_cipher";
    /// The subject of the client's certificate.
    ClientSubject = "ssl_client_s_dn";
}

impl Variable {
    fn from_name(name: &str) -> Option<Variable> {
        let field = name.strip_prefix("http_").filter(|field| !field.is_empty());
        field
            .map(|field| Variable::Field(field.to_ascii_lowercase().replace('_', "-").into()))
            .or_else(|| VARIABLES.iter().find(|(known, ..)| *known == name).map(|(_, variable, _)| variable.clone()))
    }
}

impl LogTemplate {
    /// Reads a template.
    ///
    /// # Errors
    /// Why it is none, as the rest of a sentence that begins with the text.
    pub fn parse(text: &str) -> Result<LogTemplate, String> {
        if text.len() > TEMPLATE_BYTES_MAX {
            return Err(format!("is longer than {TEMPLATE_BYTES_MAX} bytes"));
        }
        if text.contains(|character: char| character.is_control() && character != '\t') {
            return Err("has a control character: a line of a log is one line".to_owned());
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            if !before.is_empty() {
                parts.push(Part::Text(before.into()));
            }
            let (name, after) = name_in(after).ok_or("has a `$` without the name of a variable behind it")?;
            let variable = Variable::from_name(name).ok_or_else(|| unknown(name))?;
            let end = after.bytes().next().filter(|byte| *byte != b'$' && byte.is_ascii());
            parts.push(Part::Value { variable, end });
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.into()));
        }
        Ok(LogTemplate { parts, is_json: text.starts_with('{'), text: text.to_owned() })
    }

    fn has(&self, wanted: &Variable) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Value { variable, .. } if variable == wanted))
    }
}

impl fmt::Display for LogTemplate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// The name that a text begins with, which may be in braces, and what follows.
fn name_in(text: &str) -> Option<(&str, &str)> {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let (name, after) = match text.strip_prefix('{') {
        Some(text) => text.split_once('}')?,
        None => text.split_at(text.bytes().position(|byte| !is_of_name(byte)).unwrap_or(text.len())),
    };
    (!name.is_empty() && name.bytes().all(is_of_name)).then_some((name, after))
}

fn unknown(name: &str) -> String {
    match nearest(name, VARIABLES.iter().map(|(known, ..)| *known)) {
        Some(known) => format!("has the unknown variable `${name}`: did you mean `${known}`?"),
        None => format!("has the unknown variable `${name}`"),
    }
}

/// All access logs of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessLogs {
    /// Where lines go, each place once, and never [`LogTarget::Off`].
    pub targets: Vec<LogTarget>,
    /// The logs: of which target, and in which format.
    pub logs: Vec<(usize, LogFormat)>,
    /// The log of requests that are of no site, if there is one.
    pub server: Option<u32>,
    /// That of each site.
    pub sites: Vec<SiteLog>,
    /// Those that routes name: the site, the target and the log.
    routes: Vec<(u32, LogTarget, u32)>,
}

/// The log of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteLog {
    /// The log of its requests, if there is one.
    pub log: Option<u32>,
    /// Whether routes say that some of its requests are logged elsewhere, or not at all.
    pub asks_routes: bool,
}

impl AccessLogs {
    /// Those of `settings`.
    pub fn of(settings: &Settings) -> AccessLogs {
        let mut logs = AccessLogs::default();
        logs.server = logs.add(&settings.log, &settings.log_format);
        for site in &settings.sites {
            let target = site.log.as_ref().unwrap_or(&settings.log);
            let format = site.log_format.as_ref().unwrap_or(&settings.log_format);
            let log = logs.add(target, format);
            let number = logs.sites.len() as u32; // Fewer than descriptors.
            for said in site.routes.iter().filter_map(|route| route.log.as_ref()) {
                if let RouteLog::Own(target) = said
                    && let Some(log) = logs.add(target, format)
                {
                    logs.routes.push((number, target.clone(), log));
                }
            }
            let has_own = logs.routes.iter().any(|(site, ..)| *site == number);
            let asks_routes = has_own || log.is_some() && site.routes.iter().any(|route| route.log.is_some());
            logs.sites.push(SiteLog { log, asks_routes });
        }
        logs
    }

    /// Whether nothing is logged.
    pub fn are_off(&self) -> bool {
        self.logs.is_empty()
    }

    /// Whether the site of a request decides whether and where it is logged.
    pub fn differ_by_site(&self) -> bool {
        self.sites.iter().any(|site| site.asks_routes || site.log != self.server)
    }

    /// The log of requests of site `site` whose routes say `rule`, if there is one.
    pub fn of_route(&self, site: u32, rule: Option<&RouteLog>) -> Option<u32> {
        match rule {
            None | Some(RouteLog::Site) => self.sites.get(site as usize)?.log,
            Some(RouteLog::Own(target)) => {
                let own = self.routes.iter().find(|(of, own, _)| *of == site && own == target);
                own.map(|(_, _, log)| *log)
            }
        }
    }

    /// The log of requests of site `site` whose routes say `rule`, in words. None if it is the same for all requests.
    pub fn describe(&self, site: u32, rule: Option<&RouteLog>) -> Option<String> {
        if !self.differ_by_site() {
            return None;
        }
        Some(match self.of_route(site, rule) {
            Some(log) => {
                let (target, format) = &self.logs[log as usize];
                format!("{}, in the format {}", self.targets[*target].text(), format.text())
            }
            None if matches!(rule, Some(RouteLog::Own(_))) => "none: a route says `log = \"off\"`".to_owned(),
            None => "none: it is off for the site".to_owned(),
        })
    }

    /// The files of `settings` that lines are written to.
    pub fn files(settings: &Settings) -> Vec<PathBuf> {
        let files = AccessLogs::of(settings).targets.into_iter().filter_map(|target| match target {
            LogTarget::File(file) => Some(file),
            LogTarget::Stdout | LogTarget::Off => None,
        });
        files.collect()
    }

    fn add(&mut self, target: &LogTarget, format: &LogFormat) -> Option<u32> {
        if *target == LogTarget::Off {
            return None;
        }
        let target = position_or_push(&mut self.targets, target.clone());
        let log = position_or_push(&mut self.logs, (target, format.clone()));
        u32::try_from(log).ok()
    }
}

fn position_or_push<T: PartialEq>(all: &mut Vec<T>, one: T) -> usize {
    all.iter().position(|other| *other == one).unwrap_or_else(|| {
        all.push(one);
        all.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::RouteSettings;
    use crate::settings::SiteSettings;

    #[test]
    fn a_template_is_text_and_variables_each_with_the_byte_that_ends_it() {
        let template = LogTemplate::parse("$host\t\"${request}\" $http_X_Real_Ip$status").unwrap();
        let text = |text: &str| Part::Text(text.into());
        let value = |variable, end| Part::Value { variable, end };
        let expected = [
            value(Variable::Host, Some(b'\t')),
            text("\t\""),
            value(Variable::Request, Some(b'"')),
            text("\" "),
            value(Variable::Field("x-real-ip".into()), None),
            value(Variable::Status, None),
        ];
        assert_eq!(template.parts, expected);
        assert!(!template.is_json && LogTemplate::parse("{\"a\":\"$status\"}").unwrap().is_json);
    }

    #[test]
    fn formats_are_known_by_name_or_are_templates_and_are_written_as_they_were() {
        for text in ["combined", "vhost-combined", "json", "$status ${host}"] {
            assert_eq!(LogFormat::from_text(text).unwrap().text(), text);
        }
        for (text, why) in [
            ("jsn", "did you mean `json`?"),
            ("%h %l", "expected combined"),
            ("$statsu", "did you mean `$status`?"),
            ("$", "without the name of a variable"),
            ("a $ b", "without the name of a variable"),
            ("${status", "without the name of a variable"),
            ("$status\n", "control character"),
            ("$http_", "unknown variable"),
        ] {
            let error = LogFormat::from_text(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_file_that_is_named_twice_is_one_and_a_site_says_where_its_requests_go() {
        let file = |name: &str| Some(LogTarget::File(name.into()));
        let site = |log, log_format| SiteSettings { log, log_format, ..SiteSettings::default() };
        let sites = vec![
            site(None, None),
            site(file("/a"), None),
            site(file("/a"), Some(LogFormat::Json)),
            site(file("/a"), None),
            site(Some(LogTarget::Off), None),
        ];
        let logs = AccessLogs::of(&Settings { sites, ..Settings::default() });
        assert_eq!(logs.targets, [LogTarget::Stdout, LogTarget::File("/a".into())]);
        assert_eq!(
            logs.sites.iter().map(|site| site.log).collect::<Vec<_>>(),
            [Some(0), Some(1), Some(2), Some(1), None]
        );
        assert!(logs.differ_by_site() && !logs.are_off());
        let words = |site| logs.describe(site, None).unwrap();
        assert_eq!([words(0), words(2)], ["-, in the format combined", "/a, in the format json"]);
        assert_eq!(words(4), "none: it is off for the site");
        let routes = [Some(RouteLog::Own(LogTarget::File("/b".into()))), Some(RouteLog::Own(LogTarget::Off)), None]
            .map(|log| RouteSettings { log, ..RouteSettings::default() });
        let with_routes = |log| SiteSettings { routes: routes.to_vec(), ..site(log, None) };
        let sites = vec![with_routes(None), with_routes(Some(LogTarget::Off)), site(file("/b"), None)];
        let logs = AccessLogs::of(&Settings { sites, ..Settings::default() });
        let of = |site: u32| [0, 1, 2].map(|route| logs.of_route(site, routes[route].log.as_ref()));
        assert_eq!([of(0), of(1)], [[Some(1), None, Some(0)], [Some(1), None, None]]);
        assert_eq!((logs.sites[2].log, logs.targets.len()), (Some(1), 2), "a file is one file");
        assert_eq!(logs.describe(1, routes[0].log.as_ref()).unwrap(), "/b, in the format combined");
        assert_eq!(logs.describe(0, routes[1].log.as_ref()).unwrap(), "none: a route says `log = \"off\"`");
        let alike = AccessLogs::of(&Settings { sites: vec![site(None, None)], ..Settings::default() });
        assert!(!alike.differ_by_site() && alike.describe(0, None).is_none());
    }
}
