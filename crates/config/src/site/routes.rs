//! `application`, `route` and `rule_files` of a site.
//!
//! Owns: that no two routes start different applications at one place. What a route or an application says is
//! `route`'s.

use std::ops::Range;

use toml::Spanned;

use super::row::SiteKey;
use super::{SiteSettings, SiteTable};
use crate::checker::Checker;
use crate::gateway::{CommandSettings, GatewaySettings, ProgramSettings};
use crate::page::Page;
use crate::route::{self, RouteSettings, Source, applications};

/// `application`.
pub(super) struct Applications;

impl SiteKey for Applications {
    type Value = Vec<GatewaySettings>;

    /// Routes are judged behind it: they name what it finds.
    fn judge(given: &SiteTable, _: &Range<usize>, shared: &mut Self::Value, checker: &mut Checker<'_>) {
        *shared = applications::judge(&given.application, checker);
    }

    fn render(shared: &Self::Value, page: &mut Page) {
        applications::render(shared, page);
    }

    fn conflict(given: &SiteTable, _: &Range<usize>, _: &SiteSettings, checker: &mut Checker<'_>) {
        applications::unused(&given.application, &given.route, checker);
    }
}

/// `route`.
pub(super) struct Routes;

impl SiteKey for Routes {
    type Value = Vec<RouteSettings>;

    fn judge(given: &SiteTable, _: &Range<usize>, routes: &mut Self::Value, checker: &mut Checker<'_>) {
        *routes = route::routes(&given.route, checker);
    }

    fn render(routes: &Self::Value, page: &mut Page) {
        for each in routes.iter().filter(|each| each.source == Source::Configuration) {
            page.push(&route::render(each));
        }
    }

    fn between(tables: &[Spanned<SiteTable>], sites: &[SiteSettings], checker: &mut Checker<'_>) {
        unique_commands(tables, sites, checker);
    }
}

/// At one socket there is one application.
fn unique_commands(tables: &[Spanned<SiteTable>], sites: &[SiteSettings], checker: &mut Checker<'_>) {
    let mut seen: Vec<&CommandSettings> = Vec::new();
    for (table, site) in tables.iter().zip(sites) {
        for command in site.commands() {
            match seen.iter().find(|one| one.socket == command.socket) {
                None => seen.push(command),
                Some(one) if *one == command => {}
                Some(_) => {
                    let socket = command.socket.display();
                    let message = format!("two routes start different applications at unix:{socket}");
                    let hint = "write the same `command` and `instances` for both, or another `to`".to_owned();
                    checker.problem_with_hint(table.span(), &message, Some(hint));
                }
            }
        }
    }
    let mut seen: Vec<&ProgramSettings> = Vec::new();
    for (table, site) in tables.iter().zip(sites) {
        for program in site.programs() {
            match seen.iter().find(|one| one.place == program.place) {
                None => seen.push(program),
                Some(one) if *one == program => {}
                Some(_) => {
                    let message = format!("two routes start different applications at {}", program.place);
                    let hint = "write the same `command` for both, or another `to`".to_owned();
                    checker.problem_with_hint(table.span(), &message, Some(hint));
                }
            }
        }
    }
}
