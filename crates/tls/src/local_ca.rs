//! A certificate authority of this machine, for `--tls` without a certificate.
//!
//! Owns: its files in the state directory, readable by their owner only, and the certificate of the server that it
//! signs. The authority is limited to names and addresses that only mean something on this machine and in its network
//! (RFC 5280 4.2.1.10): a thief of its key cannot pretend to be a site of the internet, not even to those who trust it.
//! It needs no privileges.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use lamna_config::settings::{ListenAddress, Settings, TlsFiles};
use lamna_config::state::state_directory;
use lamna_io::log::calendar::Calendar;
use lamna_sys::clock::unix_ms;
use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, NameConstraints, date_time_ymd,
};
use rustix::fs::FlockOperation;

use super::certificates;
use super::crypto::provider;
use super::der;

/// Days that a certificate of the server is valid: no client takes one of more than 398.
const DAYS: i64 = 365;
/// Days before its end from which on another is made.
const RENEW_DAYS: i64 = 30;
/// Days that the authority is valid.
const AUTHORITY_DAYS: i64 = 3650;

/// Names of which the last labels are these mean nothing outside of a machine or a network (RFC 6761, RFC 6762, RFC
/// 8375).
const LOCAL_SUFFIXES: [&str; 7] = ["localhost", "local", "test", "internal", "lan", "home.arpa", "localdomain"];

/// Addresses of machines and networks that are not on the internet.
const LOCAL_NETWORKS: [([u8; 4], u8); 5] =
    [([127, 0, 0, 0], 8), ([10, 0, 0, 0], 8), ([172, 16, 0, 0], 12), ([192, 168, 0, 0], 16), ([169, 254, 0, 0], 16)];

/// Why there is no local authority.
#[derive(Debug)]
pub struct LocalError(String);

impl fmt::Display for LocalError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for LocalError {}

/// Where the files of the local authority are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalFiles {
    directory: PathBuf,
}

impl LocalFiles {
    /// In the state directory of this user, or of the service.
    ///
    /// # Errors
    /// There is none.
    pub fn of_user() -> Result<LocalFiles, LocalError> {
        match state_directory() {
            Some(directory) => Ok(LocalFiles { directory: directory.join("tls") }),
            None => Err(LocalError(
                "`tls` without a certificate keeps a certificate authority in the state directory, and there is none: set HOME, \
                 XDG_STATE_HOME or STATE_DIRECTORY, or give a certificate and a key"
                    .to_owned(),
            )),
        }
    }

    /// In `directory`.
    pub fn at(directory: PathBuf) -> LocalFiles {
        LocalFiles { directory }
    }

    /// The certificate that clients have to trust.
    pub fn authority(&self) -> PathBuf {
        self.directory.join("local-ca.pem")
    }

    fn authority_key(&self) -> PathBuf {
        self.directory.join("local-ca-key.pem")
    }
}

/// The pair for what `settings` serve, made if it is not there.
///
/// # Errors
/// It cannot be made.
pub fn pair_for(settings: &Settings) -> Result<TlsFiles, LocalError> {
    ensure(&LocalFiles::of_user()?, &names_for(settings))
}

/// The names in that pair, in order.
pub(crate) fn names_for(settings: &Settings) -> Vec<String> {
    let hosts = settings.sites.iter().flat_map(|site| &site.hosts);
    let addresses = settings.listen.iter().flat_map(|one| one.at.addresses()).filter_map(|address| match address {
        ListenAddress::Tcp(address) if !address.ip().is_unspecified() => Some(address.ip().to_string()),
        _ => None,
    });
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    names.extend(machine_name());
    names.extend(hosts.map(|host| host.trim_start_matches('[').trim_end_matches(']').to_owned()));
    names.extend(addresses);
    names.retain(|name| is_local(name));
    names.sort();
    names.dedup();
    names
}

/// The names of this machine in its network.
fn machine_name() -> Vec<String> {
    let name = rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
    let is_label = |label: &str| {
        let is_of_label = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let is_framed = label.starts_with('-') || label.ends_with('-');
        (1..=63).contains(&label.len()) && label.bytes().all(is_of_label) && !is_framed
    };
    if !name.split('.').all(is_label) {
        return Vec::new();
    }
    if name.contains('.') { vec![name] } else { vec![format!("{name}.local"), name] }
}

/// Whether the authority may sign `name`, which may be a pattern. A name without a dot means something in this network
/// only.
pub fn is_local(name: &str) -> bool {
    if let Ok(address) = name.parse::<IpAddr>() {
        return is_local_address(address);
    }
    if name.strip_prefix("*.").is_some_and(|parent| !parent.contains('.')) {
        // No client takes a pattern for all names of a top level.
        return false;
    }
    let name = name.strip_prefix("*.").unwrap_or(name);
    let is_suffix = |suffix: &str| name.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    LOCAL_SUFFIXES.into_iter().any(is_suffix) || machine_names().iter().any(|own| own == name)
}

fn machine_names() -> Vec<String> {
    // A machine that has a name of the internet is not one of the authority's.
    machine_name().into_iter().filter(|name| !name.contains('.')).collect()
}

fn is_local_address(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => LOCAL_NETWORKS.iter().any(|(network, prefix)| {
            let mask = u32::MAX << (32 - prefix);
            u32::from(address) & mask == u32::from_be_bytes(*network)
        }),
        IpAddr::V6(address) => {
            address.is_loopback()
                || address.segments()[0] & 0xfe00 == 0xfc00
                || address.segments()[0] & 0xffc0 == 0xfe80
        }
    }
}

/// The pair of the server for `names`, which are all local, signed by the authority of `files`. Both are made if they
/// are not there, and the pair if it is for other names or about to expire. Two processes that begin at the same time
/// make one.
///
/// # Errors
/// The files cannot be read or written.
pub fn ensure(files: &LocalFiles, names: &[String]) -> Result<TlsFiles, LocalError> {
    let failed = |error: io::Error| {
        LocalError(format!(
            "{}: the local certificate authority cannot be kept there: {error}",
            files.directory.display()
        ))
    };
    DirBuilder::new().recursive(true).mode(0o700).create(&files.directory).map_err(failed)?;
    let lock = File::create(files.directory.join("lock")).map_err(failed)?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive).map_err(|errno| failed(errno.into()))?;
    let pair = TlsFiles {
        certificate: files.directory.join("local-server.pem"),
        key: files.directory.join("local-server-key.pem"),
        client_ca: None,
    };
    let today = i64::try_from(unix_ms() / 1000).unwrap_or(0) / 86_400;
    if is_good(&pair, files, names, today) {
        return Ok(pair);
    }
    let made = |error: rcgen::Error| LocalError(format!("a certificate cannot be made: {error}"));
    let authority = match authority_of(files, today) {
        Some(authority) => authority,
        None => {
            let key = KeyPair::generate().map_err(made)?;
            let certificate = authority_parameters(today).map_err(made)?.self_signed(&key).map_err(made)?;
            write(&files.authority_key(), &key.serialize_pem(), 0o600).map_err(failed)?;
            write(&files.authority(), &certificate.pem(), 0o644).map_err(failed)?;
            Issuer::new(authority_parameters(today).map_err(made)?, key)
        }
    };
    let key = KeyPair::generate().map_err(made)?;
    let certificate = server_parameters(names, today).and_then(|it| it.signed_by(&key, &authority)).map_err(made)?;
    write(&pair.key, &key.serialize_pem(), 0o600).map_err(failed)?;
    let certificate = certificate.pem() + &fs::read_to_string(files.authority()).map_err(failed)?;
    write(&pair.certificate, &certificate, 0o644).map_err(failed)?;
    Ok(pair)
}

/// Whether the pair can be served as it is.
fn is_good(pair: &TlsFiles, files: &LocalFiles, names: &[String], today: i64) -> bool {
    let Ok(loaded) = certificates::load(pair, &provider()) else { return false };
    let chain = &loaded.certified.cert;
    let Some(validity) = chain.first().and_then(|first| der::validity(first)) else { return false };
    let is_of_authority = authority_of(files, today).is_some()
        && fs::read_to_string(files.authority()).is_ok_and(|authority| {
            fs::read_to_string(&pair.certificate).is_ok_and(|chain| chain.ends_with(&authority))
        });
    let lasts = validity.from <= today * 86_400 && validity.until > (today + RENEW_DAYS) * 86_400;
    lasts && is_of_authority && names.iter().all(|name| loaded.covers(name))
}

/// The authority that there is, if it lasts longer than what it signs.
fn authority_of(files: &LocalFiles, today: i64) -> Option<Issuer<'static, KeyPair>> {
    let key = KeyPair::from_pem(&fs::read_to_string(files.authority_key()).ok()?).ok()?;
    let pair = TlsFiles { certificate: files.authority(), key: files.authority_key(), client_ca: None };
    let loaded = certificates::load(&pair, &provider()).ok()?;
    let certificate = loaded.certified.cert.first()?;
    if der::validity(certificate)?.until <= (today + DAYS + 1) * 86_400 {
        return None;
    }
    // It signs under the name that it was made with, also if the machine has another one now.
    let mut parameters = authority_parameters(today).ok()?;
    let name = der::subject(certificate)?;
    parameters.distinguished_name.push(DnType::CommonName, name.strip_prefix("CN=")?);
    Some(Issuer::new(parameters, key))
}

fn date(day: i64) -> (i32, u8, u8) {
    let date = Calendar::from_unix_seconds(u64::try_from(day).unwrap_or(0) * 86_400);
    (i32::from(date.year), date.month, date.day)
}

fn common(parameters: &mut CertificateParams, name: &str, today: i64, days: i64) {
    let ((from_year, from_month, from_day), (year, month, day)) = (date(today - 1), date(today + days));
    parameters.not_before = date_time_ymd(from_year, from_month, from_day);
    parameters.not_after = date_time_ymd(year, month, day);
    parameters.distinguished_name.remove(DnType::CommonName);
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.use_authority_key_identifier_extension = true;
}

fn authority_parameters(today: i64) -> Result<CertificateParams, rcgen::Error> {
    let mut parameters = CertificateParams::new(Vec::new())?;
    let machine: String = machine_name().into_iter().next_back().unwrap_or_default();
    let machine: String = machine.chars().filter(|character| character.is_ascii_alphanumeric()).take(20).collect();
    common(&mut parameters, &format!("Lamna on {machine} for local names only"), today, AUTHORITY_DAYS);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let names = LOCAL_SUFFIXES.into_iter().map(str::to_owned).chain(machine_names());
    let networks = LOCAL_NETWORKS.iter().map(|(network, prefix)| CidrSubnet::from_v4_prefix(*network, *prefix));
    let networks = networks.chain([
        CidrSubnet::from_v6_prefix(std::net::Ipv6Addr::LOCALHOST.octets(), 128),
        CidrSubnet::from_v6_prefix(std::net::Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0).octets(), 7),
        CidrSubnet::from_v6_prefix(std::net::Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0).octets(), 10),
    ]);
    let permitted_subtrees =
        names.map(GeneralSubtree::DnsName).chain(networks.map(GeneralSubtree::IpAddress)).collect();
    parameters.name_constraints = Some(NameConstraints { permitted_subtrees, excluded_subtrees: Vec::new() });
    Ok(parameters)
}

fn server_parameters(names: &[String], today: i64) -> Result<CertificateParams, rcgen::Error> {
    let mut parameters = CertificateParams::new(names.to_vec())?;
    common(&mut parameters, "Lamna, local", today, DAYS);
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(parameters)
}

/// Writes a file as a whole or not at all.
pub(super) fn write(path: &Path, content: &str, mode: u32) -> io::Result<()> {
    let beside = path.with_extension("new");
    let _ = fs::remove_file(&beside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

/// How people have their clients trust the authority of `files`, in lines.
pub fn how_to_trust(files: &LocalFiles) -> String {
    let authority = files.authority();
    let authority = authority.display();
    format!(
        "clients do not know the certificate of this machine yet. To have one trust it:\n\
         \x20 curl:               curl --cacert {authority} https://localhost...\n\
         \x20 Chromium, for you:  certutil -d sql:$HOME/.pki/nssdb -A -t C,, -n lamna -i {authority}\n\
         \x20 Firefox:            Settings, Certificates, Authorities, Import: {authority}\n\
         \x20 all of the machine: sudo cp {authority} /usr/local/share/ca-certificates/lamna.crt && sudo update-ca-certificates\n\
         It can only vouch for localhost, names that end in .local, .test, .internal and the like, and private addresses."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::{CertificateError, Error, RootCertStore};

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn verify(files: &LocalFiles, chain: &[CertificateDer<'static>], name: &str) -> Result<(), Error> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(files.authority()).unwrap()).unwrap();
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build().unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        verifier.verify_server_cert(&chain[0], &chain[1..], &name, &[], UnixTime::now()).map(|_| ())
    }

    #[test]
    fn who_trusts_the_authority_trusts_the_server() {
        let directory = tempfile::tempdir().unwrap();
        let files = LocalFiles::at(directory.path().join("tls"));
        let pair = ensure(&files, &names(&["localhost", "127.0.0.1", "::1", "*.site.localhost"])).unwrap();
        let chain = certificates::load(&pair, &provider()).unwrap().certified.cert.clone();
        for name in ["localhost", "127.0.0.1", "::1", "a.site.localhost"] {
            assert_eq!(verify(&files, &chain, name), Ok(()), "{name}");
        }
    }

    #[test]
    fn the_authority_cannot_vouch_for_a_site_of_the_internet() {
        let directory = tempfile::tempdir().unwrap();
        let files = LocalFiles::at(directory.path().join("tls"));
        for name in ["example.org", "192.0.2.1"] {
            let pair = ensure(&files, &names(&[name])).unwrap();
            let chain = certificates::load(&pair, &provider()).unwrap().certified.cert.clone();
            let refused = verify(&files, &chain, name).unwrap_err();
            assert!(matches!(refused, Error::InvalidCertificate(CertificateError::Other(_))), "{name}: {refused:?}");
            assert!(!is_local(name));
        }
    }

    #[test]
    fn keys_are_for_their_owner_only() {
        let directory = tempfile::tempdir().unwrap();
        let files = LocalFiles::at(directory.path().join("tls"));
        let pair = ensure(&files, &names(&["localhost"])).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!([mode(&files.directory), mode(&pair.key), mode(&files.authority_key())], [0o700, 0o600, 0o600]);
    }

    #[test]
    fn what_is_there_stays_until_other_names_are_needed_and_the_authority_stays_then_too() {
        let directory = tempfile::tempdir().unwrap();
        let files = LocalFiles::at(directory.path().join("tls"));
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        let pair = ensure(&files, &names(&["localhost"])).unwrap();
        let (authority, certificate) = (read(&files.authority()), read(&pair.certificate));
        ensure(&files, &names(&["localhost"])).unwrap();
        assert_eq!((read(&files.authority()), read(&pair.certificate)), (authority.clone(), certificate.clone()));
        ensure(&files, &names(&["localhost", "site.test"])).unwrap();
        assert_eq!(read(&files.authority()), authority);
        assert_ne!(read(&pair.certificate), certificate);
        fs::write(files.authority_key(), "broken").unwrap();
        let pair = ensure(&files, &names(&["localhost"])).unwrap();
        assert_ne!(read(&files.authority()), authority, "one that cannot be used is replaced");
        let chain = certificates::load(&pair, &provider()).unwrap().certified.cert.clone();
        assert_eq!(verify(&files, &chain, "localhost"), Ok(()));
    }

    #[test]
    fn processes_that_begin_together_make_one_authority() {
        let directory = tempfile::tempdir().unwrap();
        let files = LocalFiles::at(directory.path().join("tls"));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| ensure(&files, &names(&["localhost"])).unwrap());
            }
        });
        let pair = ensure(&files, &names(&["localhost"])).unwrap();
        let chain = certificates::load(&pair, &provider()).unwrap().certified.cert.clone();
        assert_eq!(verify(&files, &chain, "localhost"), Ok(()));
    }

    #[test]
    fn local_is_what_means_something_here_only() {
        for name in [
            "localhost",
            "a.localhost",
            "*.a.test",
            "box.local",
            "x.home.arpa",
            "10.1.2.3",
            "::1",
            "fe80::1",
            "172.31.0.1",
        ] {
            assert!(is_local(name), "{name}");
        }
        for name in [
            "example.org",
            "notlocal",
            "*.test",
            "mylocalhost",
            "8.8.8.8",
            "172.32.0.1",
            "2001:db8::1",
            "local.example.org",
        ] {
            assert!(!is_local(name), "{name}");
        }
    }
}
