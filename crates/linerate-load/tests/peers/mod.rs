//! Foreign file servers, each started for one test at its own loopback address, in its own folder,
//! and stopped with the test.

use std::fs::Permissions;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use tempfile::TempDir;

use crate::ground::skip;

/// Time within which a server must listen, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// Period with which a load repeats its contents in longer files; the seed is that of
/// [`super::shared::setup`].
const PERIOD: usize = 4 << 20;
const SEED: u64 = 1;
const EVERYBODY_WRITES: u32 = 0o777;
const EVERYBODY_READS: u32 = 0o755;
/// Ports at the peer's own address, which nobody else uses: [`own_address`].
const PORT: u16 = 2121;
const SECURE_PORT: u16 = 2443;

/// Running file server. Files to fetch are in `public`; files that are sent to it go to
/// `public/in`.
pub(crate) struct Peer {
    child: Child,
    folder: TempDir,
    /// Its address.
    pub(crate) at: SocketAddrV4,
}

/// Returns the first bytes of any file that a load sends.
pub(crate) fn contents(bytes: usize) -> Vec<u8> {
    assert!(bytes <= PERIOD);
    let mut contents = vec![0; PERIOD];
    Xoshiro256PlusPlus::seed_from_u64(SEED).fill_bytes(&mut contents);
    contents.truncate(bytes);
    contents
}

/// Returns `Some` if `command` can be started; otherwise prints that the test is skipped.
pub(crate) fn installed(command: &str) -> Option<()> {
    let output = Command::new(command).arg("--version").stdin(Stdio::null()).output();
    output.map_or_else(|_| skip(format_args!("{command} is not installed")), |_| Some(()))
}

/// Returns a loopback address (RFC 1122 clause 3.2.1.3) that no other peer of this machine uses
/// now. A port in use there is in use by the peer itself.
fn own_address() -> Ipv4Addr {
    static PEERS: AtomicU32 = AtomicU32::new(0);
    let peer = PEERS.fetch_add(1, Ordering::Relaxed) % (1 << 6);
    // 127.64.0.0/10: 16 bits of the process, 6 bits of the peer.
    let process = std::process::id() % (1 << 16);
    Ipv4Addr::from_bits(Ipv4Addr::new(127, 64, 0, 0).to_bits() | process << 6 | peer)
}

fn ground(bytes: usize) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let public = folder.path().join("public");
    std::fs::create_dir_all(public.join("in")).expect("a folder");
    std::fs::write(public.join("file"), contents(bytes)).expect("it is writable");
    for (path, mode) in [
        (folder.path(), EVERYBODY_READS),
        (&public, EVERYBODY_READS),
        (&public.join("in"), EVERYBODY_WRITES),
    ] {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
    }
    folder
}

impl Peer {
    fn start(command: &str, arguments: &[&str], folder: TempDir, at: SocketAddrV4) -> Option<Self> {
        let error = std::fs::File::create(folder.path().join("error")).expect("it is writable");
        let child = Command::new(command)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(error.try_clone().expect("a second handle"))
            .stderr(error)
            .spawn();
        let child = match child {
            Ok(child) => child,
            Err(error) => return skip(format_args!("start {command}: {error}")),
        };
        let mut peer = Self { child, folder, at };
        let began = Instant::now();
        while TcpStream::connect(at).is_err() {
            let ended = peer.child.try_wait().expect("it is ours");
            assert!(
                ended.is_none() && began.elapsed() < PATIENCE,
                "{command}: {ended:?} {}",
                peer.text("error")
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(peer)
    }

    /// Starts vsftpd for anonymous users, with a file of this size; `None`, with a message, if it
    /// is missing. Needs root.
    pub(crate) fn vsftpd(bytes: usize) -> Option<Self> {
        Self::vsftpd_with(bytes, "")
    }

    /// Does the same over TLS only, with all strict options; its certificate is in `certificate`.
    /// `more` is appended to its configuration, in which `{key}` is replaced by a file with
    /// certificate and key.
    pub(crate) fn vsftpd_over_tls(bytes: usize, more: &str) -> Option<Self> {
        let strict = "ssl_enable=YES\nrsa_cert_file={key}\nssl_ciphers=HIGH\n\
                      allow_anon_ssl=YES\nforce_anon_logins_ssl=YES\nforce_anon_data_ssl=YES\n\
                      require_ssl_reuse=YES\nstrict_ssl_read_eof=YES\n\
                      strict_ssl_write_shutdown=YES\n";
        Self::vsftpd_with(bytes, &format!("{strict}{more}"))
    }

    /// Does the same with `more` appended to its configuration.
    pub(crate) fn vsftpd_with(bytes: usize, more: &str) -> Option<Self> {
        if !is_root() {
            return skip("vsftpd needs root");
        }
        let (folder, at) = (ground(bytes), SocketAddrV4::new(own_address(), PORT));
        let (root, log) = (folder.path().join("public"), folder.path().join("log"));
        let own = rcgen::generate_simple_self_signed([at.ip().to_string()]).expect("a certificate");
        let both = format!("{}{}", own.cert.pem(), own.signing_key.serialize_pem());
        for (name, pem) in [("certificate", own.cert.pem()), ("key", both)] {
            std::fs::write(folder.path().join(name), pem).expect("it is writable");
        }
        // Its sandbox knows only the system calls of older C libraries.
        let text = format!(
            "listen=YES\nlisten_address={}\nlisten_port={PORT}\nbackground=NO\n\
             seccomp_sandbox=NO\nanonymous_enable=YES\nno_anon_password=YES\nanon_root={root}\n\
             secure_chroot_dir={root}\nwrite_enable=YES\nanon_upload_enable=YES\n\
             anon_other_write_enable=YES\nanon_umask=022\nxferlog_enable=YES\n\
             vsftpd_log_file={log}\n{more}",
            at.ip(),
            root = root.display(),
            log = log.display(),
            more = more.replace("{key}", &folder.path().join("key").display().to_string())
        );
        let configuration = folder.path().join("vsftpd.conf");
        std::fs::write(&configuration, text).expect("it is writable");
        Self::start("vsftpd", &[&configuration.display().to_string()], folder, at)
    }

    /// Starts nginx with a file of this size, which accepts uploads into `in`, with and without
    /// TLS; its certificate is in `certificate`. `None`, with a message, if it is missing.
    pub(crate) fn nginx(bytes: usize) -> Option<Self> {
        let (folder, at) = (ground(bytes), SocketAddrV4::new(own_address(), PORT));
        let own = rcgen::generate_simple_self_signed([at.ip().to_string()]).expect("a certificate");
        for (name, pem) in
            [("certificate", own.cert.pem()), ("key", own.signing_key.serialize_pem())]
        {
            std::fs::write(folder.path().join(name), pem).expect("it is writable");
        }
        let text = format!(
            "daemon off;\nworker_processes 1;\npid {0}/pid;\nerror_log {0}/error;\n{1}events \
                {{}}\nhttp {{\n\
             log_format plain '$request_method $status $request_length $body_bytes_sent \
             $connection $ssl_protocol.';\n\
             access_log {0}/log plain;\nclient_body_temp_path {0}/body;\nproxy_temp_path {0}/t1;\n\
             fastcgi_temp_path {0}/t2;\nuwsgi_temp_path {0}/t3;\nscgi_temp_path {0}/t4;\nsendfile \
             on;\n\
             client_max_body_size 0;\nkeepalive_requests 100000;\nserver {{ listen {at}; \
             listen {2}:{SECURE_PORT} ssl; ssl_certificate {0}/certificate; ssl_certificate_key \
             {0}/key; ssl_protocols TLSv1.2 TLSv1.3; \
             root {0}/public; location /in/ {{ dav_methods PUT; }} \
             location /chunked/ {{ alias {0}/public/; ssi on; ssi_types *; }} }}\n}}\n",
            folder.path().display(),
            if is_root() { "user root;\n" } else { "" },
            at.ip(),
        );
        let configuration = folder.path().join("nginx.conf");
        std::fs::write(&configuration, text).expect("it is writable");
        let (configuration, prefix) =
            (configuration.display().to_string(), folder.path().display().to_string());
        Self::start("nginx", &["-c", &configuration, "-p", &prefix], folder, at)
    }

    /// Returns nginx's address for TLS.
    pub(crate) fn secure(&self) -> SocketAddrV4 {
        SocketAddrV4::new(*self.at.ip(), SECURE_PORT)
    }

    /// Returns the contents of a file in its folder.
    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.folder.path().join(name)).unwrap_or_default())
            .into_owned()
    }

    /// Returns the path of `name` in its folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        Path::new(self.folder.path()).join(name)
    }

    /// Returns the number of matching log lines, as soon as there are `least` or after it had time
    /// to write them.
    pub(crate) fn logged(&self, least: u64, is_it: impl Fn(&str) -> bool) -> u64 {
        let began = Instant::now();
        loop {
            let n = self.text("log").lines().filter(|line| is_it(line)).count() as u64;
            if n >= least || began.elapsed() > PATIENCE {
                return n;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

impl Drop for Peer {
    fn drop(&mut self) {
        // SIGTERM, so that a master process also stops its workers.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}
