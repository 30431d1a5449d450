//! TLS between ends that know each other's public keys. Nothing in a certificate is trusted except
//! its key. The handshake's signature proves that the other end owns the private key (RFC 8446
//! clause 4.4.3), and it is verified as usual.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// Returns the cryptography provider. It is named explicitly: if two are compiled in, rustls does
/// not choose one.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Returns the public key in `certificate`: SubjectPublicKeyInfo, DER.
///
/// # Errors
/// If it is not a certificate.
pub fn key_of(certificate: &CertificateDer<'_>) -> Result<Vec<u8>, Error> {
    Ok(ParsedCertificate::try_from(certificate)?.subject_public_key_info().to_vec())
}

/// Verifier that accepts the other end, client or server, by its public key alone.
pub struct PinnedKeys<F> {
    is_known: F,
    provider: Arc<CryptoProvider>,
}

impl<F: Fn(&[u8]) -> bool> PinnedKeys<F> {
    /// Accepts keys (SubjectPublicKeyInfo, DER) for which `is_known` returns true.
    pub fn new(is_known: F) -> Self {
        Self { is_known, provider: provider() }
    }

    fn check(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        // Neither names nor dates are checked: the pairing has exchanged keys, and a key has no
        // name.
        let known = (self.is_known)(&key_of(certificate)?);
        if known { Ok(()) } else { Err(CertificateError::ApplicationVerificationFailure.into()) }
    }
}

impl<F> fmt::Debug for PinnedKeys<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PinnedKeys")
    }
}

impl<F: Fn(&[u8]) -> bool + Send + Sync> ServerCertVerifier for PinnedKeys<F> {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl<F: Fn(&[u8]) -> bool + Send + Sync> ClientCertVerifier for PinnedKeys<F> {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        ServerCertVerifier::verify_tls12_signature(self, message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        ServerCertVerifier::verify_tls13_signature(self, message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ServerCertVerifier::supported_verify_schemes(self)
    }
}
