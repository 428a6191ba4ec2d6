//! Certificates and keys from files: reading, judging, and noticing new ones.
//!
//! Owns: what of a pair of files is usable, and the words for what is not. A pair is taken as a whole or not at all: a
//! certificate and a key that belong together, read while neither file changed. What is doubtful, as a date that has
//! passed or a name that is missing, is said and used all the same: the operator may know why, and no server at all is
//! worse.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lamna_config::error_pages;
use lamna_config::settings::{Settings, SiteTls, TlsFiles};
use rustls::RootCertStore;
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;

use super::der::Validity;
use super::{crypto, der, pem};

/// The most bytes of a file with certificates or a key.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Seconds of a day.
const DAY: i64 = 86_400;

/// A pair that can be served, and what it was read from.
#[derive(Debug)]
pub struct Pair {
    /// The certificate with its chain, and the key.
    pub certified: Arc<CertifiedKey>,
    /// Which certificates of clients are taken; none if clients are not asked for one.
    pub clients: Option<Clients>,
    /// When the certificate is valid, as far as it says so.
    pub validity: Option<Validity>,
    /// The state of the files.
    pub stamps: Vec<Option<Stamp>>,
}

/// How near a certificate is to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Term {
    /// Far enough.
    Far,
    /// Fewer than 30 days are left, and less than a third of its life.
    Month,
    /// Fewer than 7 days are left, and less than a third of its life.
    Week,
    /// Less than a day is left.
    Day,
    /// It has expired.
    Expired,
}

/// Which certificates of clients are taken.
#[derive(Debug)]
pub struct Clients {
    /// The certificates of the authorities that sign them.
    pub roots: Arc<RootCertStore>,
    /// Clients without one are taken as well.
    pub may_lack: bool,
    /// A digest that tells these authorities from others.
    pub digest: u64,
}

/// The state of a file, as far as it tells that it was replaced or written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Why a pair cannot be used.
#[derive(Debug)]
pub struct PairError {
    /// The file.
    pub file: PathBuf,
    /// The fault in it.
    pub words: String,
}

impl fmt::Display for PairError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.file.display(), self.words)
    }
}

impl std::error::Error for PairError {}

/// The state of each file of a pair; none of what is not there.
pub fn stamps(files: &TlsFiles) -> Vec<Option<Stamp>> {
    let paths = [Some(&files.certificate), Some(&files.key), files.client_ca.as_ref().map(|client_ca| &client_ca.file)];
    paths.into_iter().flatten().map(|path| stamp(path)).collect()
}

/// The state of a file; none if it is not there.
pub fn stamp(path: &Path) -> Option<Stamp> {
    fs::metadata(path).ok().map(|metadata| Stamp::of(&metadata))
}

impl Stamp {
    fn of(metadata: &fs::Metadata) -> Stamp {
        Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// When certificates are valid, by their files.
pub type Validities = BTreeMap<PathBuf, Validity>;

/// The state of the files that settings name and that are read before they are used: those of all pairs, of the
/// authorities of clients among them alone, and pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileStates {
    of_pairs: Vec<Option<Stamp>>,
    of_client_authorities: Vec<Option<Stamp>>,
    of_pages: Vec<Option<Stamp>>,
    validities: Validities,
}

impl FileStates {
    /// Those of the files that `settings` names. To be asked for before they are read, so that a later change is one.
    pub fn of(settings: &Settings) -> FileStates {
        let mut states = FileStates::default();
        for site in &settings.sites {
            if let Some(SiteTls::Files(files)) = &site.tls {
                states.of_pairs.extend(stamps(files));
                if !states.validities.contains_key(&files.certificate) {
                    let validity = validity_of(files).map(|validity| (files.certificate.clone(), validity));
                    states.validities.extend(validity);
                }
                states.of_client_authorities.extend(files.client_ca.as_ref().map(|client_ca| stamp(&client_ca.file)));
            }
            let authorities = site.gateways().filter_map(|gateway| gateway.tls.ca.as_ref());
            states.of_pairs.extend(authorities.map(|file| stamp(file)));
            let pages = error_pages::held(site).map(|path| error_pages::file_of(site, path));
            states.of_pages.extend(pages.map(|file| stamp(&file)));
        }
        states
    }

    /// Whether clients are judged as by `other`.
    pub fn judge_as(&self, other: &FileStates) -> bool {
        self.of_client_authorities == other.of_client_authorities
    }

    /// When the certificates in these files are valid.
    pub fn validities(&self) -> &Validities {
        &self.validities
    }

    /// A certificate that was valid `before` and is not now, at a time in seconds since 1970: it would take the place
    /// of a good one.
    pub fn worsens(&self, before: &Validities, now: i64) -> Option<PairError> {
        self.validities.iter().find_map(|(file, validity)| {
            let fault = validity.fault(now)?;
            let was_valid = before.get(file).is_some_and(|before| before.fault(now).is_none());
            was_valid.then(|| PairError { file: file.clone(), words: format!("the certificate {fault}") })
        })
    }
}

/// When the certificate in the files is valid, if they are a pair that can be served.
pub fn validity_of(files: &TlsFiles) -> Option<Validity> {
    load(files, &crypto::provider()).ok()?.validity
}

impl Validity {
    /// Why clients refuse a certificate at a time in seconds since 1970, as the end of a sentence.
    pub fn fault(self, now: i64) -> Option<String> {
        let days = |seconds: i64| lamna_policy::words::count(usize::try_from(seconds / DAY).unwrap_or(0), "day");
        match () {
            () if now < self.from => Some(format!("is not valid yet, for {} more", days(self.from - now + DAY - 1))),
            () if now > self.until => Some(format!("has expired {} ago", days(now - self.until))),
            () => None,
        }
    }

    /// How near its end is.
    pub fn term(self, now: i64) -> Term {
        let (left, third) = (self.until - now, (self.until - self.from) / 3);
        match left {
            ..0 => Term::Expired,
            0..DAY => Term::Day,
            _ if left >= third => Term::Far,
            _ if left < 7 * DAY => Term::Week,
            _ if left < 30 * DAY => Term::Month,
            _ => Term::Far,
        }
    }

    /// The doubt about its dates, if there is one, as the end of a sentence.
    pub fn doubt(self, now: i64) -> Option<String> {
        let soon = || (self.term(now) != Term::Far).then(|| format!("expires in {}", left(self.until - now)));
        self.fault(now).map(|fault| fault + ": clients refuse it").or_else(soon)
    }
}

/// Time that is left, in words.
fn left(seconds: i64) -> String {
    let (number, unit) = if seconds < DAY { (seconds / 3600, "hour") } else { (seconds / DAY, "day") };
    lamna_policy::words::count(usize::try_from(number).unwrap_or(0), unit)
}

/// Reads a pair.
///
/// # Errors
/// Why it cannot be used.
pub fn load(files: &TlsFiles, provider: &CryptoProvider) -> Result<Pair, PairError> {
    let pair = load_unjudged(files, provider)?;
    let wrong = |words: String| PairError { file: files.certificate.clone(), words };
    match pair.certified.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => Ok(pair),
        Err(rustls::Error::InconsistentKeys(_)) => {
            Err(wrong(format!("the certificate is of another key than {}", files.key.display())))
        }
        Err(error) => Err(wrong(format!("the certificate cannot be used: {error}"))),
    }
}

/// Reads a pair without asking whether the two belong together, and whether a client would take them: the certificate
/// of a challenge is for an authority that looks for something else in it.
///
/// # Errors
/// It cannot be read.
pub fn load_unjudged(files: &TlsFiles, provider: &CryptoProvider) -> Result<Pair, PairError> {
    let stamps = stamps(files);
    let wrong = |file: &Path, words: String| PairError { file: file.to_owned(), words };
    let certificates = chain(&files.certificate)?;
    let key = pem::key(&read(&files.key)?).map_err(|words| wrong(&files.key, words))?;
    let key = provider.key_provider.load_private_key(key).map_err(|error| {
        wrong(
            &files.key,
            format!(
                "the key cannot be used ({error}): expected ECDSA P-256 or P-384, Ed25519, or RSA of 2048 bits and more"
            ),
        )
    })?;
    let is_own = |one: &CertificateDer<'static>| CertifiedKey::new(vec![one.clone()], key.clone()).keys_match().is_ok();
    let certificates = pem::in_order(certificates, is_own);
    let certified = CertifiedKey::new(certificates, key);
    let clients = files.client_ca.as_ref().map(|client_ca| -> Result<Clients, PairError> {
        let authorities = chain(&client_ca.file)?;
        let mut digest = [0; 8];
        digest.copy_from_slice(&digest_of(&authorities)[..8]);
        let digest = u64::from_be_bytes(digest);
        Ok(Clients { roots: roots_of(&client_ca.file, authorities)?, may_lack: client_ca.is_optional, digest })
    });
    let clients = clients.transpose()?;
    if stamps != self::stamps(files) {
        return Err(wrong(&files.certificate, "the files change while they are read".to_owned()));
    }
    let validity = certified.cert.first().and_then(|first| der::validity(first));
    Ok(Pair { certified: Arc::new(certified), clients, validity, stamps })
}

fn read(path: &Path) -> Result<Vec<u8>, PairError> {
    let read = || -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)?;
        Ok(text)
    };
    let wrong = |words| PairError { file: path.to_owned(), words };
    let text = read().map_err(|error| wrong(format!("cannot be read: {error}")))?;
    match text.len() as u64 > FILE_BYTES_MAX {
        true => Err(wrong("is longer than any certificate or key".to_owned())),
        false => Ok(text),
    }
}

/// The certificates in the file at `path`, in their order.
///
/// # Errors
/// It cannot be read, or has none.
pub fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, PairError> {
    pem::certificates(&read(path)?).map_err(|words| PairError { file: path.to_owned(), words })
}

pub(super) fn roots(path: &Path) -> Result<Arc<RootCertStore>, PairError> {
    roots_of(path, chain(path)?)
}

fn roots_of(path: &Path, chain: Vec<CertificateDer<'static>>) -> Result<Arc<RootCertStore>, PairError> {
    let mut roots = RootCertStore::empty();
    for certificate in chain {
        let wrong =
            |error| PairError { file: path.to_owned(), words: format!("a certificate cannot be used: {error}") };
        roots.add(certificate).map_err(wrong)?;
    }
    Ok(Arc::new(roots))
}

/// A digest of certificates in their order.
fn digest_of(chain: &[CertificateDer<'_>]) -> [u8; 32] {
    let mut bytes = Vec::new();
    for certificate in chain {
        bytes.extend_from_slice(&(certificate.len() as u64).to_be_bytes());
        bytes.extend_from_slice(certificate);
    }
    crypto::sha256(&bytes)
}

impl Pair {
    /// A digest that tells the certificate and its chain from others.
    pub fn chain_digest(&self) -> [u8; 32] {
        digest_of(&self.certified.cert)
    }

    /// Whether the certificate names `host`, which may be a pattern as in `*.example.org`.
    pub fn covers(&self, host: &str) -> bool {
        covers(&self.certified.cert, host)
    }

    /// Warnings about the pair for `hosts` at a time, in words.
    pub fn warnings(&self, hosts: &[String], unix_seconds: i64) -> Vec<String> {
        let doubt = self.validity.and_then(|validity| validity.doubt(unix_seconds));
        let mut warnings: Vec<String> = doubt.into_iter().map(|doubt| format!("the certificate {doubt}")).collect();
        for host in hosts.iter().filter(|host| !self.covers(host)) {
            warnings.push(format!("the certificate does not name {host}: clients that ask for it will refuse it"));
        }
        warnings
    }
}

/// Whether the first certificate of `chain` names `host`.
pub fn covers(chain: &[CertificateDer<'_>], host: &str) -> bool {
    let name = match host.strip_prefix("*.") {
        Some(parent) => format!("any.{parent}"),
        None => host.trim_start_matches('[').trim_end_matches(']').to_owned(),
    };
    let Ok(name) = ServerName::try_from(name) else { return false };
    let Some(Ok(parsed)) = chain.first().map(ParsedCertificate::try_from) else { return false };
    verify_server_name(&parsed, &name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::provider;
    use crate::testing::{self, files_of};

    fn refused(files: &TlsFiles) -> String {
        load(files, &provider()).unwrap_err().to_string()
    }

    #[test]
    fn a_pair_covers_the_names_of_its_certificate() {
        let directory = tempfile::tempdir().unwrap();
        let pair = load(&files_of(directory.path(), &testing::pair("example.org")), &provider()).unwrap();
        assert!(pair.covers("example.org") && !pair.covers("other.example.org") && !pair.covers("192.0.2.1"));
        let wild = load(&files_of(directory.path(), &testing::pair("*.example.org")), &provider()).unwrap();
        assert!(wild.covers("a.example.org") && wild.covers("*.example.org") && !wild.covers("a.b.example.org"));
    }

    #[test]
    fn a_key_of_another_certificate_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let files = files_of(directory.path(), &testing::pair("example.org"));
        fs::write(&files.key, &testing::pair("example.org").key_pem).unwrap();
        assert!(refused(&files).contains("is of another key than"), "{}", refused(&files));
    }

    #[test]
    fn half_a_file_is_not_a_pair() {
        let directory = tempfile::tempdir().unwrap();
        let pair = testing::pair("example.org");
        let files = files_of(directory.path(), &pair);
        for length in [0, 20, pair.certificate_pem.len() / 2, pair.certificate_pem.len() - 10] {
            fs::write(&files.certificate, &pair.certificate_pem[..length]).unwrap();
            assert!(refused(&files).contains("certificate.pem: "), "{}", refused(&files));
        }
        fs::write(&files.certificate, &pair.certificate_pem).unwrap();
        for length in [0, 20, pair.key_pem.len() / 2] {
            fs::write(&files.key, &pair.key_pem[..length]).unwrap();
            assert!(refused(&files).contains("no private key"), "{}", refused(&files));
        }
    }

    #[test]
    fn what_is_no_pair_is_said_in_words_that_help() {
        let directory = tempfile::tempdir().unwrap();
        let files = files_of(directory.path(), &testing::pair("example.org"));
        fs::write(&files.key, "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n")
            .unwrap();
        assert!(refused(&files).contains("passphrase"));
        fs::remove_file(&files.key).unwrap();
        assert!(refused(&files).contains("cannot be read: No such file"));
    }

    #[test]
    fn the_end_of_a_certificate_is_near_at_30_7_and_1_days_and_for_short_lives_in_their_last_third() {
        let long = Validity { from: 0, until: 90 * DAY };
        let terms = |validity: Validity, left: &[i64]| -> Vec<Term> {
            left.iter().map(|left| validity.term(validity.until - left)).collect()
        };
        use Term::{Day, Expired, Far, Month, Week};
        let left = [31 * DAY, 30 * DAY - 1, 7 * DAY, 7 * DAY - 1, DAY, DAY - 1, 0, -1];
        assert_eq!(terms(long, &left), [Far, Month, Month, Week, Week, Day, Day, Expired]);
        let short = Validity { from: 0, until: 6 * DAY };
        assert_eq!(terms(short, &[5 * DAY, 2 * DAY - 1, DAY - 1, -1]), [Far, Week, Day, Expired]);
        assert!(Far < Month && Month < Week && Week < Day && Day < Expired);
    }

    #[test]
    fn dates_and_missing_names_are_warned_of() {
        let directory = tempfile::tempdir().unwrap();
        let pair = testing::pair_of("example.org", (2024, 1, 1), (2024, 3, 1));
        let pair = load(&files_of(directory.path(), &pair), &provider()).unwrap();
        let day = 86_400;
        let warnings = |unix_seconds| pair.warnings(&["example.org".to_owned()], unix_seconds).join("");
        let begin = 19_723 * day;
        assert!(warnings(begin - 1).contains("not valid yet"));
        assert_eq!(warnings(begin + 10 * day), "");
        assert_eq!(warnings(begin + 39 * day), "", "it has a third of its life");
        assert!(warnings(begin + 50 * day).contains("expires in 10 days"));
        assert!(warnings(begin + 60 * day - 7200).contains("expires in 2 hours"));
        assert!(warnings(begin + 70 * day).contains("expired 10 days ago"));
        let hosts = ["example.org".to_owned(), "*.example.org".to_owned()];
        assert!(pair.warnings(&hosts, begin + day).join("").contains("does not name *.example.org"));
    }
}
