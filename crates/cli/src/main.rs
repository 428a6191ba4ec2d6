//! Placeholder until the command line is merged.
use lamna_server::config::settings::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let s = Settings {
        listen: vec![ListenAddress::Tcp(a[2].parse().unwrap())],
        architecture: match a.get(3).map(String::as_str) {
            Some("sped") => Architecture::Sped,
            Some("thread-per-session") => Architecture::ThreadPerSession,
            _ => Architecture::Amped,
        },
        workers: 1,
        helpers_max: 32,
        threads: 64,
        threads_max: std::env::var("THREADS_MAX").map_or(1024, |n| n.parse().unwrap()),
        cache_bytes_max: 512 << 20,
        log: match a.get(4) {
            Some(f) => LogTarget::File(f.into()),
            None => LogTarget::Off,
        },
        log_format: LogFormat::Combined,
        limits: Default::default(),
        without: vec![],
        sites: vec![SiteSettings {
            hosts: vec![],
            root: (&a[1]).into(),
            index: vec!["index.html".into()],
            browse: true,
            spa: false,
            headers: vec![],
            redirects: vec![],
            error_pages: Default::default(),
            aliases: vec![],
            user_directory: None,
        }],
    };
    let l = lamna_server::listen::bind(&s.listen);
    lamna_server::serve(&s, l).unwrap();
}
