//! `[[site.limit]]`: how much clients may take of some paths of a site, and whom that counts together.
//!
//! Owns: these settings as values and as text, and the judgement of them. How they are kept is `worker/limiter`'s.

use std::fmt::{self, Display};
use std::str::FromStr;

use lamna_policy::limit::Rate;
use lamna_policy::volume::{Bandwidth, Volume};
use toml::Spanned;

use super::file::{LimitTable, Text};
use super::site::is_token_byte;
use super::validate::Checker;

/// How much each client may take of some paths of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteLimit {
    /// What these paths begin with, decoded.
    pub path: String,
    /// Whose requests and bytes are counted together.
    pub key: LimitKey,
    /// How many requests.
    pub rate: Option<Rate>,
    /// How many bytes.
    pub volume: Option<Volume>,
    /// How fast each connection gets what it asks for.
    pub bandwidth: Option<Bandwidth>,
    /// How fast all connections get it together that are counted together.
    pub shared_bandwidth: Option<Bandwidth>,
}

/// Whom a limit counts together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum LimitKey {
    /// Clients of one network.
    #[default]
    Network,
    /// Requests in which the field of this name, in lower case, has the same value.
    Field(String),
    /// Requests of one user, token or certificate.
    User,
}

impl SiteLimit {
    /// A limit by client network that limits nothing yet.
    pub fn new(path: &str) -> SiteLimit {
        SiteLimit {
            path: path.to_owned(),
            key: LimitKey::Network,
            rate: None,
            volume: None,
            bandwidth: None,
            shared_bandwidth: None,
        }
    }

    fn is_any(&self) -> bool {
        let Self { rate, volume, bandwidth, shared_bandwidth, .. } = self;
        rate.is_some() || volume.is_some() || bandwidth.is_some() || shared_bandwidth.is_some()
    }
}

impl FromStr for LimitKey {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<LimitKey, &'static str> {
        match text {
            "network" => Ok(LimitKey::Network),
            "user" => Ok(LimitKey::User),
            _ => match text.strip_prefix("header:") {
                Some(name) if !name.is_empty() && name.bytes().all(is_token_byte) => {
                    Ok(LimitKey::Field(name.to_ascii_lowercase()))
                }
                _ => Err(
                    "does not say who is counted together: expected network, user or a field as in header:X-Api-Key",
                ),
            },
        }
    }
}

impl fmt::Display for LimitKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitKey::Network => formatter.write_str("network"),
            LimitKey::User => formatter.write_str("user"),
            LimitKey::Field(name) => write!(formatter, "header:{name}"),
        }
    }
}

/// The limits of a site. Those that limit nothing are left out.
pub(super) fn site_limits(tables: &[Spanned<LimitTable>], checker: &mut Checker<'_>) -> Vec<SiteLimit> {
    tables.iter().map(|table| site_limit(table, checker)).filter(SiteLimit::is_any).collect()
}

fn site_limit(table: &Spanned<LimitTable>, checker: &mut Checker<'_>) -> SiteLimit {
    let given = table.get_ref();
    if let Some(path) = &given.path {
        checker.expect(path.get_ref().starts_with('/'), path, "does not start with /");
    }
    let path = given.path.as_ref().map_or("/", |path| path.get_ref());
    let said = [&given.requests, &given.bytes, &given.bandwidth, &given.shared_bandwidth];
    if said.iter().all(|one| one.is_none()) {
        let hint = "say what: requests = \"10/m burst 5\", bytes = \"10GB/d\", bandwidth = \"500kB/s after 5MB\" or \
                    shared_bandwidth = \"5MB/s\"";
        checker.problem_with_hint(table.span(), "this limit limits nothing", Some(hint.to_owned()));
    }
    let shared_bandwidth: Option<Bandwidth> = unless_off(given.shared_bandwidth.as_ref(), checker);
    if let (Some(text), Some(Bandwidth { after: 1.., .. })) = (&given.shared_bandwidth, shared_bandwidth) {
        checker.expect(false, text, "has an `after`: what connections share begins with their first byte");
    }
    SiteLimit {
        key: given.key.as_ref().and_then(|key| checker.parsed(key)).unwrap_or_default(),
        rate: unless_off(given.requests.as_ref(), checker),
        volume: unless_off(given.bytes.as_ref(), checker),
        bandwidth: unless_off(given.bandwidth.as_ref(), checker),
        shared_bandwidth,
        ..SiteLimit::new(path)
    }
}

/// A limit as a value; none for any amount.
fn unless_off<T: FromStr<Err: Display>>(text: Option<&Text>, checker: &mut Checker<'_>) -> Option<T> {
    text.filter(|text| text.get_ref() != "off").and_then(|text| checker.parsed(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_as_they_are_read() {
        for text in ["network", "user", "header:x-api-key"] {
            assert_eq!(text.parse::<LimitKey>().unwrap().to_string(), text);
        }
        assert_eq!("header:X-Api-Key".parse(), Ok(LimitKey::Field("x-api-key".into())));
        for text in ["", "header:", "header:a b", "cookie:a", "User"] {
            assert!(text.parse::<LimitKey>().is_err(), "{text}");
        }
    }
}
