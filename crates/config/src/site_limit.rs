//! `[[site.limit]]`: how much clients may take of some paths of a site, and which requests are counted together.
//!
//! Owns: these settings as values and as text. What is written is judged in `site`, and how limits are kept is
//! `worker/limiter`'s.

use std::fmt;
use std::str::FromStr;

use lamna_policy::limit::Rate;
use lamna_policy::volume::{Bandwidth, Volume};

/// How much each client may take of some paths of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteLimit {
    /// The prefix that these paths have, decoded.
    pub path: String,
    /// The key by which requests and bytes are counted together.
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

/// The key by which a limit counts requests together.
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

    /// Whether it limits anything.
    pub fn is_any(&self) -> bool {
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
                Some(name) if !name.is_empty() && name.bytes().all(is_of_name) => {
                    Ok(LimitKey::Field(name.to_ascii_lowercase()))
                }
                _ => Err(
                    "does not say who is counted together: expected network, user or a field as in header:X-Api-Key",
                ),
            },
        }
    }
}

/// Whether names of fields have this byte in practice; more are allowed (RFC 9110 5.1).
fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_".contains(&byte)
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
