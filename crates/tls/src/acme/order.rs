//! One conversation with a certificate authority: the account, an order with its challenges, and when a certificate is
//! to be renewed.
//!
//! Owns: the sequence of RFC 8555 7.1, over `instant-acme`, and words for what goes wrong. Waits for the authority in
//! the thread that calls: what `instant-acme` would wait for has been done when it is asked for (`http`), so its
//! futures need no runtime.

use std::fmt;
use std::fs;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeType, Error, Identifier, Key, NewOrder, Order,
    OrderStatus, Problem,
};
use lamna_config::acme::AcmeSettings;
use lamna_proto::base64;
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde::{Deserialize, Serialize};

use super::http::Https;
use crate::automatic::StateFiles;
use crate::der;

/// How a certificate authority finds out that a name leads here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// It asks for a file over plain HTTP, at port 80 (RFC 8555 8.3).
    Http,
    /// It begins a handshake, at port 443 (RFC 8737).
    TlsAlpn,
}

impl Challenge {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Challenge::Http => "http-01",
            Challenge::TlsAlpn => "tls-alpn-01",
        }
    }

    fn kind(self) -> ChallengeType {
        match self {
            Challenge::Http => ChallengeType::Http01,
            Challenge::TlsAlpn => ChallengeType::TlsAlpn01,
        }
    }
}

/// Why there is no certificate, in words for an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// A message about the failure.
    pub words: String,
    /// The change with which a retry at once may succeed.
    pub again: Again,
}

/// The change with which a retry at once may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// Nothing.
    Same,
    /// The authority does not know the account: another one is to be registered.
    WithAnotherAccount,
    /// The authority did not take the numbers of several requests in a row (RFC 8555 6.5).
    WithOtherNonces,
}

impl Failed {
    /// For good, as far as is known.
    pub fn of(words: impl Into<String>) -> Failed {
        Failed { words: words.into(), again: Again::Same }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.words)
    }
}

impl std::error::Error for Failed {}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        match &error {
            Error::Api(problem) => {
                let again = match kind(problem) {
                    "accountDoesNotExist" => Again::WithAnotherAccount,
                    "badNonce" => Again::WithOtherNonces,
                    _ => Again::Same,
                };
                Failed { words: words_of(problem), again }
            }
            // Where JSON was expected there was something else: a proxy's page, or a server that is no certificate
            // authority.
            Error::Json(_) => Failed::of("what answered is no certificate authority, or a newer one: no JSON of ACME"),
            other => Failed::of(other.to_string()),
        }
    }
}

/// The last part of a problem's type, as in `rateLimited`.
fn kind(problem: &Problem) -> &str {
    problem.r#type.as_deref().and_then(|kind| kind.rsplit(':').next()).unwrap_or_default()
}

/// The authority's problem report in words, with advice.
fn words_of(problem: &Problem) -> String {
    let detail = problem.detail.clone().unwrap_or_else(|| "it does not say why".to_owned());
    let details = problem.subproblems.iter().filter_map(|sub| sub.detail.clone());
    let said = [detail].into_iter().chain(details).collect::<Vec<_>>().join("; ");
    let hint = match kind(problem) {
        "connection" => {
            " (the certificate authority does not reach this server: ports 80 and 443 have to be open to the internet \
             and lead here)"
        }
        "dns" => " (the name has to have an address of this server in DNS)",
        "unauthorized" | "incorrectResponse" => {
            " (another server seems to answer for the name: DNS, or a proxy in front, has to lead here)"
        }
        "rejectedIdentifier" => " (the certificate authority issues nothing for this name)",
        "rateLimited" => {
            " (too many certificates or attempts lately; acme_directory can name the authority's staging server)"
        }
        "externalAccountRequired" => " (this certificate authority takes accounts of its customers only)",
        "caa" => " (a CAA record in DNS forbids it)",
        _ => "",
    };
    format!("{said}{hint}")
}

/// The result of a future that has nothing to wait for.
fn run<F: Future>(future: F) -> Result<F::Output, Failed> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Ok(output),
        Poll::Pending => Err(Failed::of("a defect: the ACME client waits for something that nobody does")),
    }
}

/// Where the account is, as it is kept.
#[derive(Debug, Serialize, Deserialize)]
struct Place {
    id: String,
    contact: Option<String>,
}

/// A certificate authority, and the account there.
pub struct Authority {
    account: Account,
}

impl fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Authority").field("account", &self.account.id()).finish()
    }
}

/// Forgets where the account is: it is registered again, with the same key.
pub fn forget_account(files: &StateFiles) {
    // There may be none.
    let _ = fs::remove_file(files.account());
}

impl Authority {
    /// Finds the account of `files`, or registers it. The caller agrees to the terms of service.
    ///
    /// # Errors
    /// The authority cannot be asked, or refuses.
    pub fn open(files: &StateFiles, settings: &AcmeSettings, https: &Https) -> Result<Authority, Failed> {
        let key = files.key().map_err(|error| Failed::of(error.to_string()))?;
        let der = || PrivatePkcs8KeyDer::from(key.serialize_der());
        let builder = Account::builder_with_http(Box::new(https.clone()));
        let directory = settings.directory.clone();
        let known = fs::read_to_string(files.account()).ok();
        let known: Option<Place> = known.and_then(|text| serde_json::from_str(&text).ok());
        let (account, contact) = match known {
            Some(Place { id, contact }) => (run(builder.from_parts(id, der(), directory))??, contact),
            None => {
                let pair = (Key::from_pkcs8_der(der())?, PrivateKeyDer::Pkcs8(der()));
                (run(builder.create_from_key(pair, directory))??.0, None)
            }
        };
        if contact != settings.contact {
            let contacts: Vec<String> = settings.contact.iter().map(|address| format!("mailto:{address}")).collect();
            let contacts: Vec<&str> = contacts.iter().map(String::as_str).collect();
            run(account.update_contacts(&contacts))??;
        }
        let place = Place { id: account.id().to_owned(), contact: settings.contact.clone() };
        let text = serde_json::to_string_pretty(&place).map_err(|error| Failed::of(error.to_string()))?;
        files.write_account(&text).map_err(|error| Failed::of(format!("the account cannot be kept: {error}")))?;
        Ok(Authority { account })
    }

    /// Has a certificate for `name` issued and installs it, in the place of `leaf` if there is one. Holding the lock of
    /// `name` is up to the caller.
    ///
    /// # Errors
    /// Why there is none.
    pub fn order(&self, job: &Job<'_>) -> Result<(), Failed> {
        let identifiers = [Identifier::Dns(job.name.to_owned())];
        let mut order = self.begin(job, &identifiers)?;
        let answered = self.answer(&mut order, job);
        let ready = answered.and_then(|()| wait(&mut order, OrderStatus::Ready));
        job.files.end_challenge(job.name);
        if let Err(failed) = ready {
            return Err(reason(&mut order).unwrap_or(failed));
        }
        let made = |error: rcgen::Error| Failed::of(format!("no request for a certificate can be made: {error}"));
        let key = KeyPair::generate().map_err(made)?;
        let mut parameters = CertificateParams::new([job.name.to_owned()]).map_err(made)?;
        parameters.distinguished_name = DistinguishedName::new();
        let request = parameters.serialize_request(&key).map_err(made)?;
        run(order.finalize_csr(request.der()))??;
        wait(&mut order, OrderStatus::Valid)?;
        let chain =
            run(order.certificate())??.ok_or_else(|| Failed::of("the certificate authority gives no certificate"))?;
        job.files.install(job.name, &key.serialize_pem(), &chain).map_err(|error| Failed::of(error.to_string()))
    }

    /// Begins an order. One that names the certificate that it replaces may be refused for that alone, if that was
    /// replaced before.
    fn begin(&self, job: &Job<'_>, identifiers: &[Identifier]) -> Result<Order, Failed> {
        let order = || {
            let order = NewOrder::new(identifiers);
            job.profile.map_or_else(|| NewOrder::new(identifiers), |profile| order.profile(profile))
        };
        if let Some(replaced) = job.leaf.and_then(identifier) {
            match run(self.account.new_order(&order().replaces(replaced)))? {
                Ok(order) => return Ok(order),
                Err(Error::Unsupported(_) | Error::Other(_)) => {}
                Err(Error::Api(problem)) if matches!(kind(&problem), "malformed" | "alreadyReplaced" | "conflict") => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(run(self.account.new_order(&order()))??)
    }

    /// Answers the challenges of an order.
    fn answer(&self, order: &mut Order, job: &Job<'_>) -> Result<(), Failed> {
        let mut authorizations = order.authorizations();
        while let Some(authorization) = run(authorizations.next())? {
            let mut authorization = authorization?;
            match authorization.status {
                AuthorizationStatus::Valid => continue,
                AuthorizationStatus::Pending => {}
                other => return Err(Failed::of(format!("the authorization for {} is {other:?}", job.name))),
            }
            let name = job.challenge.name();
            let mut challenge = authorization
                .challenge(job.challenge.kind())
                .ok_or_else(|| Failed::of(format!("the certificate authority offers no {name} challenge")))?;
            if job.challenge == Challenge::TlsAlpn {
                let digest = challenge.key_authorization().digest();
                let digest = digest.as_ref().try_into().map_err(|_| Failed::of("a digest of another length"))?;
                let begun = job.files.begin_challenge(job.name, digest);
                begun.map_err(|error| Failed::of(error.to_string()))?;
            }
            run(challenge.set_ready())??;
        }
        Ok(())
    }

    /// When the authority wants to have the certificate `leaf` renewed; none if it does not say such things.
    ///
    /// # Errors
    /// It cannot be asked, or has no answer.
    pub fn renewal(&self, leaf: &[u8]) -> Result<Option<Suggestion>, Failed> {
        let Some(identifier) = identifier(leaf) else { return Ok(None) };
        match run(self.account.renewal_info(&identifier))? {
            Err(Error::Unsupported(_)) => Ok(None),
            Err(error) => Err(error.into()),
            Ok((info, again)) => {
                let [start, end] = [info.suggested_window.start, info.suggested_window.end];
                let seconds = |at: i64| u64::try_from(at).unwrap_or(0);
                let window = (seconds(start.unix_timestamp()), seconds(end.unix_timestamp()));
                Ok(Some(Suggestion { window, ask_again_after: again.as_secs() }))
            }
        }
    }
}

/// When an authority wants to have a certificate renewed (RFC 9773 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// From when to when, in seconds since 1970.
    pub window: (u64, u64),
    /// Seconds after which it is to be asked again.
    pub ask_again_after: u64,
}

/// A certificate to order.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The name of the certificate.
    pub name: &'a str,
    /// How that is proven.
    pub challenge: Challenge,
    /// The profile of the authority.
    pub profile: Option<&'a str>,
    /// The certificate that is replaced, in DER.
    pub leaf: Option<&'a [u8]>,
    /// Where to.
    pub files: &'a StateFiles,
}

fn identifier(leaf: &[u8]) -> Option<CertificateIdentifier<'static>> {
    let (key, serial) = der::identifier(leaf)?;
    Some(CertificateIdentifier {
        authority_key_identifier: base64::encode_url_safe(key).into(),
        serial: base64::encode_url_safe(serial).into(),
    })
}

/// How long an order may take to become what it is to be, and how often it is looked at.
const ORDER_TIME_MAX: Duration = Duration::from_secs(180);
const POLL_FIRST: Duration = Duration::from_millis(250);
const POLL_MAX: Duration = Duration::from_secs(10);

/// Waits until an order is `wanted` or further.
fn wait(order: &mut Order, wanted: OrderStatus) -> Result<(), Failed> {
    let (end, mut pause) = (Instant::now() + ORDER_TIME_MAX, POLL_FIRST);
    loop {
        let state = run(order.refresh())??;
        match state.status {
            OrderStatus::Valid => return Ok(()),
            status if status == wanted => return Ok(()),
            OrderStatus::Invalid => {
                let said = state.error.as_ref().map(words_of);
                return Err(Failed::of(said.unwrap_or_else(|| "the certificate authority has refused it".to_owned())));
            }
            OrderStatus::Pending | OrderStatus::Ready | OrderStatus::Processing => {}
        }
        if Instant::now() > end {
            return Err(Failed::of("the certificate authority did not come to a decision within three minutes"));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(POLL_MAX);
    }
}

/// The authority's reason why the challenge has failed.
fn reason(order: &mut Order) -> Option<Failed> {
    let mut authorizations = order.authorizations();
    while let Ok(Some(Ok(mut authorization))) = run(authorizations.next()) {
        if authorization.status == AuthorizationStatus::Pending {
            // What was known of it is of before the challenge.
            let _ = run(authorization.refresh());
        }
        let failed = authorization.challenges.iter().find_map(|challenge| {
            Some(Failed::of(format!("{}: {}", name_of(&challenge.r#type), words_of(challenge.error.as_ref()?))))
        });
        if failed.is_some() {
            return failed;
        }
    }
    None
}

fn name_of(kind: &ChallengeType) -> &'static str {
    match kind {
        ChallengeType::Http01 => "http-01",
        ChallengeType::TlsAlpn01 => "tls-alpn-01",
        _ => "its challenge",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_authority_says_is_said_with_what_to_do() {
        let text = r#"{"type":"urn:ietf:params:acme:error:connection","detail":"Timeout during connect","status":400}"#;
        let failed = Failed::from(Error::Api(serde_json::from_str(text).unwrap()));
        assert!(
            failed.words.starts_with("Timeout during connect (the certificate authority does not reach"),
            "{failed}"
        );
        assert_eq!(failed.again, Again::Same);
        let text = r#"{"type":"urn:ietf:params:acme:error:accountDoesNotExist","detail":"unknown"}"#;
        let failed = Failed::from(Error::Api(serde_json::from_str(text).unwrap()));
        assert_eq!(failed.again, Again::WithAnotherAccount);
    }

    #[test]
    fn a_future_that_would_wait_is_an_error_and_no_hang() {
        assert_eq!(run(std::future::ready(7)), Ok(7));
        assert!(run(std::future::pending::<()>()).is_err());
    }
}
