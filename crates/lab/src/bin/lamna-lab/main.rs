//! The `lamna-lab` program: measures HTTP servers and simulates them.
//!
//! Owns: the command line. What it does is `lamna_lab`'s and `lamna_sim`'s; `lamna lab`, `sim`, `load`, `replay` and
//! `tune` run this program with the same words.

mod exit;
mod lab;
mod load;
mod program;
mod replay;
mod sim;
mod tune;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use exit::{Exit, Failed};

/// Measures and compares HTTP servers, and simulates them.
#[derive(Debug, Parser)]
#[command(name = "lamna-lab", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Lab(lab::LabCommand),
    /// Ask a server for things, and say what it answered and when
    Load(load::LoadArgs),
    /// Ask a server again for what a log says it was asked for
    Replay(replay::ReplayArgs),
    /// Simulate: what each architecture would do on other machines, and how well that is known
    Sim(sim::SimArgs),
    /// Measure the engines on this machine with these files, and write a profile for `lamna serve --profile`
    Tune(tune::TuneArgs),
}

fn main() -> ExitCode {
    let result = match &Cli::parse().command {
        Command::Lab(command) => lab::lab(command),
        Command::Load(args) => load::load(args),
        Command::Replay(args) => replay::replay(args),
        Command::Sim(args) => sim::run_verb(args),
        Command::Tune(args) => tune::tune(args),
    };
    result.map_or_else(report, |()| Exit::Done).into()
}

fn report(failed: Failed) -> Exit {
    // With standard error closed, the exit code has to do.
    _ = writeln!(io::stderr(), "{}", failed.report);
    failed.exit
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
