//! `access`, `users`, `users_file` and `tokens` of a site.
//!
//! Owns: that rules name accounts which there are. What rules and accounts may say is judged with those of routes.

use std::ops::Range;

use super::row::SiteKey;
use super::{SiteSettings, SiteTable};
use crate::access::{AccessRules, Accounts, check_names, token_text};
use crate::checker::Checker;
use crate::page::{Page, quoted};
use crate::route;
use crate::written::Text;

/// `users`, `users_file` and `tokens`.
pub(super) struct Persons;

impl SiteKey for Persons {
    type Value = Accounts;

    fn judge(given: &SiteTable, _: &Range<usize>, accounts: &mut Accounts, checker: &mut Checker<'_>) {
        *accounts = route::accounts(&given.users, given.users_file.as_ref(), &given.tokens, checker);
    }

    fn render(accounts: &Accounts, page: &mut Page) {
        let table = |entries: &mut dyn Iterator<Item = (&String, String)>| {
            let entries: Vec<String> =
                entries.map(|(name, value)| format!("{} = {}", quoted(name), quoted(&value))).collect();
            format!("{{ {} }}", entries.join(", "))
        };
        if !accounts.users.is_empty() {
            page.line("users", table(&mut accounts.users.iter().map(|(name, hash)| (name, hash.as_str().to_owned()))));
        }
        if !accounts.tokens.is_empty() {
            page.line("tokens", table(&mut accounts.tokens.iter().map(|(name, hash)| (name, token_text(hash)))));
        }
    }
}

/// `access`.
pub(super) struct Access;

impl SiteKey for Access {
    type Value = AccessRules;

    fn judge(given: &SiteTable, _: &Range<usize>, rules: &mut AccessRules, checker: &mut Checker<'_>) {
        *rules = given.access.as_ref().map(|given| route::access(given, checker)).unwrap_or_default();
    }

    fn render(rules: &AccessRules, page: &mut Page) {
        if !rules.is_empty() {
            page.line("access", rules.render());
        }
    }

    /// No account is named that is not there. One that was refused has been told of.
    fn conflict(given: &SiteTable, at: &Range<usize>, site: &SiteSettings, checker: &mut Checker<'_>) {
        let is_user = |name: &Text| site.accounts.users.contains_key(name.get_ref());
        let is_token = |name: &Text| site.accounts.tokens.contains_key(name.get_ref());
        let is_refused = given.users_file.is_some() && checker.count_findings() > 0;
        if is_refused || !given.users.keys().all(is_user) || !given.tokens.keys().all(is_token) {
            return;
        }
        let accesses = [&site.access].into_iter().chain(site.routes.iter().map(|route| &route.access));
        let asks = given.client_ca.is_some();
        let unknown = accesses.filter_map(|rules| check_names(rules, &site.accounts, asks).err()).next();
        if let Some(why) = unknown {
            checker.problem(at.clone(), why);
        }
    }
}
