//! Files that are sent in place of the server's own pages, and as fixed answers.
//!
//! Owns: reading them when a site is opened. They are held in memory: an error may be that nothing can be opened, or
//! that no client was let in. Guarantees: each of them may be read by any client at every path at which it is, but for
//! the one that settings name, where a route may answer otherwise; none is a script. Files that are missing, too large
//! or kept from some clients are not there: checks warn of them. Sends nothing.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::sync::Arc;

use lamna_config::error_pages::{self, PAGE_BYTES_MAX};
use lamna_config::settings::SiteSettings;
use lamna_io::file_state::{Kind, inspect};
use lamna_io::{KernelFeatures, Wait, open};

use super::media_type;
use super::page_file::{PageFile, PageFiles};
use super::permitted::Permitted;
use super::site::Site;

/// Whether there may be any.
pub(super) fn are_named(settings: &SiteSettings) -> bool {
    settings.has_root() && error_pages::held(settings).next().is_some()
}

/// Reads those of `site`, at this time of the server's clock.
pub(super) fn read(site: &Site, now_ms: u64) -> PageFiles {
    let mut files = PageFiles::new();
    for path in error_pages::held(&site.settings) {
        if !files.contains_key(path)
            && let Some(file) = read_one(site, path, now_ms)
        {
            files.insert(path.to_owned(), Arc::new(file));
        }
    }
    files
}

fn read_one(site: &Site, path: &str, now_ms: u64) -> Option<PageFile> {
    let (root, name) = site.root_of(path.as_bytes());
    let directory = root.directory(Wait::Yes, now_ms).ok()?;
    let file = open::open_beneath(directory.as_fd(), name, Wait::Yes, &KernelFeatures::default()).ok()?;
    let (kind, stamp) = inspect(file.as_fd()).ok()?;
    let routes = &site.routes;
    let is_open = |path: &[u8]| routes.is_for_anybody(path) && !routes.hides(path) && routes.runner(path).is_none();
    // It may be withheld at its own path, by which settings name it: then it is sent as a page only.
    let lets = |place: &[u8]| is_open(place) && (place == path.as_bytes() || !routes.withhold_from_some(place));
    let _: Permitted<'_> = Permitted::judge(site, path.as_bytes().into(), file.as_fd(), lets)?;
    if kind != Kind::Regular || stamp.size > PAGE_BYTES_MAX {
        return None;
    }
    let mut content = Vec::with_capacity(stamp.size as usize); // At most PAGE_BYTES_MAX.
    File::from(file).take(PAGE_BYTES_MAX).read_to_end(&mut content).ok()?;
    Some(PageFile { media_type: media_type::by_name(name).essence, content: content.into() })
}
