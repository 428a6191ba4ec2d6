//! Orders of an operator that stay in force when another process takes the place of the server.

use super::{Line, SMALL};
use crate::client::Response;
use crate::engine::AMPED;
use crate::gateways::sticky::Place;
use crate::server::Launch;

fn get(line: &Line) -> Response {
    line.server.connect().get(SMALL).expect("it answers")
}

#[test]
fn a_site_stays_in_maintenance_over_upgrades_and_changes_to_processes() {
    let mut line = Line::start(Launch::new(AMPED));
    let (done, said) = line.ctl(&["maintenance", "on", "1", "--retry-after", "33"]);
    assert!(done, "{said}");
    for words in [&["upgrade"][..], &["arch", "set", "mp"], &["upgrade"], &["arch", "set", "co-amped"]] {
        let (done, said) = line.ctl(words);
        assert!(done, "{said}");
        line.hear_of_successor();
        line.is_alone();
        let response = get(&line);
        assert_eq!((response.status, response.field("Retry-After")), (503, Some("33")), "after {words:?}");
    }
    let (done, said) = line.ctl(&["maintenance", "off", "1"]);
    assert!(done, "{said}");
    assert_eq!(get(&line).status, 200);
    let (done, said) = line.ctl(&["arch", "set", "amped"]);
    assert!(done, "{said}");
    line.hear_of_successor();
    line.is_alone();
    assert_eq!(get(&line).status, 200);
    line.end();
}

#[test]
fn an_address_stays_drained_over_upgrades_and_changes_to_processes() {
    let route =
        "[[site.route]]\nmatch = \"/app/*\"\nproxy = { to = [\"http://127.0.0.1:1\", \"http://127.0.0.1:2\"] }\n";
    let mut line = Line::start(Launch::new(AMPED).config(&format!("[[site]]\nroot = \"site\"\n{route}")));
    let (done, said) = line.ctl(&["upstream", "drain", "127.0.0.1:1"]);
    assert!(done, "{said}");
    let is_drained = |line: &Line| {
        let (_, list) = line.ctl(&["upstream"]);
        let [one, other] = ["127.0.0.1:1 ", "127.0.0.1:2 "].map(|address| {
            list.lines().find(|line| line.contains(address)).unwrap_or_else(|| panic!("{list}")).contains("drained")
        });
        assert!(!other, "{list}");
        one
    };
    for words in [&["upgrade"][..], &["arch", "set", "mp"], &["upgrade"], &["arch", "set", "amped"]] {
        let (done, said) = line.ctl(words);
        assert!(done, "{said}");
        line.hear_of_successor();
        line.is_alone();
        assert!(is_drained(&line), "after {words:?}");
    }
    let (done, said) = line.ctl(&["upstream", "undrain", "127.0.0.1:1"]);
    assert!(done && !is_drained(&line), "{said}");
    line.end();
}

#[test]
fn a_cookie_of_the_server_names_the_same_place_after_upgrades_and_changes_to_processes() {
    let places = [Place::start(), Place::start(), Place::start()];
    let to: Vec<String> = places.iter().map(|place| format!("\"http://{}\"", place.address)).collect();
    let route = format!(
        "[[site.route]]\nmatch = \"/app/*\"\nproxy = {{ to = [{}], sticky = {{ set_cookie = \"place\" }} }}\n",
        to.join(", ")
    );
    let mut line = Line::start(Launch::new(AMPED).config(&format!("[[site]]\nroot = \"site\"\n{route}")));
    let ask = |line: &Line, cookie: &str| {
        let mut client = line.server.connect();
        client.send(format!("GET /app/x HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n").as_bytes());
        client.receive(true).expect("it answers")
    };
    let first = ask(&line, "a=b");
    let cookie = first.field("Set-Cookie").and_then(|value| value.split(';').next()).expect("it is given").to_owned();
    for words in [&["upgrade"][..], &["arch", "set", "mp"], &["upgrade"], &["arch", "set", "amped"]] {
        let (done, said) = line.ctl(words);
        assert!(done, "{said}");
        line.hear_of_successor();
        line.is_alone();
        for _ in 0..6 {
            let again = ask(&line, &cookie);
            assert_eq!((again.field("Set-Cookie"), &again.content), (None, &first.content), "after {words:?}");
        }
    }
    line.end();
}
