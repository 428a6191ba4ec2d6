//! `lamna limit preview`: the clients that limits would have refused, by an access log.
//!
//! Owns: reading logs, and printing. What is counted is `worker::limiter::preview`'s.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use lamna_policy::words::count;
use lamna_server::config;
use lamna_server::log::read::read;
use lamna_server::worker::limiter::preview::{Found, Met, Preview, moment};
use serde_json::{Value, json};

use crate::args::{LimitArgs, LimitCommand, PreviewArgs};
use crate::exit::{Exit, Failed};

/// Carries the command out.
pub(crate) fn run(args: &LimitArgs) -> Result<(), Failed> {
    match &args.command {
        LimitCommand::Preview(args) => preview(args),
    }
}

fn preview(args: &PreviewArgs) -> Result<(), Failed> {
    let settings = config::load(args.config.as_deref(), &config::Overrides::default())?;
    let mut preview = match args.requests {
        Some(rate) => Preview::of(&settings, rate, args.path.as_deref()),
        None => Preview::new(&settings),
    };
    for log in &args.logs {
        count_log(log, &mut preview)?;
    }
    let mut out = io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", as_json(&preview, args.most))?,
        false => print(&preview, args.most, &mut out)?,
    }
    Ok(())
}

fn count_log(log: &Path, preview: &mut Preview<'_>) -> Result<(), Failed> {
    let failed = |error: io::Error| {
        let exit = match error.kind() {
            io::ErrorKind::PermissionDenied => Exit::NoPermission,
            _ => Exit::Failure,
        };
        Failed { exit, report: format!("lamna: {}: cannot be read: {error}", log.display()) }
    };
    let mut lines: Box<dyn BufRead> = match log == Path::new("-") {
        true => Box::new(io::stdin().lock()),
        false => Box::new(BufReader::new(File::open(log).map_err(failed)?)),
    };
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).map_err(failed)? > 0 {
        match std::str::from_utf8(&line).ok().and_then(|line| read(line.trim_end())) {
            Some(entry) => preview.count(&entry),
            None => preview.skip(),
        }
        line.clear();
    }
    Ok(())
}

fn print(preview: &Preview<'_>, most: usize, out: &mut impl Write) -> io::Result<()> {
    let totals = preview.totals();
    write!(out, "{} of {}", count(totals.requests, "request"), count(totals.networks, "network"))?;
    if let Some((first, last)) = totals.times_ms {
        write!(out, ", {} to {}", moment(first), moment(last))?;
    }
    writeln!(out)?;
    if totals.exempt > 0 {
        writeln!(out, "{} of clients that no limit is for", count(totals.exempt, "request"))?;
    }
    if totals.unreadable > 0 {
        writeln!(out, "{} in no known format, not counted", count(totals.unreadable, "line"))?;
    }
    let limits = preview.found(most);
    if limits.is_empty() {
        return writeln!(out, "there are no limits of requests or bytes");
    }
    for found in &limits {
        let (networks, refused) = preview.met(found);
        let Found { name, limit, met } = found;
        match refused {
            0 => writeln!(out, "{name} ({limit}): nobody")?,
            _ => writeln!(
                out,
                "{name} ({limit}): {}, {} refused",
                count(networks, "network"),
                count(refused, "request")
            )?,
        }
        for (network, Met { refused, times_ms: (first, last) }, all) in met {
            writeln!(out, "  {network:<24} {refused} of {all} refused, {} to {}", moment(*first), moment(*last))?;
        }
        if networks > met.len() as u64 {
            writeln!(out, "  and {} more: --most {networks}", networks - met.len() as u64)?;
        }
    }
    Ok(())
}

fn as_json(preview: &Preview<'_>, most: usize) -> Value {
    let totals = preview.totals();
    let limits = preview.found(most);
    let limit = |found: &Found| {
        let (networks, refused) = preview.met(found);
        let network = |(network, met, all): &(String, Met, u64)| {
            let (first, last) = met.times_ms;
            json!({ "network": network, "refused": met.refused, "requests": all, "first": moment(first), "last": moment(last) })
        };
        let met: Vec<Value> = found.met.iter().map(network).collect();
        json!({ "name": found.name, "limit": found.limit, "networks": networks, "refused": refused, "met": met })
    };
    json!({
        "requests": totals.requests,
        "networks": totals.networks,
        "refused": totals.refused,
        "exempt": totals.exempt,
        "unreadable": totals.unreadable,
        "first": totals.times_ms.map(|(first, _)| moment(first)),
        "last": totals.times_ms.map(|(_, last)| moment(last)),
        "limits": limits.iter().map(limit).collect::<Vec<_>>(),
    })
}
