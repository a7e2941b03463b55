//! Certificates and kubeconfigs of one run. The keys live as long as the run folder.

use std::fs;
use std::path::Path;

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde_json::json;

use super::network::{NODE, SERVICE_API};
use super::parts::NODE_NAME;

/// A certificate authority with its own certificate.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    fn new(name: &str) -> Result<Self> {
        let mut params = named(name, None, &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self {
            issuer: Issuer::new(params, key),
            certificate,
        })
    }

    fn issue(&self, name: &str, group: Option<&str>, addresses: &[&str]) -> Result<Identity> {
        let mut params = named(name, group, addresses)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Identity {
            certificate,
            key: key.serialize_pem(),
        })
    }
}

/// A certificate and its key.
struct Identity {
    certificate: String,
    key: String,
}

fn named(name: &str, group: Option<&str>, addresses: &[&str]) -> Result<CertificateParams> {
    let addresses: Vec<String> = addresses
        .iter()
        .map(|&address| address.to_owned())
        .collect();
    let mut params = CertificateParams::new(addresses)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    if let Some(group) = group {
        params
            .distinguished_name
            .push(DnType::OrganizationName, group);
    }
    Ok(params)
}

/// Who talks to the API server, by file name, user and group.
const CLIENTS: [(&str, &str, Option<&str>); 6] = [
    ("admin", "admin", Some("system:masters")),
    ("kubelet", "system:node:node", Some("system:nodes")),
    ("controller-manager", "system:kube-controller-manager", None),
    ("scheduler", "system:kube-scheduler", None),
    ("proxy", "system:kube-proxy", None),
    ("dns", "dns", None),
];

/// Writes everything into `folder/pki` and the kubeconfigs into `folder`.
pub(super) fn write(folder: &Path) -> Result<()> {
    let pki = folder.join("pki");
    let cluster = Authority::new("cluster")?;
    let front = Authority::new("front-proxy")?;
    fs::write(pki.join("ca.crt"), &cluster.certificate)?;
    fs::write(pki.join("ca.key"), cluster.issuer.key().serialize_pem())?;
    fs::write(pki.join("front-proxy-ca.crt"), &front.certificate)?;

    let names = [
        "kubernetes.default.svc",
        "kubernetes.default",
        NODE,
        SERVICE_API,
        "127.0.0.1",
    ];
    save(
        &pki,
        "apiserver",
        &cluster.issue("kube-apiserver", None, &names)?,
    )?;
    save(
        &pki,
        "kubelet",
        &cluster.issue(NODE_NAME, None, &[NODE, NODE_NAME])?,
    )?;
    save(
        &pki,
        "apiserver-kubelet",
        &cluster.issue("apiserver-kubelet", Some("system:masters"), &[])?,
    )?;
    save(
        &pki,
        "front-proxy",
        &front.issue("front-proxy-client", None, &[])?,
    )?;

    let accounts = KeyPair::generate()?;
    fs::write(pki.join("accounts.key"), accounts.serialize_pem())?;
    fs::write(pki.join("accounts.pub"), accounts.public_key_pem())?;

    for (file, user, group) in CLIENTS {
        let identity = cluster.issue(user, group, &[])?;
        let text = kubeconfig(&cluster.certificate, user, &identity);
        fs::write(folder.join(format!("{file}.kubeconfig")), text)?;
    }
    Ok(())
}

fn save(pki: &Path, name: &str, identity: &Identity) -> Result<()> {
    fs::write(pki.join(format!("{name}.crt")), &identity.certificate)?;
    fs::write(pki.join(format!("{name}.key")), &identity.key)?;
    Ok(())
}

/// JSON is YAML as well.
fn kubeconfig(authority: &str, user: &str, identity: &Identity) -> String {
    let cluster = json!({
        "server": format!("https://{NODE}:6443"),
        "certificate-authority-data": STANDARD.encode(authority),
    });
    let credentials = json!({
        "client-certificate-data": STANDARD.encode(&identity.certificate),
        "client-key-data": STANDARD.encode(&identity.key),
    });
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "refrain", "cluster": cluster }],
        "users": [{ "name": user, "user": credentials }],
        "contexts": [{ "name": "refrain", "context": { "cluster": "refrain", "user": user } }],
        "current-context": "refrain",
    })
    .to_string()
}
