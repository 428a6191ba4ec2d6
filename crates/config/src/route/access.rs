//! Judging `access`, `users`, `users_file` and `tokens`.
//!
//! Owns: the sentences about what is wrong with them, in which no password and no hash is repeated. Reads `users_file`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use toml::Spanned;

use super::condition::Network;
use super::pattern::Pattern;
use super::row::{Answer, Matching, Order, RouteKey, Section};
use super::shapes::{AccessTable, AccessValue};
use super::{RouteSettings, RouteTable, services};
use crate::access::{
    ACTIONS, AccessRule, AccessRules, Accounts, Allowed, SUBJECT_CHARACTERS_MAX, check_user, token_hash,
};
use crate::checker::Checker;
use crate::schema::values::{list_of, names, one_or_several, several, switch, table};
use crate::written::{Text, Texts};

/// `access` of a route.
pub(super) struct Access;

impl RouteKey for Access {
    const ORDER: Order = Order { shown: 4, reported: Section::Clients, judged: u8::MAX };
    const ANSWER: Answer = Answer::There;

    fn judge(given: &RouteTable, _: &[Pattern], checker: &mut Checker<'_>) -> AccessRules {
        given.access.as_ref().map(|given| access(given, checker)).unwrap_or_default()
    }

    fn render(said: &AccessRules) -> Option<String> {
        (!said.is_empty()).then(|| said.render())
    }

    /// Action by action.
    fn merge(routes: &Matching<'_>) -> AccessRules {
        routes.iter().fold(AccessRules::default(), |rules, (_, route)| rules.or(&route.access))
    }

    /// Two routes that say different things are not refused: the one that is written first decides.
    fn contradiction(_: &RouteSettings, _: &RouteSettings) -> Option<String> {
        None
    }

    fn report(rule: &AccessRules) -> Vec<String> {
        rule.sentences()
    }
}

/// The rules of the key `access`.
pub(crate) fn access(given: &Spanned<AccessValue>, checker: &mut Checker<'_>) -> AccessRules {
    let tables = match given.get_ref() {
        AccessValue::One(table) => std::slice::from_ref(&**table),
        AccessValue::Several(tables) => tables,
        AccessValue::Word(word) => return word_of_access(word, given, checker),
    };
    let mut rules = AccessRules::default();
    for table in tables {
        let whom = whom(table, given, checker);
        let named: Vec<String> = match &table.actions {
            Some(actions) => actions.get_ref().0.clone(),
            None => ACTIONS.map(str::to_owned).to_vec(),
        };
        for name in named {
            match ACTIONS.iter().position(|action| *action == name) {
                None => checker.problem(
                    table.actions.as_ref().map_or(given.span(), Spanned::span),
                    format!("`{}` is no action: expected read, upload, delete or mkdir", name.escape_debug()),
                ),
                Some(at) if rules.0[at].is_some() => {
                    checker.problem(given.span(), format!("`access` says twice who may {name}"));
                }
                Some(at) => rules.0[at] = Some(whom.clone()),
            }
        }
    }
    rules
}

/// The rules of `"deny"` and `"anyone"`, for every action.
fn word_of_access(word: &str, given: &Spanned<AccessValue>, checker: &mut Checker<'_>) -> AccessRules {
    let whom = match word {
        "deny" => Allowed::Only(Arc::new(AccessRule::nobody())),
        "anyone" => Allowed::Anyone,
        _ => {
            let message = format!("`{}` is no access: expected \"deny\", \"anyone\" or a table", word.escape_debug());
            checker.problem(given.span(), message);
            return AccessRules::default();
        }
    };
    AccessRules(ACTIONS.map(|_| Some(whom.clone())))
}

fn whom(table: &AccessTable, given: &Spanned<AccessValue>, checker: &mut Checker<'_>) -> Allowed {
    let names = |texts: &Option<Spanned<Texts>>| texts.as_ref().map_or(Vec::new(), |texts| texts.get_ref().0.clone());
    let mut networks = |texts: &Option<Spanned<Texts>>| {
        let mut networks = Vec::new();
        for text in texts.iter().flat_map(|texts| &texts.get_ref().0) {
            match text.parse::<Network>() {
                Ok(network) => networks.push(network),
                Err(why) => checker.problem(given.span(), format!("`{}` {why}", text.escape_debug())),
            }
        }
        networks
    };
    let (allow, deny) = (networks(&table.allow), networks(&table.deny));
    let rule = AccessRule {
        users: names(&table.users),
        tokens: names(&table.tokens),
        certificates: names(&table.certificates),
        service: table.service.as_ref().and_then(|given| services::judge(given, checker)).map(Arc::new),
        allow,
        deny,
    };
    for name in rule.certificates.iter().filter(|name| *name != "*" && !is_subject(name)) {
        let message = "is no subject of a certificate as it is compared: expected names as in \"CN=ada,O=Example\", in the order of the certificate";
        checker.problem(given.span(), format!("`{}` {message}", name.escape_debug()));
    }
    let says =
        [&table.users, &table.tokens, &table.certificates, &table.allow, &table.deny].iter().any(|one| one.is_some());
    let says = says || table.service.is_some();
    if let Some(service) = table.service.as_ref().filter(|_| rule.asks_for_credentials()) {
        let message = "`service` decides alone: `users`, `tokens` and `certificates` are for a rule of their own";
        checker.problem(service.span(), message);
    }
    if table.anyone == says {
        let message =
            "`access` says who may: users, tokens, certificates, service, allow or deny; or else anyone = true";
        checker.problem(given.span(), message);
    }
    if table.anyone { Allowed::Anyone } else { Allowed::Only(Arc::new(rule)) }
}

/// Whether a certificate can have this subject, in the form that is compared. What stands in it for what cannot be
/// written (`?`, U+FFFD), and what may have been cut off, names no client: several certificates would have it.
fn is_subject(text: &str) -> bool {
    let is_name = |part: &str| {
        let Some((key, value)) = part.split_once('=') else { return false };
        let is_exact = |character: char| !(character.is_control() || "\"\\?\u{fffd}".contains(character));
        ["CN", "C", "L", "ST", "O", "OU"].contains(&key)
            && (1..SUBJECT_CHARACTERS_MAX).contains(&value.chars().count())
            && value.chars().all(is_exact)
    };
    text.split(',').all(is_name)
}

/// The users and tokens of a site.
pub(crate) fn accounts(
    users: &BTreeMap<Text, Text>,
    file: Option<&Text>,
    tokens: &BTreeMap<Text, Text>,
    checker: &mut Checker<'_>,
) -> Accounts {
    let mut accounts = Accounts::default();
    if let Some(file) = file {
        let path = checker.path(file);
        checker.read_files.push(path.clone());
        match std::fs::read_to_string(&path) {
            Err(error) => checker.expect(false, file, &format!("cannot be read: {error}")),
            Ok(text) => {
                // Editors of Windows begin files with a byte order mark.
                let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
                for (number, line) in (1..).zip(text.lines()) {
                    let line = line.trim();
                    if line.is_empty() || line.starts_with('#') {
                        continue;
                    }
                    let judged = line
                        .split_once(':')
                        .ok_or("is not NAME:HASH".to_owned())
                        .and_then(|(name, hash)| Ok(accounts.users.insert(name.to_owned(), check_user(name, hash)?)));
                    match judged {
                        Err(why) => checker.expect(false, file, &format!("has a mistake: line {number} {why}")),
                        Ok(Some(_)) => checker.expect(false, file, &format!("names somebody twice: line {number}")),
                        Ok(None) => {}
                    }
                }
            }
        }
    }
    for (name, hash) in users {
        match check_user(name.get_ref(), hash.get_ref()) {
            Ok(hash) => _ = accounts.users.insert(name.get_ref().clone(), hash),
            // Never the value: it may be a password.
            Err(why) => checker.problem(hash.span(), format!("the user `{}` {why}", name.get_ref().escape_debug())),
        }
    }
    for (name, hash) in tokens {
        match token_hash(hash.get_ref()) {
            Some(hash) => _ = accounts.tokens.insert(name.get_ref().clone(), hash),
            None => checker.problem(
                hash.span(),
                "this is no hash of a token: `lamna hash-password --token` prints one, as in sha256:5f...",
            ),
        }
    }
    accounts
}

/// The schema of `access`, of a site as well.
pub(crate) fn schema() -> Value {
    let keys = [
        ("actions", one_or_several(names(&ACTIONS, ""), "What it is for; everything unless it is given")),
        ("anyone", switch("Anybody may")),
        ("users", several("Users who may, with their passwords; * for all")),
        ("tokens", several("Tokens that may; * for all")),
        ("certificates", several("Subjects of clients' certificates that may, as in CN=ada,O=Example; * for all")),
        ("service", services::schema()),
        ("allow", several("Networks of clients that may")),
        ("deny", several("Networks of clients that may not")),
    ];
    let rule = table(keys, &[], "Who may do what");
    json!({ "anyOf": [names(&["deny", "anyone"], ""), rule, list_of(rule.clone())] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_what_exactly_one_name_is_written_as() {
        for good in ["CN=ada", "CN=ada lovelace,O=Example", "C=DE,ST=x,L=y,O=z=1,OU=w,CN=a", "CN=*.example.org"] {
            assert!(is_subject(good), "{good}");
        }
        let long = format!("CN={}", "a".repeat(SUBJECT_CHARACTERS_MAX));
        for bad in ["", "ada", "CN=", "cn=ada", "CN=a?b", "CN=a\u{fffd}", "CN=a, O=b", "DC=a", "CN=a\"b", &long] {
            assert!(!is_subject(bad), "{bad}");
        }
    }
}
