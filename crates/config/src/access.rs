//! Access control: users and tokens of a site, and which of them a route asks for, by action.
//!
//! ```toml
//! [[site]]
//! users = { ada = "$argon2id$..." }
//! tokens = { ci = "sha256:..." }
//! access = { users = ["*"] }                                            # everything, with a password
//! access = { actions = ["upload", "delete", "mkdir"], users = ["*"] }   # read freely, change with a password
//! ```
//!
//! A table is one rule: its actions, and the clients that it lets in. It names its actions itself, so that a reader
//! need not know which keys are actions and which are people; several tables are a list. Of each action the most
//! specific route that says something decides, as with `upload` and `delete`. Owns: [`AccessRules`] and [`Accounts`] as
//! values; `route/access.rs` judges what is written. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::gateway::GatewaySettings;
use super::password::PasswordHash;
use super::route::condition::Network;
use super::route::render_service;

/// Characters of each name in the subject of a certificate that are looked at: names that are as long may have been cut
/// off.
pub const SUBJECT_CHARACTERS_MAX: usize = 64;

/// The clients that a rule lets in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessRule {
    /// Names of users who give a password; `*` for all.
    pub users: Vec<String>,
    /// Names of tokens; `*` for all.
    pub tokens: Vec<String>,
    /// Subjects of the certificates of clients, as the log has them; `*` for all.
    pub certificates: Vec<String>,
    /// A service that is asked about each request and decides alone, in place of the names above.
    pub service: Option<Arc<ServiceSettings>>,
    /// Networks of clients, one of which it has to be. Empty: any.
    pub allow: Vec<Network>,
    /// Networks of clients that are kept out, whatever else is said.
    pub deny: Vec<Network>,
}

/// A service that says of each request whether it is let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSettings {
    /// Where it is, and how it is asked.
    pub gateway: GatewaySettings,
    /// The path, with a query, that it is asked with.
    pub path: String,
    /// Fields of its answer that the application gets.
    pub fields: Vec<String>,
    /// The field of its answer that names the user.
    pub user: Option<String>,
}

impl ServiceSettings {
    /// Fields that only the service sets for applications.
    pub fn own_fields(&self) -> impl Iterator<Item = &String> {
        self.fields.iter().chain(&self.user)
    }
}

impl AccessRule {
    /// One that lets everybody in.
    pub const NONE: AccessRule = AccessRule {
        users: Vec::new(),
        tokens: Vec::new(),
        certificates: Vec::new(),
        service: None,
        allow: Vec::new(),
        deny: Vec::new(),
    };

    /// One that lets nobody in.
    pub fn nobody() -> AccessRule {
        AccessRule { deny: Network::all().into(), ..AccessRule::NONE }
    }

    /// Whether it lets nobody in, whatever else it says.
    pub fn is_for_nobody(&self) -> bool {
        Network::all().iter().all(|network| self.deny.contains(network))
    }

    /// Whether clients have to authenticate.
    pub fn asks_for_credentials(&self) -> bool {
        !(self.users.is_empty() && self.tokens.is_empty() && self.certificates.is_empty())
    }

    /// Whether `names`, which are those of a kind, have `name`.
    pub fn names(names: &[String], name: &str) -> bool {
        names.iter().any(|one| one == "*" || one == name)
    }
}

/// The clients that one action is for. None: less specific routes decide.
pub type Whom = Option<Allowed>;

/// The clients to which an action is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Anybody.
    Anyone,
    /// These.
    Only(Arc<AccessRule>),
}

/// Actions of requests, in the order of [`AccessRules`].
pub const ACTIONS: [&str; 4] = ["read", "upload", "delete", "mkdir"];

/// The clients that each of [`ACTIONS`] is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessRules(pub [Whom; 4]);

impl AccessRules {
    /// Everything is for users with their passwords.
    pub fn for_all_users() -> AccessRules {
        let rule = Arc::new(AccessRule { users: vec!["*".to_owned()], ..AccessRule::default() });
        AccessRules(ACTIONS.map(|_| Some(Allowed::Only(rule.clone()))))
    }

    /// These, and where they say nothing `other`.
    pub fn or(self, other: &AccessRules) -> AccessRules {
        let mut merged = self;
        for (own, other) in merged.0.iter_mut().zip(&other.0) {
            if own.is_none() {
                own.clone_from(other);
            }
        }
        merged
    }

    /// The services that are asked.
    pub fn services(&self) -> impl Iterator<Item = &Arc<ServiceSettings>> {
        self.0.iter().flatten().filter_map(|whom| match whom {
            Allowed::Only(rule) => rule.service.as_ref(),
            Allowed::Anyone => None,
        })
    }

    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// The clients that may read, if a rule says so.
    pub fn readers(&self) -> Option<&Allowed> {
        let at = ACTIONS.iter().position(|action| *action == "read")?;
        self.0.get(at)?.as_ref()
    }

    /// Whether anything is kept from anybody.
    pub fn keeps_out(&self) -> bool {
        self.0.iter().any(|whom| matches!(whom, Some(Allowed::Only(_))))
    }

    /// Sentences about who may do what.
    pub fn sentences(&self) -> Vec<String> {
        let named = ACTIONS.iter().zip(&self.0).filter_map(|(action, whom)| Some((action, whom.as_ref()?)));
        named
            .map(|(action, whom)| match whom {
                Allowed::Anyone => format!("{action} is for anyone"),
                Allowed::Only(rule) => format!("{action} is for {}", describe(rule)),
            })
            .collect()
    }

    /// As it is written: a value of `access`.
    pub fn render(&self) -> String {
        let mut tables: Vec<(Vec<&str>, &Allowed)> = Vec::new();
        for (action, whom) in ACTIONS.iter().zip(&self.0) {
            let Some(whom) = whom else { continue };
            match tables.iter_mut().find(|(_, other)| *other == whom) {
                Some((actions, _)) => actions.push(action),
                None => tables.push((vec![action], whom)),
            }
        }
        let list = |names: &mut dyn Iterator<Item = String>| {
            let quoted: Vec<String> = names.map(|name| format!("{name:?}")).collect();
            format!("[{}]", quoted.join(", "))
        };
        let table = |(actions, whom): &(Vec<&str>, &Allowed)| {
            let mut parts = vec![format!("actions = {}", list(&mut actions.iter().map(|one| (*one).to_owned())))];
            match whom {
                Allowed::Anyone => parts.push("anyone = true".to_owned()),
                Allowed::Only(rule) => {
                    let mut names = |key: &str, names: &[String]| {
                        if !names.is_empty() {
                            parts.push(format!("{key} = {}", list(&mut names.iter().cloned())));
                        }
                    };
                    names("users", &rule.users);
                    names("tokens", &rule.tokens);
                    names("certificates", &rule.certificates);
                    let texts = |networks: &[Network]| networks.iter().map(ToString::to_string).collect::<Vec<_>>();
                    names("allow", &texts(&rule.allow));
                    names("deny", &texts(&rule.deny));
                    parts.extend(rule.service.iter().map(|one| format!("service = {}", render_service(one))));
                }
            }
            format!("{{ {} }}", parts.join(", "))
        };
        let tables: Vec<String> = tables.iter().map(table).collect();
        format!("[{}]", tables.join(", "))
    }
}

fn describe(rule: &AccessRule) -> String {
    if rule.is_for_nobody() {
        return "no client".to_owned();
    }
    let named = |names: &[String], one: &str, all: &str| match names {
        [] => None,
        names if names.iter().any(|name| name == "*") => Some(all.to_owned()),
        names => Some(format!("{one} {}", names.join(", "))),
    };
    let who: Vec<String> = [
        named(&rule.users, "the users", "all users with their passwords"),
        named(&rule.tokens, "the tokens", "all tokens"),
        named(&rule.certificates, "the certificates", "all certificates"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut text = if who.is_empty() { "clients".to_owned() } else { who.join(" and ") };
    if let Some(service) = &rule.service {
        let places = service.gateway.upstreams.iter().map(|one| one.address.to_string()).collect::<Vec<_>>();
        text = format!("clients that the service at {} ({}) lets in", places.join(" or "), service.path);
    }
    let networks = |networks: &[Network]| networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if !rule.allow.is_empty() {
        text.push_str(&format!(" of {}", networks(&rule.allow)));
    }
    if !rule.deny.is_empty() {
        text.push_str(&format!(", and not of {}", networks(&rule.deny)));
    }
    text
}

/// The accounts of a site: names, and the hashes that passwords and tokens are compared with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// Hashes of passwords.
    pub users: BTreeMap<String, PasswordHash>,
    /// SHA-256 of tokens.
    pub tokens: BTreeMap<String, [u8; 32]>,
}

/// Whether all names in `rules` have accounts. `has_client_ca`: clients are asked for certificates.
pub(super) fn check_names(rules: &AccessRules, accounts: &Accounts, has_client_ca: bool) -> Result<(), String> {
    for whom in rules.0.iter().flatten() {
        let Allowed::Only(rule) = whom else { continue };
        for name in &rule.users {
            let is_there = if name == "*" { !accounts.users.is_empty() } else { accounts.users.contains_key(name) };
            if !is_there {
                return Err(match name.as_str() {
                    "*" => {
                        "`access` is for users, and the site has none: `users` or `users_file` names them".to_owned()
                    }
                    _ => format!("`access` names the user `{name}`, and the site has no such user"),
                });
            }
        }
        for name in &rule.tokens {
            let is_there = if name == "*" { !accounts.tokens.is_empty() } else { accounts.tokens.contains_key(name) };
            if !is_there {
                return Err(format!("`access` names the token `{name}`, and the site has no such token"));
            }
        }
        if !rule.certificates.is_empty() && !has_client_ca {
            return Err(
                "`access` names certificates, and the site has no `client_ca`, which says whose are taken".to_owned()
            );
        }
    }
    Ok(())
}

/// The hash that belongs to this user.
///
/// # Errors
/// The fault of either, as the rest of a sentence. The hash is not in it.
pub fn check_user(name: &str, hash: &str) -> Result<PasswordHash, String> {
    if name.is_empty() || name == "*" || name.contains(':') || name.chars().any(char::is_control) {
        return Err("has a name that cannot be typed: it is not empty, and has no colon".to_owned());
    }
    PasswordHash::parse(hash)
}

pub(super) fn token_hash(text: &str) -> Option<[u8; 32]> {
    let digits = text.strip_prefix("sha256:").filter(|digits| digits.len() == 64 && digits.is_ascii())?;
    let mut hash = [0; 32];
    for (byte, pair) in hash.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8; // Two digits of four bits.
    }
    Some(hash)
}

/// The hash of a password, with a new salt, as a configuration has it.
///
/// # Errors
/// The system has no random numbers, or the password cannot be hashed: why.
pub fn hash_password(password: &[u8]) -> Result<String, String> {
    use argon2::PasswordHasher;
    let mut salt = [0; 16];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut salt)
        .map_err(|_| "the system gives no random numbers".to_owned())?;
    let salt = argon2::password_hash::SaltString::encode_b64(&salt).map_err(|error| error.to_string())?;
    let hash = argon2::Argon2::default().hash_password(password, &salt).map_err(|error| error.to_string())?;
    Ok(hash.to_string())
}

/// The hash of a token, as a configuration has it.
pub fn hash_token(token: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, token);
    token_text(digest.as_ref())
}

/// The hash of a token as it is written.
pub(super) fn token_text(hash: &[u8]) -> String {
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hashed_is_taken_and_two_hashes_of_a_password_differ() {
        let (one, other) = (hash_password(b"open sesame").unwrap(), hash_password(b"open sesame").unwrap());
        assert_ne!(one, other);
        assert_eq!(check_user("ada", &one).map(|hash| hash.as_str().to_owned()), Ok(one));
        assert_eq!(token_hash(&hash_token(b"abc")).unwrap()[..2], [0xba, 0x78]);
        assert_eq!(token_hash("sha256:00"), None);
    }

    #[test]
    fn a_password_in_the_place_of_its_hash_is_refused_and_not_repeated() {
        let why = check_user("ada", "hunter2").unwrap_err();
        assert!(!why.contains("hunter2") && why.contains("hash-password"));
        assert!(check_user("a:b", &hash_password(b"x").unwrap()).is_err());
        let dear = "$argon2id$v=19$m=4000000,t=2,p=1$c29tZXNhbHQxMjM0$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        assert!(check_user("ada", dear).unwrap_err().contains("costs"));
        assert!(check_user("ada", "$argon2i$v=19$m=16,t=2,p=1$c29tZXNhbHQxMjM0$AAAAAAAAAAAAAAAAAAAAAA").is_err());
    }

    #[test]
    fn of_each_action_the_first_that_says_something_decides() {
        let only = |name: &str| {
            Some(Allowed::Only(Arc::new(AccessRule { users: vec![name.into()], ..AccessRule::default() })))
        };
        let more = AccessRules([Some(Allowed::Anyone), None, None, only("ada")]);
        let less = AccessRules([only("bob"), only("bob"), None, only("bob")]);
        assert_eq!(more.or(&less), AccessRules([Some(Allowed::Anyone), only("bob"), None, only("ada")]));
    }
}
