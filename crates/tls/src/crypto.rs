//! The cryptography that TLS is made of, in one place: which provider, which protocol versions, cipher suites and
//! groups.
//!
//! Owns: the choice. `ring` builds in seconds and is the default. With the feature `aws-lc-rs` the provider is AWS-LC,
//! which also offers the post-quantum key exchange X25519MLKEM768, and offers it first. Both have the same interface
//! for what the record layer and the tickets need, so nothing else depends on the choice.

use std::sync::Arc;

use rustls::CipherSuite;
use rustls::crypto::CryptoProvider;

#[cfg(feature = "aws-lc-rs")]
pub(super) use aws_lc_rs::{aead, digest, hmac, rand};
#[cfg(not(feature = "aws-lc-rs"))]
pub(super) use ring::{aead, digest, hmac, rand};

/// The provider of every handshake of this process.
///
/// AES-128 comes before AES-256: 128 bits are enough, and what goes with it is SHA-256, for which processors have
/// instructions. Where they have none for SHA-512, SHA-384 took a sixth of a handshake.
pub fn provider() -> Arc<CryptoProvider> {
    #[cfg(feature = "aws-lc-rs")]
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    #[cfg(not(feature = "aws-lc-rs"))]
    let mut provider = rustls::crypto::ring::default_provider();
    // TLS 1.3 first, and certificates of ECDSA before those of RSA, as they are.
    provider.cipher_suites.sort_by_key(|suite| rank(suite.suite()));
    Arc::new(provider)
}

/// Among suites of a version and kind of certificate.
fn rank(suite: CipherSuite) -> (u8, u8) {
    use CipherSuite::*;
    match suite {
        TLS13_AES_128_GCM_SHA256 => (0, 0),
        TLS13_AES_256_GCM_SHA384 => (0, 1),
        TLS13_CHACHA20_POLY1305_SHA256 => (0, 2),
        TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => (1, 0),
        TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => (1, 1),
        TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => (1, 2),
        TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => (2, 0),
        TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => (2, 1),
        _ => (2, 2),
    }
}

/// The offer to clients: protocol versions, cipher suites and groups in order of preference.
pub fn offered() -> Vec<(&'static str, Vec<String>)> {
    let provider = provider();
    let suites = provider.cipher_suites.iter().map(|suite| format!("{:?}", suite.suite())).collect();
    let groups = provider.kx_groups.iter().map(|group| format!("{:?}", group.name())).collect();
    let versions = rustls::ALL_VERSIONS.iter().map(|version| format!("{:?}", version.version)).collect();
    vec![("versions", versions), ("cipher suites", suites), ("groups", groups)]
}

/// The digest of `bytes` (FIPS 180-4).
pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    digest.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    digest
}

/// Fills `bytes` with random ones.
///
/// # Errors
/// The kernel gives none.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<(), RandomError> {
    use rand::SecureRandom;
    rand::SystemRandom::new().fill(bytes).map_err(|_| RandomError)
}

/// The kernel has no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomError;

impl std::fmt::Display for RandomError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the kernel gives no random bytes")
    }
}

impl std::error::Error for RandomError {}
