//! Servers that are not linerate's, in `b`: nginx and vsftpd with a log of what they sent.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::ground::{End, Family, Ground};

pub(in crate::bench) const FILE_BYTES: u64 = 100 << 10;
/// For curl: long enough that its slow start does not show.
pub(in crate::bench) const LARGE_BYTES: u64 = 8 << 20;
pub(in crate::bench) const PORT: u16 = 8080;
const STARTING: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::bench) enum Server {
    Nginx,
    Vsftpd,
}

/// A server in `b` with a log; it ends when dropped.
pub(in crate::bench) struct Serving {
    child: Child,
    log: PathBuf,
    server: Server,
}

impl Serving {
    pub(in crate::bench) fn start(ground: &Ground, server: Server) -> anyhow::Result<Self> {
        let public = ground.folder.join("public");
        std::fs::create_dir_all(&public).context("make the servers' folder")?;
        for (name, n_bytes) in [("file", FILE_BYTES), ("large", LARGE_BYTES)] {
            std::fs::write(public.join(name), vec![0x5a; n_bytes as usize])
                .context("write a file to serve")?;
        }
        let (log, configuration) =
            (ground.folder.join("files.log"), ground.folder.join("server.conf"));
        // Left by the case before, if any.
        let _ = std::fs::remove_file(&log);
        let (folder, public, path) = (ground.folder.display(), public.display(), log.display());
        let address = Ground::address(Family::V4, End::B);
        let text = match server {
            Server::Nginx => format!(
                "daemon off;\nmaster_process off;\nworker_processes 1;\npid \
                    {folder}/nginx.pid;\nerror_log /dev/null;\nevents {{}}\n\
                 http {{ log_format done '$request_completion $body_bytes_sent'; access_log {path} \
                 done; keepalive_requests 100000;\n\
                 client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; \
                 fastcgi_temp_path {folder}/fastcgi;\n\
                 uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;\n\
                 server {{ listen {address}:{PORT}; root {public}; }} }}\n"
            ),
            Server::Vsftpd => format!(
                "listen=YES\nlisten_address={address}\nlisten_port={PORT}\nanonymous_enable=YES\n\
                anon_root={public}\nbackground=NO\n\
                 seccomp_sandbox=NO\nsecure_chroot_dir={public}\nno_anon_password=YES\n\
                 xferlog_enable=YES\nxferlog_std_format=YES\n\
                 xferlog_file={path}\n"
            ),
        };
        std::fs::write(&configuration, text).context("write the server's configuration")?;
        let configuration = configuration.display().to_string();
        let mut command = match server {
            Server::Nginx => ground.command(End::B, "nginx"),
            Server::Vsftpd => ground.command(End::B, "vsftpd"),
        };
        match server {
            Server::Nginx => command.args(["-c", &configuration]),
            Server::Vsftpd => command.arg(&configuration),
        };
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start the server")?;
        let serving = Self { child, log, server };
        let began = Instant::now();
        while !ground.at(End::B, "ss -Hltn")?.contains(&format!(":{PORT} ")) {
            ensure!(began.elapsed() < STARTING, "{server:?} does not listen at port {PORT}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(serving)
    }

    pub(in crate::bench) fn url(&self, file: &str) -> String {
        let scheme = if self.server == Server::Nginx { "http" } else { "ftp" };
        format!("{scheme}://{}:{PORT}/{file}", Ground::address(Family::V4, End::B))
    }

    /// Files of [`FILE_BYTES`] that the log calls complete.
    pub(in crate::bench) fn completed(&self) -> anyhow::Result<usize> {
        // A session writes its last line as it ends.
        std::thread::sleep(Duration::from_millis(100));
        let text = std::fs::read_to_string(&self.log)
            .with_context(|| format!("read {}", self.log.display()))?;
        Ok(completed(&text, self.server))
    }
}

/// nginx: `OK 102400`; vsftpd: the ninth word of a line of wu-ftpd's log is the size, and the last
/// is `c` (xferlog(5)).
fn completed(log: &str, server: Server) -> usize {
    const SIZE: usize = 7;
    let size = FILE_BYTES.to_string();
    log.lines()
        .filter(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            match server {
                Server::Nginx => words == ["OK", size.as_str()],
                Server::Vsftpd => {
                    words.get(SIZE) == Some(&size.as_str()) && words.last() == Some(&"c")
                }
            }
        })
        .count()
}

impl Drop for Serving {
    fn drop(&mut self) {
        // SIGTERM, so that sessions end too.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_files_are_counted_in_logs() {
        assert_eq!(completed("OK 102400\n 70000\nOK 102400\nOK 146\n", Server::Nginx), 2);
        let log = "Sun Nov 22 14:40:00 2026 1 10.98.0.1 102400 /file b _ o a ? ftp 0 * c\n\
                   Sun Nov 22 14:40:00 2026 1 10.98.0.1 102400 /file b _ o a ? ftp 0 * i\n";
        assert_eq!(completed(log, Server::Vsftpd), 1);
    }
}
