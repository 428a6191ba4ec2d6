//! `lamna lab`: document roots, peers, scenarios and reports.
//!
//! Owns: the options. The work is `lamna_lab`'s.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use lamna_lab::replay::site;

use crate::exit::Failed;
use crate::load::failure;
use crate::replay::WorkloadArgs;

/// What the laboratory is to do.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Build a document root with the files that a log asks for, in their sizes
    Site(SiteArgs),
}

/// Which site, and where.
#[derive(Debug, Args)]
pub(crate) struct SiteArgs {
    #[command(flatten)]
    workload: WorkloadArgs,

    /// Where the files go
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Does it.
pub(crate) fn lab(command: &LabCommand) -> Result<(), Failed> {
    match command {
        LabCommand::Site(args) => build_site(args),
    }
}

fn build_site(args: &SiteArgs) -> Result<(), Failed> {
    let files = match args.workload.is_webstone() {
        true => site::webstone(),
        false => args.workload.trace(1)?.files,
    };
    let built = site::build(&files, &args.directory).map_err(failure)?;
    let impossible = match built.impossible {
        0 => String::new(),
        count => format!("; {count} names cannot be files"),
    };
    writeln!(io::stdout(), "{} files, {} bytes{impossible}", built.files, built.bytes)?;
    Ok(())
}
