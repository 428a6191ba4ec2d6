//! Connections that were there before a rule was: each is asked again after a reload that brings the rules, in another
//! engine and in another process, and has to be answered as a new one would be.
//!
//! Owns: the order of events. The model and the things are those of `admission`.

use std::fs;
use std::sync::Arc;

use super::admission::{WHO, Who, fields_of, judge, may};
use super::things::{Rule, THINGS, config, plant};
use super::ways::{Backend, Visitor, Way};
use super::{Differences, engines};
use crate::client::PATIENCE;
use crate::control::order;
use crate::engine::Engine;
use crate::server::{Launch, eventually};
use crate::tls::{client_config, make_client, make_pair};

const RULES: [Rule; 6] = [Rule::User, Rule::Token, Rule::Network, Rule::Certificate, Rule::Service, Rule::Open];

/// What happens while connections are kept.
#[derive(Clone, Copy, Debug)]
enum Event {
    Rules,
    Engine,
    Process,
}

fn kept(engine: Engine, ways: &[Way], is_secured: bool, differences: &mut Differences) {
    let rules: Vec<Rule> = RULES.into_iter().filter(|rule| is_secured || *rule != Rule::Certificate).collect();
    let backend = Backend::start();
    let keys = if is_secured {
        "certificate = \"certificate.pem\"\nkey = \"key.pem\"\nclient_ca = \"ca.pem\"\nclient_certificates = \"optional\"\n"
    } else {
        ""
    };
    let guarded = config(&rules, keys, backend.address, backend.address);
    // Every line that says who is let in is left out.
    let open: String =
        guarded.lines().filter(|line| !line.starts_with("access = ")).map(|line| format!("{line}\n")).collect();
    let launch = if is_secured { Launch::new(engine) } else { Launch::new(engine).argument("--h2c") };
    let pem = make_pair(launch.directory(), &["site.test"]);
    let alice = make_client(launch.directory(), "alice");
    let server = plant(launch, &rules).config(&open).start();
    let nobody = client_config(pem.as_bytes());
    let configs = [Arc::new(nobody.clone()), Arc::new(alice.config(nobody))];
    let mut visitors = Vec::new();
    for (way, who) in ways.iter().flat_map(|way| WHO.map(|who| (*way, who))) {
        let visitor = Visitor::new(way, &server).config(&configs[usize::from(who == Who::Right)]);
        visitors.push((way, who, visitor));
    }
    for (_, _, visitor) in &mut visitors {
        assert_eq!(visitor.ask("GET", "/user/secret.txt", &[]).status, 200, "there is no rule yet");
    }
    for event in [Event::Rules, Event::Engine, Event::Process] {
        let told = match event {
            Event::Rules => {
                fs::write(server.directory().join("lamna.toml"), &guarded).expect("it can be written");
                order(&server, &["reload"])
            }
            Event::Engine => {
                order(&server, &["arch", "set", if engine.architecture == "sped" { "amped" } else { "sped" }])
            }
            Event::Process => order(&server, &["upgrade"]),
        };
        told.unwrap_or_else(|said| panic!("{event:?}: {said}"));
        // Of several processes each takes it up by itself.
        eventually("the rules are in force", PATIENCE, || {
            let is_in_force = |_| {
                let way = if is_secured { Way::Tls } else { Way::Plain };
                let mut visitor = Visitor::new(way, &server).config(&configs[0]);
                visitor.ask("GET", "/user/secret.txt", &[]).status == 401
            };
            (0..6).all(is_in_force).then_some(())
        });
        // The processes of before lead clients of connections that stay to new ones.
        let changes_process = matches!(event, Event::Rules) && ["mp", "co-amped"].contains(&engine.architecture);
        for (way, who, visitor) in &mut visitors {
            for rule in &rules {
                for thing in THINGS {
                    let target = thing.target.replace('R', rule.name());
                    if super::ways::is_http2(*way) && target.starts_with("//") {
                        continue;
                    }
                    let fields = fields_of(*way, *rule, *who);
                    let seen = match changes_process {
                        true => visitor.ask_where_led("GET", &target, &fields),
                        false => visitor.ask("GET", &target, &fields),
                    };
                    let fault = judge(may(*way, *rule, thing, *who), *rule, thing, "GET", &seen);
                    differences.count(|| format!("after {event:?} {way:?} {rule:?} {who:?} {target}"), fault);
                }
            }
        }
    }
    drop(visitors);
    order(&server, &["drain"]).expect("it serves");
}

#[test]
fn connections_that_were_there_before_a_rule_go_by_it() {
    let mut differences = Differences::default();
    for engine in engines() {
        kept(*engine, &[Way::Plain, Way::H2c], false, &mut differences);
        kept(*engine, &[Way::Tls, Way::TlsResumed, Way::TlsH2], true, &mut differences);
    }
    differences.settle("kept", 2_000);
}
