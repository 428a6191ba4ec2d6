//! That what comes of a configuration may be served: held against what the other server does.
//!
//! Owns: the rule. Of paths that the other configuration has something to say about, the result sends no file that the
//! other server has a program answer for, and no program's source that the other server does not send either, but what
//! is refused by its own path. The routes of the result are asked, as they are asked while it serves (`route::sent`);
//! how it came to them does not count. So the rule holds for whatever is read wrongly before. Guarantees as well that
//! the result can be loaded, as far as it names directories and files that exist. Pure.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use lamna_config::parse_unseen;
use lamna_config::route::sent::Sent;

use super::{Note, Site, is_program};

/// The other server's treatment of paths of a site.
pub(super) struct Source {
    /// Paths that it has something to say about.
    pub(super) paths: Vec<String>,
    /// Its treatment of any path.
    pub(super) does: Box<dyn Fn(&str) -> Use>,
}

impl fmt::Debug for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Source").field("paths", &self.paths).finish_non_exhaustive()
    }
}

/// The treatment of a path by a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// A program answers, or is asked whether there is something.
    Run,
    /// A file may be sent as it is.
    File,
    /// Neither: it is refused, or leads elsewhere.
    Never,
}

/// Names beneath a place that are worth asking about.
pub(super) const SCRIPT_NAMES: [&str; 12] = [
    "index.php",
    "x.php",
    "wp-config.php",
    "sub/x.php",
    "sub/index.php",
    "x.php/info",
    "x.PHP",
    "x.phtml",
    "x.php5",
    "x.php.bak",
    "x.py",
    "x",
];

/// Whether `text`, which these sites are in, may be served.
///
/// # Errors
/// A file that would be sent, or the reason why it cannot be loaded.
pub(super) fn prove(text: &str, sites: &[Site]) -> Result<(), Note> {
    let first = sites.first().map_or(1, |site| site.line);
    if sites.is_empty() {
        return Ok(());
    }
    let settings = parse_unseen(text, Path::new("/imported.toml")).map_err(|error| {
        let words = error.to_string().replace('\n', " ");
        Note::new(first, format!("what would come of it cannot be loaded, so nothing is made of it: {words}"))
    })?;
    for (site, settings) in sites.iter().zip(&settings.sites) {
        let Some(source) = &site.source else { continue };
        let sent = Sent::new(settings).map_err(|why| Note::new(site.line, why))?;
        // With the folders that they are in, for which index files stand.
        let folders = |path: &str| path.match_indices('/').map(|(at, _)| path[..=at].to_owned()).collect::<Vec<_>>();
        let folders: BTreeSet<String> = source.paths.iter().flat_map(|path| folders(path)).collect();
        for path in source.paths.iter().chain(&folders) {
            for file in sent.files(path.as_bytes()) {
                let file = String::from_utf8_lossy(&file).into_owned();
                let is_exposed = match (source.does)(&file) {
                    Use::Run => true,
                    // What is refused by its own path is not sent by another one.
                    Use::Never => is_program(&file) && !sent.refuses(file.as_bytes()),
                    Use::File => false,
                };
                if is_exposed {
                    let words = format!(
                        "what would come of this server sends the file of `{file}` as it is to who asks for `{}`, and there it is not sent but \
                         answered by a program: nothing is made of it. Say for which paths programs answer in fewer, plainer locations, or write \
                         the routes by hand (docs/gateways.md)",
                        path
                    );
                    return Err(Note::new(site.line, words));
                }
            }
        }
    }
    Ok(())
}
