//! A server to test engines with: one site in a temporary directory, no listeners.

use std::sync::Arc;

use lamna_config::settings::{Settings, SiteSettings};
use lamna_io::KernelFeatures;
use lamna_site::cache::Store;
use lamna_site::content::site::Sites;

use crate::worker::control::Control;
use crate::worker::shared::Shared;

/// Shared state of workers, with one file `a` of the content `hello`, and the directory it is in.
pub fn shared(threads: usize, threads_max: usize) -> (Shared, tempfile::TempDir) {
    with_control(1, Control::new(1, threads, threads_max).unwrap())
}

/// The same for so many workers.
pub fn shared_by(workers: usize) -> (Shared, tempfile::TempDir) {
    with_control(workers, Control::new(workers, 1, 1).unwrap())
}

fn with_control(workers: usize, control: Control) -> (Shared, tempfile::TempDir) {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("a"), "hello").unwrap();
    let site = SiteSettings::new(root.path().to_owned());
    let settings = Settings { sites: vec![site], workers, ..Default::default() };
    let sites = Sites::open(&settings).unwrap();
    let alone = Shared::alone(&settings, sites, KernelFeatures::default()).unwrap();
    let shared = Shared { control, h2c: true, store: Arc::new(Store::new(1 << 20, 100)), ..alone };
    (shared, root)
}
