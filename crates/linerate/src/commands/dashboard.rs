//! `linerate dashboard`: web pages over a folder of ledgers.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use clap::Args;
use linerate_agent::addresses::{reachable, resolve_listen};
use linerate_agent::keys;
use linerate_control::pairing::Token;
use linerate_control::web_server_config;
use linerate_dashboard::Access;
use serde_json::json;

use crate::args::Global;
use crate::exit::{Exit, Failure, Outcome};

/// Port of the pages, beside those of agents and offers.
const PORT: u16 = linerate_model::AGENT_PORT + 2;

#[derive(Debug, Args)]
pub(crate) struct DashboardArgs {
    /// Folder of the ledgers; folders in it are searched, too
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Address to listen on [default: 127.0.0.1:4779]. Other than loopback, the pages need TLS and
    /// the token that is printed at the start
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Folder of the keys, whose certificate is shown to browsers
    #[arg(long, env = "LINERATE_KEYS")]
    keys: Option<PathBuf>,
}

/// Prints the address of the pages and serves them until the process is ended.
pub(crate) fn run(args: &DashboardArgs, global: Global) -> Outcome {
    let address = match &args.listen {
        Some(text) => resolve_listen(text, PORT)?,
        None => SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)),
    };
    let failed = |error: std::io::Error| Failure::missing(format!("listen on {address}: {error}"));
    // A folder that is not there is found before anything listens.
    std::fs::read_dir(&args.folder).map_err(|error| wrong_folder(&args.folder, &error))?;
    let listener = TcpListener::bind(address).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let (access, urls, key) = if address.ip().is_loopback() {
        (Access::Loopback, vec![format!("http://{address}/")], None)
    } else {
        let store = keys::open(args.keys.clone())?;
        let token = Token::random().to_string();
        let at = reachable(address).into_iter();
        let urls = at.map(|host| format!("https://{host}/?token={token}")).collect();
        let names = vec![keys::own_name()];
        let access = Access::Token { token, tls: web_server_config(&store)?, names };
        (access, urls, Some(store.fingerprint().to_string()))
    };
    if global.json {
        println!("{}", json!({ "addresses": urls, "public_key": key }));
    } else {
        urls.iter().for_each(|url| println!("{url}"));
        if let Some(key) = key.filter(|_| !global.quiet) {
            eprintln!("The browser warns of a certificate that nobody signed. Its public key has");
            eprintln!("the SHA-256 fingerprint {key}");
        }
    }
    linerate_dashboard::serve(&args.folder, listener, access)
        .map_err(|error| Failure::missing(format!("serve {address}: {error}")))?;
    Ok(Exit::Done)
}

fn wrong_folder(folder: &Path, error: &std::io::Error) -> Failure {
    Failure::wrong(format!("read folder {}: {error}", folder.display()))
}
