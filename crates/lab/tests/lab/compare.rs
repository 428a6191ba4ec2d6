//! Scenarios are run against servers, their results kept, and the report shows them.

use std::fs;
use std::path::Path;
use std::process::Command;

use lamna_lab::compare::{CompareError, Options, Watcher, run};
use lamna_lab::report::html;
use lamna_lab::scenario::Scenario;

/// Remembers what was said, and stops after a number of measurements.
struct Quiet {
    said: Vec<String>,
    measurements_left: usize,
}

impl Watcher for Quiet {
    fn say(&mut self, what: &str) {
        self.said.push(what.to_owned());
        self.measurements_left = self.measurements_left.saturating_sub(1);
    }

    fn is_stopped(&self) -> bool {
        self.measurements_left == 0
    }
}

fn quiet(measurements: usize) -> Quiet {
    Quiet { said: Vec::new(), measurements_left: measurements }
}

const SCENARIO: &str = r#"
    name = "small"
    title = "A <small> one"
    question = "Does it work?"
    source = "none"
    finding = "none"
    expected = "it does"
    procedure = "throughput"
    servers = ["no-such-server"]
    metrics = ["cpu_us", "requests_per_second"]
    site = { file_bytes = 500 }
    load = { connections = 2, seconds = 0.05, rounds = 2 }

    [sweep]
    parameter = "connections"
    values = [1, 2]
    quick = [2]
"#;

/// A server in Python that has nothing to do with Lamna, if there is Python here.
fn options(directory: &Path) -> Options {
    let command = "python3 -m http.server --bind 127.0.0.1 --directory {site} {port}";
    Options {
        quick: false,
        results: directory.join("results"),
        work: directory.join("work"),
        lamna: "/nonexistent".into(),
        laboratory: "/nonexistent".into(),
        only: None,
        targets: vec![("python".to_owned(), command.to_owned())],
        server_processors: vec![],
        client_processors: vec![],
        rounds: None,
        seconds: None,
        command: "test".to_owned(),
    }
}

fn has_python() -> bool {
    Command::new("python3").args(["-c", "import http.server"]).status().is_ok_and(|status| status.success())
}

#[test]
fn an_interrupted_scenario_goes_on_and_failures_are_results() {
    if !has_python() {
        return skip("an_interrupted_scenario_goes_on_and_failures_are_results: no python3");
    }
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let scenario = Scenario::parse(SCENARIO).expect("it is valid");
    let options = options(directory.path());
    // The failure of the unknown server, and one measurement.
    let stopped = run(&scenario, &options, &mut quiet(2)).expect_err("it was stopped");
    assert!(matches!(stopped, CompareError::Stopped));
    let file = directory.path().join("results/small.jsonl");
    assert_eq!(fs::read_to_string(&file).expect("it was kept").matches("\"sample\"").count(), 1);

    let mut watcher = quiet(usize::MAX);
    let results = run(&scenario, &options, &mut watcher).expect("it can be run");
    for point in ["connections=1", "connections=2"] {
        assert_eq!(results.samples("python", point, "cpu_us").count(), 2);
        assert!(results.samples("python", point, "cpu_us").all(|cpu_us| cpu_us > 0.0), "python costs something");
        assert_eq!(results.samples("python", point, "errors").sum::<f64>(), 0.0);
        assert_eq!(results.failure("no-such-server", point), Some("there is no server called no-such-server"));
    }
    let measured = watcher.said.iter().filter(|said| said.contains("python")).count();
    assert_eq!(measured, 3, "what was measured was measured again: {:?}", watcher.said);
}

#[test]
fn a_server_that_serves_something_else_is_not_measured() {
    if !has_python() {
        return skip("a_server_that_serves_something_else_is_not_measured: no python3");
    }
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let mut options = options(directory.path());
    options.targets[0].1 = options.targets[0].1.replace("{site}", "/nonexistent");
    let scenario = Scenario::parse(SCENARIO).expect("it is valid");
    let results = run(&scenario, &options, &mut quiet(usize::MAX)).expect("it can be run");
    let reason = results.failure("python", "connections=1").expect("it failed");
    assert!(reason.contains("does not serve the site: 0 of 1"), "{reason}");
}

#[test]
fn the_report_is_one_page_that_a_browser_shows() {
    if !has_python() {
        return skip("the_report_is_one_page_that_a_browser_shows: no python3");
    }
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let scenario = Scenario::parse(SCENARIO).expect("it is valid");
    let results = run(&scenario, &options(directory.path()), &mut quiet(usize::MAX)).expect("it can be run");
    let page = html::report(&[(scenario.clone(), Some(results)), (scenario, None)]);
    assert!(page.contains("A &lt;small&gt; one") && page.contains("<svg") && page.contains("Not measured."));
    for outside in ["src=", "@import", "url(", "<link"] {
        assert!(!page.contains(outside), "the page refers to something outside: {outside}");
    }
    let file = directory.path().join("report.html");
    fs::write(&file, page).expect("it is ours");
    let Some(light) = screenshot(&file, directory.path(), "light") else {
        return skip("the_report_is_one_page_that_a_browser_shows: no chromium");
    };
    // A blank page of this size compresses to a few kilobytes.
    assert!(light.len() > 15_000, "the page is blank: {} bytes", light.len());
    let dark = screenshot(&file, directory.path(), "dark").expect("the browser is there");
    assert!(dark.len() > 15_000 && dark != light, "dark is like light");
    let printed = browse(&file, directory.path(), &["--no-pdf-header-footer"], "--print-to-pdf", "report.pdf");
    assert!(printed.is_some_and(|pdf| pdf.starts_with(b"%PDF-") && pdf.len() > 10_000), "nothing was printed");
}

/// A picture of the page in a colour scheme; none without a browser.
fn screenshot(page: &Path, directory: &Path, scheme: &str) -> Option<Vec<u8>> {
    // Blink's settings number the schemes: dark 0, light 1.
    let scheme = format!("--blink-settings=preferredColorScheme={}", if scheme == "dark" { 0 } else { 1 });
    browse(page, directory, &["--hide-scrollbars", "--window-size=1000,1600", &scheme], "--screenshot", "report.png")
}

/// What a browser makes of the page; none if there is no browser.
fn browse(page: &Path, directory: &Path, options: &[&str], product: &str, name: &str) -> Option<Vec<u8>> {
    let file = directory.join(name);
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu"])
        .args(options)
        .arg(format!("--user-data-dir={}", directory.join("profile").display()))
        .arg(format!("{product}={}", file.display()))
        .arg(format!("file://{}", page.display()))
        .output();
    output.ok().map(|_| fs::read(&file).expect("the browser made it"))
}

/// Says that a test could not run here, where the gate counts it.
fn skip(what: &str) {
    eprintln!("skipped: {what}");
    if let Some(file) = std::env::var_os("LAMNA_SKIPPED_FILE") {
        let mut file =
            fs::OpenOptions::new().append(true).create(true).open(file).expect("the gate's file can be written");
        std::io::Write::write_all(&mut file, format!("{what}\n").as_bytes()).expect("the gate's file can be written");
    }
}
