//! The keys of a route that name an application: from tables to settings, and back to text.
//!
//! Owns: their judgement, with words for what is wrong.

use toml::Spanned;

use super::Switch;
use super::shapes::{GatewayTable, RouteTable, SwitchOr};
use crate::config::file::Text;
use crate::config::gateway::{GatewayProtocol, GatewaySettings, UpstreamSettings};
use crate::config::limits::Unit;
use crate::config::upstream_address::UpstreamAddress;
use crate::config::validate::Checker;

/// The application that the route names.
pub(super) fn judge(given: &RouteTable, checker: &mut Checker<'_>) -> Switch<GatewaySettings> {
    let (given, protocol) = match (&given.proxy, &given.fastcgi) {
        (None, None) => return Switch::Unset,
        (Some(_), Some(fastcgi)) => {
            checker.problem(fastcgi.span(), "a route has one application: `proxy` or `fastcgi`");
            return Switch::Unset;
        }
        (Some(proxy), None) => (proxy, GatewayProtocol::Http),
        (None, Some(fastcgi)) => (fastcgi, GatewayProtocol::FastCgi),
    };
    let span = given.span();
    match given.get_ref() {
        SwitchOr::Is(false) => Switch::Off,
        SwitchOr::Is(true) => {
            let hint =
                Some("write proxy = \"http://127.0.0.1:3000\", or fastcgi = \"unix:/run/php/php-fpm.sock\"".into());
            checker.problem_with_hint(span, "this names where the application is, or is false", hint);
            Switch::Unset
        }
        SwitchOr::Text(text) => {
            let upstreams = upstream(text, span, checker).map(|address| vec![UpstreamSettings::new(address)]);
            upstreams.map_or(Switch::Unset, |upstreams| Switch::Set(GatewaySettings::new(protocol, upstreams)))
        }
        SwitchOr::Table(table) => of_table(protocol, table, span, checker),
    }
}

fn upstream(text: &str, span: std::ops::Range<usize>, checker: &mut Checker<'_>) -> Option<UpstreamAddress> {
    let address = text.parse();
    address.map_err(|why| checker.problem(span, format!("`{}` {why}", text.escape_debug()))).ok()
}

fn of_table(
    protocol: GatewayProtocol,
    table: &GatewayTable,
    span: std::ops::Range<usize>,
    checker: &mut Checker<'_>,
) -> Switch<GatewaySettings> {
    let Some(to) = table.to.as_ref().filter(|to| !to.get_ref().0.is_empty()) else {
        let hint = Some("write to = \"http://127.0.0.1:3000\", or a list of such texts".into());
        checker.problem_with_hint(span, "`to` says where the application is, and it is missing", hint);
        return Switch::Unset;
    };
    let addresses = to.get_ref().0.iter().filter_map(|text| upstream(text, to.span(), checker));
    let mut upstreams: Vec<UpstreamSettings> =
        addresses.collect::<Vec<_>>().into_iter().map(UpstreamSettings::new).collect();
    if upstreams.len() < to.get_ref().0.len() {
        return Switch::Unset;
    }
    weigh(&mut upstreams, table.weights.as_ref(), checker);
    let mut settings = GatewaySettings::new(protocol, upstreams);
    settings.host = table.host.as_ref().and_then(|host| host_of(host, checker));
    let mut ms = |key: &str, given: &Option<_>, otherwise: u32| {
        let given = given.as_ref().and_then(|given| checker.amount(key, given, Unit::Milliseconds, &(1..=DAY_MS)));
        given.map_or(otherwise, |ms| ms as u32) // Within bounds that fit.
    };
    settings.connect_timeout_ms = ms("connect_timeout_ms", &table.connect_timeout_ms, settings.connect_timeout_ms);
    settings.timeout_ms = ms("timeout_ms", &table.timeout_ms, settings.timeout_ms);
    let bytes = table.body_bytes_max.as_ref();
    settings.body_bytes_max =
        bytes.and_then(|given| checker.amount("body_bytes_max", given, Unit::Bytes, &(0..=i64::MAX as u64)));
    match (&mut settings.scripts, &table.extensions, &table.index) {
        (None, None, None) => {}
        (None, ..) => {
            checker.problem(span, "`extensions` and `index` are for `fastcgi`: a proxy passes every request on")
        }
        (Some(scripts), extensions, index) => {
            if let Some(given) = extensions {
                scripts.extensions.clone_from(&given.get_ref().0);
                scripts.index.retain(|name| scripts.extensions.iter().any(|one| name.ends_with(&format!(".{one}"))));
            }
            if let Some(given) = index {
                scripts.index.clone_from(&given.get_ref().0);
            }
            let is_name = |text: &String| !text.is_empty() && !text.contains(['/', '\0']);
            if !scripts.extensions.iter().chain(&scripts.index).all(is_name) {
                checker.problem(span, "`extensions` are written as in \"php\", and `index` as in \"index.php\"");
            }
        }
    }
    if settings.scripts.as_ref().is_some_and(|scripts| scripts.extensions.is_empty()) {
        settings.scripts = None;
    }
    Switch::Set(settings)
}

const DAY_MS: u64 = 86_400_000;
const WEIGHT_MAX: i64 = 1_000_000;

fn weigh(upstreams: &mut [UpstreamSettings], weights: Option<&Spanned<Vec<i64>>>, checker: &mut Checker<'_>) {
    let Some(given) = weights else { return };
    let weights = given.get_ref();
    let are_weights = weights.iter().all(|weight| (0..=WEIGHT_MAX).contains(weight));
    if weights.len() != upstreams.len() || !are_weights || weights.iter().all(|weight| *weight == 0) {
        let message =
            format!("`weights` has one number from 0 to {WEIGHT_MAX} for each place in `to`, and not only zeros");
        return checker.problem(given.span(), message);
    }
    for (upstream, weight) in upstreams.iter_mut().zip(weights) {
        upstream.weight = *weight as u32; // Within bounds that fit.
    }
}

fn host_of(given: &Spanned<Text>, checker: &mut Checker<'_>) -> Option<String> {
    let host = given.get_ref().to_string();
    if lamna_proto::parse::host::parse(host.as_bytes()).is_ok() {
        return Some(host);
    }
    checker.problem(given.span(), format!("`{}` is not a host, with or without a port", host.escape_debug()));
    None
}

/// As it is written in a configuration.
pub(super) fn render(gateway: &GatewaySettings) -> String {
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let places = gateway.upstreams.iter().map(|upstream| quoted(&upstream.address.to_string()));
    let mut keys = vec![format!("to = [{}]", places.collect::<Vec<_>>().join(", "))];
    if gateway.upstreams.iter().any(|upstream| upstream.weight != 1) {
        let weights = gateway.upstreams.iter().map(|upstream| upstream.weight.to_string());
        keys.push(format!("weights = [{}]", weights.collect::<Vec<_>>().join(", ")));
    }
    keys.extend(gateway.host.as_ref().map(|host| format!("host = {}", quoted(host))));
    keys.push(format!("connect_timeout_ms = {}", gateway.connect_timeout_ms));
    keys.push(format!("timeout_ms = {}", gateway.timeout_ms));
    keys.extend(gateway.body_bytes_max.map(|bytes| format!("body_bytes_max = {bytes}")));
    if gateway.protocol == GatewayProtocol::FastCgi {
        let list = |texts: &[String]| texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", ");
        let scripts = gateway.scripts.as_ref();
        keys.push(format!("extensions = [{}]", list(scripts.map_or(&[], |scripts| &scripts.extensions))));
        keys.extend(scripts.map(|scripts| format!("index = [{}]", list(&scripts.index))));
    }
    format!("{{ {} }}", keys.join(", "))
}

/// In words.
pub(super) fn describe(gateway: &GatewaySettings) -> String {
    let places: Vec<String> = gateway.upstreams.iter().map(|upstream| upstream.address.to_string()).collect();
    match gateway.protocol {
        GatewayProtocol::Http => format!("proxy to {}", places.join(" or ")),
        GatewayProtocol::FastCgi => match &gateway.scripts {
            Some(scripts) => {
                format!("files that end with .{} are run by {}", scripts.extensions.join(" or ."), places.join(" or "))
            }
            None => format!("FastCGI to {}", places.join(" or ")),
        },
    }
}
