//! That a row is all it takes: what every row becomes, where its name stands, and docs/metrics.md, which is made of
//! rows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::{env, fs};

use super::*;
use crate::admin::api::{Arch, Phase, ProtocolStats, Stats, Status};
use crate::admin::families::FAMILIES;
use crate::admin::metrics;

fn status() -> Status {
    Status {
        version: String::new(),
        pid: 1,
        uptime_s: 0,
        phase: Phase::Serving,
        arch: Arch {
            architecture: String::new(),
            workers: 0,
            processes: false,
            threads: 0,
            threads_max: 0,
            cache_bytes_max: 0,
            schedule_in_force: None,
            settings: BTreeMap::new(),
        },
        addresses: Vec::new(),
        listeners: Vec::new(),
        roots: Vec::new(),
        workers: None,
        connections_open: None,
        connections: 0,
        requests: 0,
        cache_bytes: None,
        protocols: ProtocolStats::default(),
        tls: None,
        certificates: Vec::new(),
        certificate_files: Vec::new(),
        upstreams: Vec::new(),
        applications: Vec::new(),
        maintenance: Vec::new(),
        services: Vec::new(),
        user: None,
        sandbox: None,
    }
}

/// Every row, with values of which no two are alike.
fn all_different() -> Figures {
    let mut next = 1_000;
    let mut figures = Figures::default();
    for figure in &mut figures.0 {
        let values = if figure.row.values == 0 { 2 } else { figure.row.values };
        figure.values = Some((next..).step_by(7).take(values).collect());
        next += 7 * values as u64;
    }
    figures
}

#[test]
fn every_row_is_in_the_metrics_the_json_and_the_text() {
    let figures = all_different();
    let stats = Stats { figures: figures.clone(), ..Stats::default() };
    let exposition = metrics::render(&status(), &stats);
    let json = serde_json::to_value(&stats).unwrap();
    let read: Stats = serde_json::from_value(json.clone()).unwrap();
    let text: BTreeMap<&str, String> = read.figures.lines().into_iter().collect();
    assert!(figures.0.len() > 50, "all tables are among them");
    for figure in &figures.0 {
        let Row { name, json: path, line, help, .. } = *figure.row;
        assert!(
            !help.is_empty() && exposition.contains(&format!("# TYPE {name} {}\n", figure.row.kind.name())),
            "{name}"
        );
        let told = path.split('.').try_fold(&json, |part, member| part.get(member));
        assert_eq!(told, Some(&figure.to_json()), "{path}");
        for words in figure.words() {
            assert!(text[line].contains(&words), "{words} in {line}: {}", text[line]);
        }
        assert!(!figure.words().is_empty(), "{path}");
        for (labels, value) in figure.samples().into_iter().filter(|_| figure.row.kind != Kind::Histogram) {
            let labels: Vec<String> = labels.iter().map(|(label, of)| format!("{label}=\"{of}\"")).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let value = match figure.row.unit {
                Unit::Count | Unit::Bytes => value.to_string(),
                Unit::Microseconds => metrics::seconds(value),
                Unit::Milliseconds => metrics::seconds(value * 1000),
            };
            assert!(exposition.contains(&format!("\n{name}{labels} {value}\n")), "{name}{labels} {value}");
        }
    }
}

#[test]
fn what_is_read_of_the_json_is_what_was_written_as_far_as_it_says_so() {
    let written = serde_json::to_value(all_different()).unwrap();
    let read: Figures = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), written);
    let [counted, none] = ["requests", "nothing.of.this.name"].map(|path| read.get(path));
    assert!(counted > 0 && none == 0);
    let of_another_version = r#"{"requests": "many", "lookups": 1, "responses": {"by_class": [1], "duration": {"buckets": [1], "sum_us": 1}}}"#;
    let read: Figures = serde_json::from_str(of_another_version).unwrap();
    assert!(read.0.iter().all(|figure| figure.values.is_none()));
    assert_eq!(read.lines(), []);
}

#[test]
fn figures_are_gathered_from_all_sources() {
    let (done, log) = (Counters::default(), LogCounters::default());
    let (cache, disk, hints, early_hints) = Default::default();
    let add = |counter: &AtomicU64, number| counter.store(number, Relaxed);
    add(&done.work.hits, 5);
    add(&done.work.misses, 3);
    add(&done.work.described, 2);
    add(&done.answers.by_class[1], 8);
    add(&done.answers.over_http2, 6);
    let moment = Moment { connections: vec![2, 3], idle: Some(4), ..Moment::default() };
    let sources = Sources {
        done: &done,
        cache: &cache,
        disk: &disk,
        log: &log,
        hints: &hints,
        early_hints: &early_hints,
        moment,
    };
    let json = serde_json::to_value(Figures::gather(&sources)).unwrap();
    assert_eq!(json["protocols"], json!({ "http1": 2, "http2": 6 }));
    assert_eq!(json["caches"]["translations"], json!({ "hits": 5, "misses": 3 }));
    assert_eq!(json["caches"]["entries"], json!({ "hits": 6, "misses": 2 }));
    assert_eq!(json["responses"]["by_class"], json!([0, 8, 0, 0, 0]));
    let connections = &json["connections"];
    assert_eq!(
        [&connections["open"], &connections["idle"], &connections["slow"]],
        [&json!(5), &json!(4), &Value::Null]
    );
}

#[test]
fn rows_are_well_named_and_tell_themselves_apart() {
    let figures = Figures::default();
    let mut samples = BTreeSet::new();
    let mut paths = BTreeSet::new();
    for Figure { row, .. } in &figures.0 {
        assert!(paths.insert(row.json), "{} is there twice", row.json);
        let labels = match row.labels {
            Labels::Fixed(labels) => format!("{labels:?}"),
            Labels::Each(label, _) => label.to_owned(),
        };
        assert!(samples.insert((row.name, labels)), "{} has two rows of these labels", row.name);
        let of_metric: Vec<&Row> =
            figures.0.iter().map(|other| other.row).filter(|other| other.name == row.name).collect();
        let families = of_metric.iter().filter(|row| row.family.is_some()).count();
        assert_eq!(families, usize::from(of_metric.len() > 1), "{}: one of several rows says what they are", row.name);
        assert!(of_metric.iter().all(|other| (other.kind, other.unit) == (row.kind, row.unit)), "{}", row.name);
        let is_time = matches!(row.unit, Unit::Microseconds | Unit::Milliseconds);
        assert_eq!(row.name.contains("_seconds"), is_time, "{}", row.name);
        assert_eq!(row.name.contains("_bytes"), row.unit == Unit::Bytes, "{}", row.name);
    }
    let named = figures.0.iter().map(|figure| (figure.row.name, figure.row.kind));
    for (name, kind) in named.chain(FAMILIES.iter().map(|family| (family.name, family.kind))) {
        let is_of_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        assert!(name.bytes().all(is_of_name) && name.ends_with("_total") == (kind == Kind::Counter), "{name}");
    }
}

fn sources_below(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() && !["tests", "target"].iter().any(|name| path.ends_with(name)) {
            sources_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

/// The sources of the program, without comments and tests.
fn sources() -> Vec<String> {
    let mut files = Vec::new();
    sources_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut files);
    let code = |file: &PathBuf| {
        let text = fs::read_to_string(file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
    };
    files.iter().map(code).collect()
}

#[test]
fn the_name_of_a_metric_stands_in_one_place_of_the_program() {
    let sources = sources();
    let figures = Figures::default();
    let rows = figures.0.iter().map(|figure| figure.row.name);
    for name in rows.chain(FAMILIES.iter().map(|family| family.name)).collect::<BTreeSet<_>>() {
        let is_named = |text: &&String| text.contains(&format!("\"{name}\""));
        assert_eq!(sources.iter().filter(is_named).count(), 1, "{name}");
    }
}

#[test]
fn every_row_that_is_declared_is_gathered() {
    let names: BTreeSet<&str> = Figures::default().0.iter().map(|figure| figure.row.name).collect();
    let mut declared = 0;
    for text in sources() {
        for kind in ["Row::counter(", "Row::gauge(", "Row::histogram("] {
            for rest in text.split(kind).skip(1) {
                let Some(name) = rest.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next()) else {
                    continue;
                };
                assert!(names.contains(name), "no table that is gathered has {name}");
                declared += 1;
            }
        }
    }
    assert!(declared > 30, "{declared}");
}

/// A line of the documentation.
fn line(cells: [&str; 5]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

fn row(figure: &Figure) -> String {
    let Row { name, kind, unit, labels, values, json, help, .. } = *figure.row;
    let labels = match labels {
        Labels::Fixed(labels) => labels.iter().map(|(label, of)| format!("{label}=\"{of}\"")).collect(),
        Labels::Each(label, _) if values == 0 => vec![label.to_owned()],
        Labels::Each(label, name_of) => {
            (0..values).map(|index| format!("{label}=\"{}\"", name_of(index))).collect::<Vec<_>>()
        }
    };
    let labels = if labels.is_empty() { String::new() } else { format!("`{}`", labels.join("` `")) };
    let unit = match unit {
        Unit::Count => "",
        Unit::Bytes => ", bytes",
        Unit::Microseconds => ", seconds (JSON: microseconds)",
        Unit::Milliseconds => ", seconds (JSON: milliseconds)",
    };
    line([&format!("`{name}`"), &labels, &format!("{}{unit}", kind.name()), &format!("`{json}`"), help])
}

fn with_rows(document: &str, head: &str, rows: &str) -> String {
    let (before, rest) = document.split_once(head).expect("the document has the table");
    let after = rest.find("\n\n").map_or("", |end| &rest[end + 1..]);
    format!("{before}{head}{rows}{after}")
}

#[test]
fn the_documentation_has_every_row() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let document = fs::read_to_string(&path).expect("the document is there");
    let figures = "| metric | labels | kind | JSON | what it is |\n| --- | --- | --- | --- | --- |\n";
    let families = "| metric | labels | kind | what it is |\n| --- | --- | --- | --- |\n";
    let made = with_rows(&document, figures, &Figures::default().0.iter().map(row).collect::<String>());
    let of_family = |family: &crate::admin::families::Family| {
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        format!("| `{}` | {} | {} | {} |\n", family.name, labels.join(" "), family.kind.name(), family.help)
    };
    let made = with_rows(&made, families, &FAMILIES.iter().map(of_family).collect::<String>());
    if made != document && env::var_os("WRITE_DOCS").is_some() {
        fs::write(&path, made).expect("the document can be written");
    } else {
        assert_eq!(made, document, "write it anew: WRITE_DOCS=1 cargo test -p lamna-server --lib admin::");
    }
}
