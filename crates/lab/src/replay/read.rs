//! Reads a log into a [`Trace`]: text logs line by line, and the anonymous traces (`NAME.csv` beside `NAME.files.csv`).
//!
//! Guarantees: a line that cannot be read is counted and skipped; times that go back are held at the latest time seen;
//! requests of one second, the resolution of most logs, are spread evenly over it. Compressed logs (`.gz`, `.zst`) are
//! read through `gzip` and `zstdcat`, so that no decompressor is linked for them.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::line::{self, Line};
use super::{File, Request, Skipped, Trace};

const SECOND_NS: u64 = 1_000_000_000;

/// The first line of an anonymous trace.
const TRACE_HEADER: &str = "seconds,method,file,status,bytes";

/// Why a log could not be read.
#[derive(Debug)]
pub enum ReadError {
    /// A file is missing or unreadable, or the program that decompresses it is.
    Unreadable(PathBuf, io::Error),
    /// The decompressor refused the file.
    NotCompressed(PathBuf, &'static str),
    /// A line of the table of files is not `file,ext,size`. Counted from one.
    BadLine(PathBuf, usize),
    /// Not one line became a request.
    Empty(PathBuf, Skipped),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Unreadable(path, error) => write!(f, "{}: {error}", path.display()),
            ReadError::NotCompressed(path, program) => write!(f, "{}: {program} cannot read it", path.display()),
            ReadError::BadLine(path, line) => write!(f, "{}:{line}: not a line of the format", path.display()),
            ReadError::Empty(path, skipped) => {
                write!(f, "{}: no request that could be replayed", path.display())?;
                skipped.describe().map_or(Ok(()), |what| write!(f, "; {what}"))
            }
        }
    }
}

impl std::error::Error for ReadError {}

/// Reads the log at `path`, whatever its format.
///
/// # Errors
/// See [`ReadError`].
pub fn read(path: &Path) -> Result<Trace, ReadError> {
    let text = text(path)?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = name.trim_end_matches(".zst").trim_end_matches(".gz").trim_end_matches(".csv").to_owned();
    let mut builder = Builder::default();
    if text.lines().next() == Some(TRACE_HEADER) {
        read_anonymous(&text, &path.with_file_name(format!("{name}.files.csv")), &mut builder)?;
    } else {
        for (number, text) in (1..).zip(text.lines()) {
            match line::parse(text) {
                Some(line) => builder.add(line),
                None => builder.garbage(number),
            }
        }
    }
    let trace = builder.finish(name);
    if trace.requests.is_empty() { Err(ReadError::Empty(path.into(), trace.skipped)) } else { Ok(trace) }
}

/// Collects lines until the sizes of all files are known.
#[derive(Default)]
struct Builder {
    ids: HashMap<String, u32>,
    /// Path and size, if it was ever sent whole.
    files: Vec<(String, Option<u64>)>,
    lines: Vec<(Option<i128>, u32)>,
    skipped: Skipped,
}

impl Builder {
    fn add(&mut self, line: Line) {
        if !matches!(line.method.as_str(), "GET" | "HEAD") {
            self.skipped.methods += 1;
            return;
        }
        let id = self.id(line.path);
        if line.status == 200 && line.method == "GET" {
            let size = &mut self.files[id as usize].1;
            // An aborted transfer logs fewer bytes than the file has.
            *size = Some(size.unwrap_or(0).max(line.bytes));
        }
        self.lines.push((line.at_ns, id));
    }

    fn id(&mut self, path: String) -> u32 {
        let next = self.files.len() as u32;
        *self.ids.entry(path.clone()).or_insert_with(|| {
            self.files.push((path, None));
            next
        })
    }

    fn garbage(&mut self, number: u64) {
        self.skipped.garbage += 1;
        self.skipped.first_garbage.get_or_insert(number);
    }

    fn finish(mut self, name: String) -> Trace {
        let mut numbers = vec![None; self.files.len()];
        let mut files = Vec::new();
        for (id, (path, size)) in self.files.into_iter().enumerate() {
            if let Some(bytes) = size {
                numbers[id] = Some(files.len() as u32);
                files.push(File { path, bytes });
            }
        }
        let mut kept = Vec::with_capacity(self.lines.len());
        for (at_ns, id) in self.lines {
            match numbers[id as usize] {
                Some(file) => kept.push((at_ns, file)),
                None => self.skipped.unknown_files += 1,
            }
        }
        Trace { name, files, requests: timed(&kept), skipped: self.skipped }
    }
}

/// Times from the first request on, never going back; whole seconds are filled evenly.
fn timed(lines: &[(Option<i128>, u32)]) -> Vec<Request> {
    let first = lines.iter().find_map(|(at_ns, _)| *at_ns).unwrap_or(0);
    let mut latest = 0;
    let mut requests: Vec<Request> = lines
        .iter()
        .map(|&(at_ns, file)| {
            latest = at_ns.map_or(latest, |at_ns| u64::try_from(at_ns - first).unwrap_or(0).max(latest));
            Request { at_ns: latest, file }
        })
        .collect();
    if requests.iter().all(|request| request.at_ns % SECOND_NS == 0) {
        for second in requests.chunk_by_mut(|a, b| a.at_ns == b.at_ns) {
            let interval_ns = SECOND_NS / second.len() as u64;
            (0..).zip(second).for_each(|(number, request)| request.at_ns += number * interval_ns);
        }
    }
    requests
}

fn read_anonymous(text: &str, table: &Path, builder: &mut Builder) -> Result<(), ReadError> {
    let names = read_table(table, builder)?;
    for (number, line) in (1..).zip(text.lines()).skip(1) {
        let mut fields = line.split(',');
        let (seconds, method, file) = (fields.next(), fields.next(), fields.next());
        let seconds = seconds.and_then(|seconds| seconds.parse::<u32>().ok());
        let (Some(seconds), Some(method), Some(file)) = (seconds, method, file) else {
            builder.garbage(number);
            continue;
        };
        match (method, names.get(file)) {
            ("GET" | "HEAD", Some(&id)) => builder.lines.push((Some(i128::from(seconds) * 1_000_000_000), id)),
            ("GET" | "HEAD", None) => builder.skipped.unknown_files += 1,
            _ => builder.skipped.methods += 1,
        }
    }
    Ok(())
}

/// The files of an anonymous trace, by their numbers in it.
fn read_table(path: &Path, builder: &mut Builder) -> Result<HashMap<String, u32>, ReadError> {
    let table = fs::read_to_string(path).map_err(|error| ReadError::Unreadable(path.into(), error))?;
    let mut names = HashMap::new();
    for (number, line) in table.lines().enumerate().skip(1) {
        let bad = || ReadError::BadLine(path.into(), number + 1);
        let mut fields = line.split(',');
        let (Some(file), Some(extension), Some(size), None) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(bad());
        };
        if size.is_empty() {
            continue;
        }
        let bytes = size.parse().map_err(|_| bad())?;
        let id = builder.id(anonymous_path(file.parse().map_err(|_| bad())?, extension));
        builder.files[id as usize].1 = Some(bytes);
        names.insert(file.to_owned(), id);
    }
    Ok(names)
}

/// The path that stands for file number `file`: a thousand to a directory, and the extension kept, because servers go
/// by it.
pub(super) fn anonymous_path(file: u64, extension: &str) -> String {
    let plain = !extension.is_empty() && extension.len() <= 8 && extension.bytes().all(|b| b.is_ascii_alphanumeric());
    let extension = if plain && !matches!(extension, "dir" | "none") { extension } else { "html" };
    format!("/{}/f{file}.{extension}", file / 1000)
}

/// The text of a log, unpacked if its name ends in `.gz` or `.zst`. Bytes that are not UTF-8 become U+FFFD.
///
/// # Errors
/// It cannot be read or unpacked.
pub fn text(path: &Path) -> Result<String, ReadError> {
    let unreadable = |error| ReadError::Unreadable(path.into(), error);
    let program: Option<(&'static str, &[&str])> = match path.extension().and_then(|extension| extension.to_str()) {
        Some("zst") => Some(("zstdcat", &["--"])),
        Some("gz") => Some(("gzip", &["-dc", "--"])),
        _ => None,
    };
    let bytes = match program {
        None => fs::read(path).map_err(unreadable)?,
        Some((program, arguments)) => {
            fs::metadata(path).map_err(unreadable)?;
            let output = Command::new(program).args(arguments).arg(path).output();
            let output =
                output.map_err(|error| unreadable(io::Error::new(error.kind(), format!("{program}: {error}"))))?;
            if !output.status.success() {
                return Err(ReadError::NotCompressed(path.into(), program));
            }
            output.stdout
        }
    };
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(name: &str, text: &str) -> Result<Trace, ReadError> {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let path = directory.path().join(name);
        fs::write(&path, text).expect("it is ours");
        fs::write(directory.path().join("t.files.csv"), "file,ext,size\n1,txt,10\n2,dir,20\n3,html,\n").expect("ours");
        read(&path)
    }

    fn log_line(second: u32, request: &str, status: u16, bytes: u32) -> String {
        format!("h - - [10/Oct/2000:13:55:{second:02} +0000] \"{request} HTTP/1.1\" {status} {bytes}\n")
    }

    #[test]
    fn a_log_becomes_files_and_timed_requests() {
        let log = [
            log_line(1, "GET /a", 200, 10),
            log_line(1, "GET /b", 304, 0),
            log_line(3, "GET /a", 200, 7),
            log_line(2, "GET /b", 200, 20),
        ];
        let trace = read_text("access.log", &log.concat()).expect("it has requests");
        let file = |path: &str, bytes| File { path: path.into(), bytes };
        assert_eq!(trace.files, [file("/a", 10), file("/b", 20)]);
        let times: Vec<(u64, u32)> = trace.requests.iter().map(|r| (r.at_ns / 1_000_000, r.file)).collect();
        // The two of the first second share it; the last one is held at the latest time.
        assert_eq!(times, [(0, 0), (500, 1), (2000, 0), (2500, 1)]);
        assert_eq!(trace.skipped, Skipped::default());
    }

    #[test]
    fn what_is_left_out_is_counted_by_reason() {
        let log = [
            log_line(1, "POST /a", 200, 10),
            "garbage\n".to_owned(),
            "\u{0}\n".to_owned(),
            log_line(1, "GET /gone", 404, 3),
            log_line(1, "GET /a", 200, 10),
        ];
        let trace = read_text("access.log", &log.concat()).expect("it has a request");
        assert_eq!(trace.requests.len(), 1);
        assert_eq!(trace.skipped, Skipped { garbage: 2, first_garbage: Some(2), methods: 1, unknown_files: 1 });
        let said = trace.skipped.describe().expect("there is something to say");
        assert!(said.contains("2 lines of no known format (the first is line 2)"), "{said}");
    }

    #[test]
    fn an_anonymous_trace_is_read_with_its_table() {
        let text = format!(
            "{TRACE_HEADER}\n0,GET,2,200,20\n0,GET,1,304,0\nx\n5,HEAD,1,200,0\n5,GET,3,404,9\n5,POST,1,200,1\n"
        );
        let trace = read_text("t.csv", &text).expect("it has requests");
        assert_eq!(
            trace.files.iter().map(|f| (&*f.path, f.bytes)).collect::<Vec<_>>(),
            [("/0/f1.txt", 10), ("/0/f2.html", 20)]
        );
        let times: Vec<(u64, u32)> = trace.requests.iter().map(|r| (r.at_ns / 1_000_000, r.file)).collect();
        assert_eq!(times, [(0, 1), (500, 0), (5000, 0)]);
        assert_eq!(trace.skipped, Skipped { garbage: 1, first_garbage: Some(4), methods: 1, unknown_files: 1 });
    }

    #[test]
    fn a_log_without_requests_is_an_error_that_says_why() {
        let error = read_text("access.log", "garbage\n").expect_err("nothing to replay");
        assert!(
            error.to_string().ends_with(
                "no request that could be replayed; skipped 1 line of no known format (the first is line 1)"
            ),
            "{error}"
        );
        let missing = read(Path::new("/nonexistent/log.gz")).expect_err("it is not there");
        assert!(missing.to_string().starts_with("/nonexistent/log.gz: No such file"), "{missing}");
    }

    #[test]
    fn what_is_not_compressed_is_said_not_to_be() {
        let error = read_text("x.gz", "plain").expect_err("not gzip");
        assert!(
            matches!(error, ReadError::NotCompressed(_, "gzip")) || matches!(error, ReadError::Unreadable(..)),
            "{error}"
        );
    }
}
