//! Placeholder until the command line is merged.
use lamna_server::config::settings::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let s = Settings {
        listen: vec![ListenAddress::Tcp(a[2].parse().unwrap())],
        architecture: if a.get(3).is_some_and(|x| x == "sped") { Architecture::Sped } else { Architecture::Amped },
        workers: 1,
        helpers_max: 32,
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
