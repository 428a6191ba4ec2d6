//! What docs/compare.md says of this server: its configurations are served, and its numbers of lines are those of what
//! it shows.

use super::gateways::Application;
use super::gateways::php::start_php;
use crate::access::SESAME;
use crate::engine::AMPED;
use crate::routes::{hold, planted};
use crate::server::Launch;

const MANUAL: &str = include_str!("../../../../docs/compare.md");

/// One case: its heading, and what stands beneath it.
fn cases() -> impl Iterator<Item = (&'static str, &'static str)> {
    MANUAL.split("\n## ").skip(1).map(|section| section.split_once('\n').expect("there is something beneath a heading"))
}

/// The block of this kind in a section.
fn block(section: &'static str, kind: &str) -> Option<&'static str> {
    let (_, below) = section.split_once(&format!("```{kind}\n"))?;
    below.split("\n```").next()
}

#[test]
fn its_lines_are_served_as_it_says() {
    let application = Application::start();
    let php = tempfile::tempdir().unwrap();
    let php_socket = php.path().join("php.sock");
    // Only a file is asked for: that is answered with and without it.
    let _php = start_php(php.path(), &php_socket);
    let mut count = 0;
    for (heading, section) in cases() {
        let launch = planted(AMPED).file("docs/page.txt", "text ".repeat(1000));
        let launch = match (block(section, "toml"), block(section, "sh")) {
            (Some(lines), _) => configured(launch, lines, &application, &php_socket.display().to_string()),
            (None, Some(line)) => typed(launch, line, &application),
            (None, None) => panic!("{heading} says nothing of this server"),
        };
        let server = launch.start();
        block(section, "text").expect(heading).lines().for_each(|line| hold(&server, line));
        server.finish();
        count += 1;
    }
    assert!(count > 15);
}

/// With a configuration of the manual, where its paths and places are.
fn configured(launch: Launch, lines: &str, application: &Application, php: &str) -> Launch {
    let users = launch.directory().join("users");
    std::fs::write(&users, format!("ada:{SESAME}\n")).unwrap();
    let (site, users) = (launch.site().display().to_string(), users.display().to_string());
    let places = application.address.to_string();
    let replaced = [
        ("/srv/www", &*site),
        ("/etc/lamna/users", &users),
        ("127.0.0.1:3000", &places),
        ("127.0.0.1:3001", &places),
        ("/run/php/php-fpm.sock", php),
    ];
    launch.config(&replaced.iter().fold(lines.to_owned(), |lines, (text, by)| lines.replace(text, by)))
}

/// With the arguments of a line of the manual, but for where it serves what.
fn typed(mut launch: Launch, line: &str, application: &Application) -> Launch {
    let line = line.strip_prefix("lamna ").expect(line).replace("127.0.0.1:3000", &application.address.to_string());
    let mut quoted = line.split('"');
    while let Some(plain) = quoted.next() {
        let mut words = plain.split_whitespace();
        while let Some(word) = words.next() {
            match word {
                "/srv/www" => {}
                "--port" => _ = words.next(),
                word => launch = launch.argument(word),
            }
        }
        if let Some(text) = quoted.next() {
            launch = launch.argument(text);
        }
    }
    launch
}

#[test]
fn its_table_counts_what_it_shows() {
    let rows: Vec<&str> = MANUAL.lines().filter(|line| line.starts_with("| [")).collect();
    assert_eq!(rows.len(), cases().count());
    for ((heading, section), row) in cases().zip(rows) {
        let own = block(section, "toml").or(block(section, "sh"));
        let blocks = [block(section, "nginx"), block(section, "caddyfile"), block(section, "console"), own];
        let counted = blocks.map(|block| {
            block.map_or("-".to_owned(), |text| text.lines().filter(|line| !line.trim().is_empty()).count().to_string())
        });
        assert!(
            row.starts_with(&format!("| [{heading}](#")) && row.ends_with(&format!(") | {} |", counted.join(" | "))),
            "{row}"
        );
    }
}
