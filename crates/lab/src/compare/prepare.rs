//! Preparation of a point of a scenario before anything can be measured: files, requests for them, a port.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use lamna_sim::kernel::Stream;
use rustix::fs::{Advice, fadvise, syncfs};

use super::Options;
use super::store::digest;
use crate::load::content::attach_contents;
use crate::load::plan::{Order, Pace, Plan, RequestForm, Target, WEBSTONE};
use crate::process::Server;
use crate::replay::read::ReadError;
use crate::replay::synthetic::Model;
use crate::replay::{File, read, site};
use crate::scenario::Point;

/// Bytes of a cold file: as many as a page of text with pictures left out.
const COLD_BYTES: u64 = 15_000;

/// Bytes of the page of text.
const TEXT_BYTES: usize = 51_200;

/// Files that are compared before a server is measured.
const VERIFIED_FILES: usize = 20;

/// The hot file, or the only one.
pub(super) const HOT_PATH: &str = "/f.html";

/// A document root and how often each of its files is asked for.
pub(super) struct Site {
    pub(super) directory: PathBuf,
    /// Bytes of all its files.
    pub(super) bytes: u64,
    asked: Asked,
    /// Paths of files that have not been read lately.
    pub(super) cold: Vec<String>,
}

impl Site {
    /// Builds what is not there yet. Sites of the same content share a directory.
    pub(super) fn build(point: &Point, work: &Path) -> Result<Site, String> {
        let (mut files, asked) = wanted(point)?;
        let cold: Vec<File> = (0..point.site.cold_files)
            .map(|number| File { path: format!("/cold/{}/{number}.html", number / 1000), bytes: COLD_BYTES })
            .collect();
        let directory = work.join(format!("site-{}", digest(&format!("{:?}", point.site))));
        let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
        fs::create_dir_all(&directory).map_err(failed)?;
        // Servers that give up root have to get in.
        fs::set_permissions(work, fs::Permissions::from_mode(0o755)).map_err(failed)?;
        files.extend_from_slice(&cold);
        let bytes = site::build(&files, &directory).map_err(|error| error.to_string())?.bytes;
        if point.site.text {
            fs::write(directory.join("text.html"), text_page()).map_err(failed)?;
        }
        // Pages that are not on the disk yet cannot be forgotten.
        let root = fs::File::open(&directory).map_err(failed)?;
        syncfs(&root).map_err(|error| failed(error.into()))?;
        Ok(Site { directory, bytes, asked, cold: cold.into_iter().map(|file| file.path).collect() })
    }

    /// See [`evict`].
    pub(super) fn evict(&self) {
        evict(&self.directory);
    }

    /// A job that asks `server` for all of it, without a length.
    pub(super) fn plan(&self, point: &Point, server: &Server, options: &Options) -> Plan {
        let load = &point.load;
        let form = RequestForm {
            host: format!("localhost:{}", server.address.port()),
            http_1_0: load.http_1_0,
            close: load.new_connections,
            fields: load.headers.clone(),
        };
        let target = |(path, weight): &(String, f64)| Target { weight: *weight, ..form.target(path) };
        let order = match &self.asked.sequence {
            Some(targets) => Order::Sequence { targets: targets.clone(), looped: true },
            None => Order::Weighted,
        };
        Plan {
            order,
            connections: load.connections,
            new_connections: load.new_connections,
            pipelining: load.pipelining,
            pace: load
                .rate
                .map_or(Pace::Closed { think: Duration::ZERO }, |per_second| Pace::Rate { per_second, poisson: false }),
            processors: options.client_processors.clone(),
            threads: options.client_processors.len().clamp(1, load.connections),
            timeout: Duration::from_secs(20),
            duration: None,
            ..Plan::simple(server.address, self.asked.paths.iter().map(target).collect())
        }
    }

    /// A job that asks for the hot file `per_second` times a second, without a length.
    pub(super) fn hot_plan(&self, server: &Server, options: &Options, per_second: f64) -> Plan {
        let form = RequestForm { host: "localhost".to_owned(), ..RequestForm::default() };
        Plan {
            connections: 8,
            pace: Pace::Rate { per_second, poisson: false },
            processors: options.client_processors.clone(),
            timeout: Duration::from_secs(20),
            ..Plan::simple(server.address, vec![form.target(HOT_PATH)])
        }
    }

    /// A job that asks for some of it once and compares what comes; compressed content is not compared.
    pub(super) fn verification(&self, point: &Point, server: &Server, options: &Options) -> Result<Plan, String> {
        let mut plan = Plan { connections: 1, threads: 1, pipelining: 1, ..self.plan(point, server, options) };
        plan.targets.truncate(VERIFIED_FILES);
        plan.pace = Pace::Closed { think: Duration::ZERO };
        plan.requests = Some(plan.targets.len() as u64);
        plan.order = Order::Sequence { targets: (0..plan.targets.len() as u32).collect(), looped: false };
        if !point.site.text {
            attach_contents(&mut plan.targets, &self.directory).map_err(|error| error.to_string())?;
        }
        Ok(plan)
    }

    /// A job that asks for cold files in a random order, none of them twice soon.
    pub(super) fn cold_plan(&self, server: &Server, options: &Options, seed: u64) -> Plan {
        let form = RequestForm { host: "localhost".to_owned(), ..RequestForm::default() };
        let mut order: Vec<u32> = (0..self.cold.len() as u32).collect();
        let mut random = Stream::new(seed, "cold");
        (1..order.len()).rev().for_each(|last| order.swap(last, random.below(last as u64 + 1) as usize));
        Plan {
            connections: 16,
            order: Order::Sequence { targets: Arc::from(order), looped: true },
            processors: options.client_processors.clone(),
            timeout: Duration::from_secs(20),
            ..Plan::simple(server.address, self.cold.iter().map(|path| form.target(path)).collect())
        }
    }
}

/// The requests of a point.
#[derive(Default)]
struct Asked {
    /// Paths, and how often each is asked for in comparison.
    paths: Vec<(String, f64)>,
    /// Their order, as indices, if they are not drawn by chance.
    sequence: Option<Arc<[u32]>>,
}

/// The files of a point, and how often each is asked for.
fn wanted(point: &Point) -> Result<(Vec<File>, Asked), String> {
    let site = &point.site;
    let by_chance = |paths| Asked { paths, sequence: None };
    if site.webstone {
        let paths = WEBSTONE.iter().map(|&(path, _, share)| (path.to_owned(), share)).collect();
        return Ok((site::webstone(), by_chance(paths)));
    }
    if site.text {
        return Ok((Vec::new(), by_chance(vec![("/text.html".to_owned(), 1.0)])));
    }
    let hot = site.file_bytes.map(|bytes| File { path: HOT_PATH.to_owned(), bytes });
    let Some(name) = &site.workload else {
        let hot = hot.ok_or("the scenario says nothing about what is served")?;
        return Ok((vec![hot], by_chance(vec![(HOT_PATH.to_owned(), 1.0)])));
    };
    let (mut files, asked) = match name.strip_prefix(TRACE) {
        Some(log) => of_trace(Path::new(log), site.data_set_mib)?,
        None => {
            let mut model = Model::named(name).map_err(|error| error.to_string())?;
            if let Some(mib) = site.data_set_mib {
                model.truncate(mib << 20, 1);
            }
            let paths = model.files.iter().zip(&model.weights).map(|(file, weight)| (file.path.clone(), *weight));
            let paths = paths.collect();
            (model.files, by_chance(paths))
        }
    };
    files.extend(hot);
    Ok((files, asked))
}

/// How a workload says that it is a log.
const TRACE: &str = "trace:";

/// The files of the log at `path`, asked for in its order.
fn of_trace(path: &Path, data_set_mib: Option<u64>) -> Result<(Vec<File>, Asked), String> {
    let mut trace = read::read(path).map_err(|error| match error {
        ReadError::Unreadable(file, error) if error.kind() == ErrorKind::NotFound && file.is_relative() => format!(
            "this scenario asks for what the log {} was asked for, which is not here: it comes with the sources of Lamna, so \
             run this at the root of the source tree",
            file.display()
        ),
        other => other.to_string(),
    })?;
    if let Some(mib) = data_set_mib {
        trace.truncate(mib << 20);
    }
    let paths = trace.files.iter().map(|file| (file.path.clone(), 1.0)).collect();
    let sequence = trace.requests.iter().map(|request| request.file).collect();
    Ok((trace.files, Asked { paths, sequence: Some(sequence) }))
}

/// Makes the kernel forget the content of the files below `directory`. Names and attributes stay in memory: to forget
/// those as well would take emptying the caches of the whole machine.
pub(crate) fn evict(directory: &Path) {
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => directories.push(entry.path()),
                Ok(kind) if kind.is_file() => {
                    if let Ok(file) = fs::File::open(entry.path()) {
                        // Advice only; pages in use stay.
                        _ = fadvise(&file, 0, None, Advice::DontNeed);
                    }
                }
                _ => {}
            }
        }
    }
}

/// A free port of loopback that this process has not given out before: a server takes a moment to bind what it was
/// given. Below the ports that the kernel gives to clients.
pub(crate) fn free_port() -> Option<u16> {
    const PORTS: std::ops::Range<u16> = 18_700..28_700;
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    // Two laboratories at the same time begin in different places.
    let start = std::process::id() as u16 % 100 * 100;
    (0..PORTS.len()).find_map(|_| {
        let offset = start.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % PORTS.len() as u16;
        let port = PORTS.start + offset;
        TcpListener::bind(("127.0.0.1", port)).is_ok().then_some(port)
    })
}

/// A page of words from a lexicon of 3000, as compressible as text.
fn text_page() -> String {
    let mut random = Stream::new(1, "text");
    let mut word = || -> String {
        let letters = 2 + random.below(8);
        (0..letters).map(|_| char::from(b'a' + random.below(26) as u8)).collect()
    };
    let lexicon: Vec<String> = (0..3000).map(|_| word()).collect();
    let mut page = "<!doctype html><title>text</title><p>".to_owned();
    while page.len() < TEXT_BYTES {
        page.push_str(&lexicon[random.below(3000) as usize]);
        page.push(' ');
    }
    page.truncate(TEXT_BYTES);
    page
}
