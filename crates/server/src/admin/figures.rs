//! The figures of a server: the values of all rows, as JSON and as text.
//!
//! Owns: which tables of rows there are ([`Figures::gather`]), and where the value of a row is in the JSON and in the
//! text of `lamna ctl stats`. Guarantees: a row that is declared in one of the tables is told, and no counter is named
//! here. Numbers are as they were when they were gathered.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use lamna_io as io;
use lamna_io::log::LogCounters;
use lamna_proto::counter::{CounterSet, Kind, Labels, Row, Shape, Unit};
use lamna_proto::tally::BUCKETS;
use lamna_site::cache;
use lamna_site::early_hints;
use lamna_site::hints::HintCounters;
use lamna_sys::metrics::counters::Counters;
use lamna_sys::metrics::scoreboard::Waits;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::derived::{self, Derived};
use super::duration::Distribution;

/// The sources of figures.
#[derive(Debug)]
pub(crate) struct Sources<'a> {
    /// Counters of workers.
    pub(crate) done: &'a Counters,
    /// Which way disk operations went.
    pub(crate) disk: &'a io::Counters,
    /// Counters of the caches.
    pub(crate) cache: &'a cache::counters::Counters,
    /// Counters of log lines.
    pub(crate) log: &'a LogCounters,
    /// Counters of hints.
    pub(crate) hints: &'a HintCounters,
    /// Counters of hints to clients.
    pub(crate) early_hints: &'a early_hints::Counters,
    /// How it is now.
    pub(crate) moment: Moment,
}

/// Gauges that are not counted, but read on request.
#[derive(Debug, Default)]
pub(crate) struct Moment {
    /// Open connections of each worker.
    pub(crate) connections: Vec<u32>,
    /// Open connections that wait for a request; none where workers do not say so: `mp` and `thread-per-session`.
    pub(crate) idle: Option<u64>,
    /// Open connections whose peers do not take what is sent to them; none where workers do not say so: `mp` and the
    /// thread engines.
    pub(crate) slow: Option<u64>,
    /// The waits of workers.
    pub(crate) waits: Waits,
    /// Requests that wait for the answer that another one is getting; none where processes do not say.
    pub(crate) kept_answers_waiting: Option<u64>,
    /// Bytes in the cache; none if it is divided among processes.
    pub(crate) cache_bytes: Option<u64>,
}

/// A row and what it was.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The row.
    pub row: &'static Row,
    /// Its values, or their sum where the JSON says no more; none if the server does not say.
    pub values: Option<Vec<u64>>,
}

/// The values of all rows.
#[derive(Clone, Debug)]
pub struct Figures(Vec<Figure>);

impl Figures {
    /// The figures of these sources.
    pub(crate) fn gather(sources: &Sources<'_>) -> Figures {
        let mut figures = Figures(Vec::new());
        figures.read(&sources.done.answers);
        figures.derive(derived::CONNECTIONS, sources);
        figures.read(&sources.done.work);
        figures.derive(derived::OTHERS, sources);
        figures.read(sources.cache);
        figures.read(sources.disk);
        figures.read(sources.log);
        figures.read(sources.hints);
        figures.read(&sources.early_hints.hints);
        figures.read(&sources.early_hints.link_prefetch);
        figures
    }

    fn read<S: CounterSet>(&mut self, counters: &S) {
        for (row, cells) in S::ROWS.iter().zip(counters.cells()).filter(|(row, _)| row.is_told()) {
            let values = cells.iter().map(|cell| cell.load(Relaxed)).collect();
            self.0.push(Figure { row, values: Some(values) });
        }
    }

    fn derive(&mut self, table: &'static [Derived], sources: &Sources<'_>) {
        self.0.extend(table.iter().map(|Derived { row, values }| Figure { row, values: values(sources) }));
    }

    /// All rows, in the order of the tables.
    pub fn iter(&self) -> impl Iterator<Item = &Figure> {
        self.0.iter()
    }

    /// The number at this place of the JSON; 0 if there is none.
    pub fn get(&self, path: &str) -> u64 {
        let found = self.0.iter().find(|figure| figure.row.json == path);
        found.and_then(|figure| figure.values.as_ref()?.first().copied()).unwrap_or(0)
    }

    /// The lines of the text, and what they are called. What is zero is not told.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines: Vec<(&str, Vec<String>)> = Vec::new();
        for figure in &self.0 {
            let words = figure.words();
            match lines.iter_mut().find(|(line, _)| *line == figure.row.line) {
                _ if words.is_empty() => {}
                Some((_, told)) => told.extend(words),
                None => lines.push((figure.row.line, words)),
            }
        }
        lines.into_iter().map(|(line, words)| (line, words.join(", "))).collect()
    }
}

/// The figures of a server that has done nothing.
impl Default for Figures {
    fn default() -> Figures {
        Figures::gather(&Sources {
            done: &Counters::default(),
            cache: &cache::counters::Counters::default(),
            disk: &io::Counters::default(),
            log: &LogCounters::default(),
            hints: &HintCounters::default(),
            early_hints: &early_hints::Counters::default(),
            moment: Moment::default(),
        })
    }
}

impl Figure {
    /// Its samples: their labels, and their values.
    pub fn samples(&self) -> Vec<(Vec<(&'static str, String)>, u64)> {
        let values = self.values.iter().flatten().copied();
        let labelled = values.enumerate().map(|(index, value)| {
            let labels = match self.row.labels {
                Labels::Fixed(labels) => labels.iter().map(|(label, of)| (*label, (*of).to_owned())).collect(),
                Labels::Each(label, name_of) => vec![(label, name_of(index).into_owned())],
            };
            (labels, value)
        });
        labelled.collect()
    }

    /// If it is one of durations.
    pub fn distribution(&self) -> Option<Distribution> {
        let (buckets, sum_us) = self.values.as_ref()?.split_first_chunk::<BUCKETS>()?;
        let sum_us = *sum_us.first()?;
        (self.row.kind == Kind::Histogram).then_some(Distribution { buckets: *buckets, sum_us })
    }

    fn sum(&self) -> u64 {
        self.values.iter().flatten().sum()
    }

    fn words(&self) -> Vec<String> {
        let Row { labels, shape, unit, word, .. } = *self.row;
        if let Some(durations) = self.distribution().filter(|durations| durations.count() > 0) {
            let within = |q| durations.quantile_us(q).map_or("?".to_owned(), |us| format!("{us} us"));
            return vec![format!("50 % within {}, 99 % within {}", within(0.5), within(0.99))];
        }
        if let (Labels::Each(_, name_of), Shape::Plain | Shape::List) = (labels, shape) {
            let values = self.values.iter().flatten().enumerate().filter(|(_, value)| **value > 0);
            return values.map(|(index, value)| format!("{} {value}", name_of(index))).collect();
        }
        let number = match (self.sum(), unit) {
            (0, _) => return Vec::new(),
            (number, Unit::Count) => number.to_string(),
            (number, Unit::Bytes) => format!("{number} bytes"),
            (number, Unit::Milliseconds) => format!("{number} ms"),
            (number, Unit::Microseconds) if number < 10_000 => format!("{number} us"),
            (number, Unit::Microseconds) => format!("{} ms", number / 1000),
        };
        vec![if word.is_empty() { number } else { format!("{number} {word}") }]
    }

    fn to_json(&self) -> Value {
        let Some(values) = &self.values else { return Value::Null };
        if let Some(Distribution { buckets, sum_us }) = self.distribution() {
            return json!({ "buckets": buckets, "sum_us": sum_us });
        }
        match (self.row.shape, self.row.labels) {
            (Shape::List, _) => json!(values),
            (Shape::Plain, Labels::Each(_, name_of)) => {
                values.iter().enumerate().map(|(index, value)| (name_of(index).into_owned(), json!(value))).collect()
            }
            (Shape::Plain | Shape::Sum, _) => json!(self.sum()),
        }
    }

    /// The row, with what the JSON has at its place.
    fn of_json(row: &'static Row, value: Option<&Value>) -> Figure {
        let numbers = |values: &[Value]| values.iter().map(|value| value.as_u64().unwrap_or(0)).collect::<Vec<u64>>();
        let values = value.and_then(|value| match (row.kind, row.labels) {
            (Kind::Histogram, _) => {
                let mut durations = numbers(value.get("buckets")?.as_array()?);
                durations.push(value.get("sum_us")?.as_u64()?);
                Some(durations)
            }
            _ if row.shape == Shape::List => Some(numbers(value.as_array()?)),
            (_, Labels::Each(_, name_of)) if row.shape == Shape::Plain => {
                let number = |index| value.get(&*name_of(index)).and_then(Value::as_u64).unwrap_or(0);
                Some((0..row.values).map(number).collect())
            }
            _ => Some(vec![value.as_u64()?]),
        });
        Figure { row, values: values.filter(|values| row.values == 0 || values.len() == row.values) }
    }
}

/// A part of the JSON: members in the order in which they were put there.
#[derive(Default)]
struct Node {
    value: Option<Value>,
    members: Vec<(&'static str, Node)>,
}

impl Node {
    fn put(&mut self, path: &'static str, value: Value) {
        let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
        let at = self.members.iter().position(|(other, _)| *other == name).unwrap_or_else(|| {
            self.members.push((name, Node::default()));
            self.members.len() - 1
        });
        let member = &mut self.members[at].1;
        match rest {
            Some(rest) => member.put(rest, value),
            None => member.value = Some(value),
        }
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(value) = &self.value {
            return value.serialize(serializer);
        }
        let mut map = serializer.serialize_map(Some(self.members.len()))?;
        for (name, member) in &self.members {
            map.serialize_entry(name, member)?;
        }
        map.end()
    }
}

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut all = Node::default();
        self.0.iter().for_each(|figure| all.put(figure.row.json, figure.to_json()));
        all.serialize(serializer)
    }
}

/// A figure that a server of another version does not say is none.
impl<'de> Deserialize<'de> for Figures {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Figures, D::Error> {
        let all = BTreeMap::<String, Value>::deserialize(deserializer)?;
        let all = Value::Object(Map::from_iter(all));
        let at = |path: &str| path.split('.').try_fold(&all, |part, name| part.get(name));
        let read = Figures::default().0.into_iter().map(|figure| Figure::of_json(figure.row, at(figure.row.json)));
        Ok(Figures(read.collect()))
    }
}

#[cfg(test)]
mod tests;
