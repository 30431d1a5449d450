//! The servers of `cargo xtask bench transfers` that are not ours, and the file that all of them
//! serve.

use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::super::scratch::{Scratch, fill};
use crate::tools::printed;

pub(super) const FILE_BYTES: u64 = 256 << 20;
pub(super) const SERVER_CORE: &str = "0";
const NGINX_TLS_PORT: u16 = 18_443;
const EVERYBODY_WRITES: u32 = 0o777;

/// A server, and whether it is asked over TLS.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Server {
    Vsftpd,
    VsftpdTls,
    Nginx,
    NginxTls,
    OwnFtp,
    OwnHttp,
    OwnHttpTls,
}

impl Server {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Vsftpd => "vsftpd",
            Self::VsftpdTls => "vsftpd (TLS)",
            Self::Nginx => "nginx",
            Self::NginxTls => "nginx (TLS)",
            Self::OwnFtp => "linerate (ftp, sendfile)",
            Self::OwnHttp => "linerate (http, sendfile)",
            Self::OwnHttpTls => "linerate (http, TLS)",
        }
    }

    pub(super) fn port(self) -> u16 {
        match self {
            Self::Vsftpd => 18_021,
            Self::VsftpdTls => 18_990,
            Self::Nginx => 18_080,
            Self::NginxTls => NGINX_TLS_PORT,
            Self::OwnFtp => 18_022,
            Self::OwnHttp => 18_081,
            Self::OwnHttpTls => 18_444,
        }
    }

    /// The workload of its client.
    pub(super) fn workload(self) -> &'static str {
        match self {
            Self::Vsftpd | Self::VsftpdTls | Self::OwnFtp => "ftp",
            Self::Nginx | Self::NginxTls | Self::OwnHttp | Self::OwnHttpTls => "http",
        }
    }

    pub(super) fn is_own(self) -> bool {
        matches!(self, Self::OwnFtp | Self::OwnHttp | Self::OwnHttpTls)
    }

    pub(super) fn is_secure(self) -> bool {
        matches!(self, Self::VsftpdTls | Self::NginxTls | Self::OwnHttpTls)
    }

    /// The one whose process it is: nginx serves both ways.
    fn over_tcp(self) -> Self {
        if self == Self::NginxTls { Self::Nginx } else { self }
    }

    pub(super) fn url(self, path: &str) -> String {
        let scheme = match (self.workload(), self.is_secure()) {
            ("http", true) => "https",
            // Explicit TLS (RFC 4217) has no scheme of its own.
            (workload, _) => workload,
        };
        format!("{scheme}://127.0.0.1:{}/{path}", self.port())
    }
}

/// The file, the servers' configurations, and the servers that are not ours; all gone when dropped.
pub(super) struct Ground {
    pub(super) folder: PathBuf,
    servers: Vec<(Server, Child)>,
    _scratch: Scratch,
}

impl Ground {
    pub(super) fn make() -> anyhow::Result<Self> {
        let scratch = Scratch::below(Path::new("/dev/shm"), "bench-transfers")?;
        let folder = scratch.path().to_owned();
        let mut ground = Self { folder, servers: Vec::new(), _scratch: scratch };
        let public = ground.folder.join("public");
        std::fs::create_dir(&public).context("make the servers' folder")?;
        fill(&public.join("file"), FILE_BYTES)?;
        // Foreign servers write as others than root.
        let uploads = public.join("in");
        std::fs::create_dir(&uploads).context("make the folder of uploads")?;
        let anybody = std::fs::Permissions::from_mode(EVERYBODY_WRITES);
        std::fs::set_permissions(&uploads, anybody).context("open the folder of uploads")?;
        ground.certify()?;
        for server in [Server::Vsftpd, Server::VsftpdTls, Server::Nginx] {
            ground.start(server)?;
        }
        ground.warm_up(&format!("https://127.0.0.1:{NGINX_TLS_PORT}/file"))?;
        Ok(ground)
    }

    /// A certificate that nobody vouches for, with its key in one file.
    fn certify(&self) -> anyhow::Result<()> {
        let key = self.folder.join("key.pem").display().to_string();
        let mut command = Command::new("openssl");
        command.args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "1",
        ]);
        command.args(["-subj", "/CN=127.0.0.1", "-keyout", &key, "-out", &key]);
        printed(&mut command).map(drop)
    }

    fn start(&mut self, server: Server) -> anyhow::Result<()> {
        let folder = self.folder.display().to_string();
        let (text, name) = match server {
            Server::Nginx => (nginx_conf(&folder), "nginx"),
            _ => (vsftpd_conf(&folder, server), "vsftpd"),
        };
        let file = self.folder.join(format!("{}.conf", server.port())).display().to_string();
        std::fs::write(&file, text).with_context(|| format!("write {file}"))?;
        let mut pinned = Command::new("taskset");
        pinned.args(["-c", SERVER_CORE, name]);
        match server {
            Server::Nginx => pinned.args(["-c", &file, "-p", &folder]),
            _ => pinned.arg(&file),
        };
        let child = pinned.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.servers.push((server, child.with_context(|| format!("start {name}"))?));
        await_port(server.port()).with_context(|| format!("wait for {name}"))?;
        self.warm_up(&server.url("file"))
    }

    /// The process of a server that is not ours.
    pub(super) fn process(&self, server: Server) -> Option<u32> {
        let is_it = |(one, _): &&(Server, Child)| one.port() == server.over_tcp().port();
        self.servers.iter().find(is_it).map(|(_, child)| child.id())
    }

    /// Fetches once, so that no figure holds the time a server takes to be ready: its port may be
    /// open long before.
    pub(super) fn warm_up(&self, url: &str) -> anyhow::Result<()> {
        let mut command = Command::new("curl");
        command.args(["-s", "-S", "-k", "-o", "/dev/null", url]);
        if url.starts_with(&Server::VsftpdTls.url("")) {
            command.arg("--ssl-reqd");
        }
        printed(&mut command).map(drop)
    }
}

fn vsftpd_conf(folder: &str, server: Server) -> String {
    let secure = format!(
        "ssl_enable=YES\nrsa_cert_file={folder}/key.pem\nssl_ciphers=HIGH\nallow_anon_ssl=YES\n\
        force_anon_logins_ssl=YES\n\
         force_anon_data_ssl=YES\n"
    );
    format!(
        "listen=YES\nlisten_address=127.0.0.1\nlisten_port={}\nanonymous_enable=YES\n\
        anon_root={folder}/public\nbackground=NO\n\
         seccomp_sandbox=NO\nsecure_chroot_dir={folder}/public\nno_anon_password=YES\n\
         write_enable=YES\n\
         anon_upload_enable=YES\nanon_other_write_enable=YES\n{}",
        server.port(),
        if server == Server::VsftpdTls { &secure } else { "" }
    )
}

fn nginx_conf(folder: &str) -> String {
    let port = Server::Nginx.port();
    format!(
        "daemon off;\nworker_processes 1;\npid {folder}/nginx.pid;\nerror_log /dev/null;\nuser \
            root;\nevents {{}}\nhttp {{ access_log off; sendfile on; tcp_nopush on; \
            keepalive_requests 100000; client_max_body_size 0; client_body_temp_path \
            {folder}/body; server {{ listen 127.0.0.1:{port}; listen 127.0.0.1:{NGINX_TLS_PORT} \
            ssl; ssl_certificate {folder}/key.pem; ssl_certificate_key {folder}/key.pem; root \
            {folder}/public; location /in/ {{ dav_methods PUT; }} }} }}\n"
    )
}

impl Drop for Ground {
    fn drop(&mut self) {
        for (_, server) in &mut self.servers {
            // SIGTERM, so that a master takes its workers with it.
            let _ = Command::new("kill").arg(server.id().to_string()).status();
            let _ = server.wait();
        }
    }
}

pub(super) fn await_port(port: u16) -> anyhow::Result<()> {
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        ensure!(began.elapsed() < Duration::from_secs(10), "nobody listens at port {port}");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
