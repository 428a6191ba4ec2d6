//! Judging `access`, `users`, `users_file` and `tokens`.
//!
//! Owns: the sentences about what is wrong with them, in which no password and no hash is repeated. Reads `users_file`.

use std::collections::BTreeMap;
use std::sync::Arc;

use toml::Spanned;

use super::condition::Network;
use super::shapes::{AccessTable, AccessValue};
use crate::config::access::{ACTIONS, AccessRule, AccessRules, Accounts, Allowed, check_user, token_hash};
use crate::config::file::{Text, Texts};
use crate::config::validate::Checker;

/// What `access` says.
pub(in crate::config) fn access(given: &Spanned<AccessValue>, checker: &mut Checker<'_>) -> AccessRules {
    let tables = match given.get_ref() {
        AccessValue::One(table) => std::slice::from_ref(table),
        AccessValue::Several(tables) => tables,
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
    let rule = AccessRule { users: names(&table.users), tokens: names(&table.tokens), allow, deny };
    let says = [&table.users, &table.tokens, &table.allow, &table.deny].iter().any(|one| one.is_some());
    // An empty list is not taken for no list: it would let everybody in.
    let lists = [&table.users, &table.tokens, &table.allow];
    if lists.iter().any(|list| list.as_ref().is_some_and(|list| list.get_ref().0.is_empty())) {
        checker.problem(given.span(), "an empty list in `access` lets nobody in: leave it out, or name somebody");
    }
    if table.anyone == says {
        let message = "`access` says who may: users, tokens, allow or deny; or else anyone = true";
        checker.problem(given.span(), message);
    }
    if table.anyone { Allowed::Anyone } else { Allowed::Only(Arc::new(rule)) }
}

/// The users and tokens of a site.
pub(in crate::config) fn accounts(
    users: &BTreeMap<Text, Text>,
    file: Option<&Text>,
    tokens: &BTreeMap<Text, Text>,
    checker: &mut Checker<'_>,
) -> Accounts {
    let mut accounts = Accounts::default();
    if let Some(file) = file {
        let path = checker.path(file);
        match std::fs::read_to_string(&path) {
            Err(error) => checker.expect(false, file, &format!("cannot be read: {error}")),
            Ok(text) => {
                for (number, line) in (1..).zip(text.lines()) {
                    let line = line.trim();
                    if line.is_empty() || line.starts_with('#') {
                        continue;
                    }
                    let judged = line.split_once(':').ok_or("is not NAME:HASH".to_owned()).and_then(|(name, hash)| {
                        check_user(name, hash)?;
                        Ok(accounts.users.insert(name.to_owned(), hash.to_owned()))
                    });
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
        if let Err(why) = check_user(name.get_ref(), hash.get_ref()) {
            // Never the value: it may be a password.
            checker.problem(hash.span(), format!("the user `{}` {why}", name.get_ref().escape_debug()));
        }
        accounts.users.insert(name.get_ref().clone(), hash.get_ref().clone());
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
