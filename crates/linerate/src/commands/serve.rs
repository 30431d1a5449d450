//! `linerate serve http` and `serve ftp`: files for other programs, and the goodput to them;
//! `serve iperf3` and `serve netperf`: tests for their clients; `serve stamp`: a reflector of test
//! packets.
//!
//! It is a campaign of one trial: the passive end of the workload with `clients = "foreign"`, and
//! an active end that does nothing. Its ledger gives the usual reports.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use linerate_answers::served::{self, FilesOffered, Seconds};
use linerate_campaign::conduct::Measured;
use linerate_campaign::drafts::{self, Server};
use linerate_campaign::letters;
use linerate_campaign::live::Live;
use linerate_campaign::{conduct, testbeds};
use linerate_control::Progress;
use linerate_load::Network;
use linerate_model::{BitRate, Nanos, Side};

use crate::args::{Global, Saved, read_by, seconds};
use crate::exit::{Exit, Outcome};
use crate::parameters::{ServeSettings, SettingOptions};
use crate::reports;

pub(crate) mod other_clients;

/// Time to serve files, seconds.
const USUAL_S: f64 = 60.0;

/// Files to serve, and the address.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Protocol
    #[arg(value_enum)]
    protocol: Protocol,
    /// Serve the files of this folder [default: one file of random bytes, under any name]
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["size", "upload"])]
    root: Option<PathBuf>,
    /// Accept uploads, and discard their data
    #[arg(long)]
    upload: bool,
    /// Address to listen on [default: every IPv4 address]
    #[arg(short = 'B', long = "bind")]
    bind: Option<IpAddr>,
    /// Time to serve, in seconds or with a unit [default: 60; iperf3, netperf and stamp: until it
    /// is stopped]
    #[arg(short = 't', long = "time", value_parser = seconds)]
    seconds: Option<f64>,
    /// iperf3 and netperf: serve one test, then end
    #[arg(short = '1', long)]
    one_off: bool,
    /// iperf3, netperf and stamp: hosts that may use the server: addresses, and networks such
    /// as 192.0.2.0/24 [default: all]
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    allow: Vec<Network>,
    /// stamp: answer only packets with the digest of the key in this file, in hexadecimal digits
    #[arg(long, value_name = "FILE")]
    auth_key: Option<PathBuf>,
    /// iperf3 and netperf: most tests at once of one host [default: 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    per_client: Option<u16>,
    /// iperf3 and netperf: longest load of a test, in seconds or with a unit [default: a day]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    longest: Option<f64>,
    /// iperf3: highest rate of a test, all streams together, bit/s; clients then need -b
    #[arg(long, value_name = "RATE", value_parser = read_by(
        letters::rate, "bit/s, such as 500M"))]
    most_rate: Option<BitRate>,
    /// iperf3: admit only users, whose passwords are encrypted for this private RSA key (PEM)
    #[arg(long, value_name = "FILE", requires = "authorized_users_path")]
    rsa_private_key_path: Option<PathBuf>,
    /// iperf3: lines of USER,SHA-256 of "{USER}PASSWORD"; read again for each test
    #[arg(long, value_name = "FILE", requires = "rsa_private_key_path")]
    authorized_users_path: Option<PathBuf>,
    /// iperf3: greatest difference between the clocks of client and server, in seconds or with a
    /// unit. Until then, whoever read a password's token from the network can use it too
    #[arg(long, value_name = "TIME", default_value = "10", value_parser = seconds)]
    time_skew_threshold: f64,
    /// iperf3: passwords come from clients before iperf3 3.17, or with the same option
    #[arg(long, requires = "rsa_private_key_path")]
    use_pkcs1_padding: bool,
    #[command(flatten)]
    settings: SettingOptions<ServeSettings>,
    /// Keep the results in this ledger
    #[arg(long)]
    ledger: Option<PathBuf>,
    #[command(flatten)]
    saved: Saved,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Protocol {
    /// HTTP/1.1
    Http,
    /// FTP
    Ftp,
    /// iperf3: its clients of any release, many at once
    Iperf3,
    /// netperf: a netserver for its clients, many at once
    Netperf,
    /// STAMP (RFC 8762) and TWAMP Light: a reflector of test packets
    Stamp,
}

impl Protocol {
    fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Ftp => "ftp",
            Self::Iperf3 => "iperf3",
            Self::Netperf => "netperf",
            Self::Stamp => "stamp",
        }
    }
}

/// Serves with a line for each second in which something was transferred, then prints the result.
pub(crate) fn run(args: &ServeArgs, global: Global) -> Outcome {
    other_clients::refuse_options(args)?;
    match args.protocol {
        Protocol::Iperf3 => return other_clients::serve_iperf3(args, global),
        Protocol::Netperf => return other_clients::serve_netperf(args, global),
        Protocol::Stamp => return other_clients::reflect(args, global),
        Protocol::Http | Protocol::Ftp => {}
    }
    let seconds_served = args.seconds.unwrap_or(USUAL_S);
    let address = args.bind.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
    let ground = testbeds::serving(address);
    let root = args.root.as_deref().map(drafts::served_folder).transpose()?;
    let given = args.settings.given("serve", args.protocol.name())?;
    let has_tls = drafts::given_value(&given, "tls").is_some_and(|value| value == true);
    let draft = drafts::server(&Server {
        workload: args.protocol.name(),
        takes_uploads: args.upload,
        root: root.as_deref(),
        duration: Nanos::from_secs_f64(seconds_served),
        given: &given,
    })?;
    let offered = FilesOffered {
        protocol: args.protocol.name(),
        address,
        port: drafts::port(&draft),
        is_folder: root.is_some(),
        takes_uploads: args.upload,
        has_tls,
        seconds: seconds_served,
    };
    let served = Vec::from_iter(root);
    // Lines for a person would break the JSON.
    let show = !global.quiet && !global.json;
    let (mut seconds, mut announced) = (Seconds::default(), false);
    let watch = &mut |event: Progress<'_>| match event {
        Progress::Intervals { side: Side::Passive, intervals, .. } => {
            // The first intervals show that the server listens: a client that connects earlier
            // would be refused.
            if show && !std::mem::replace(&mut announced, true) {
                println!("{}", offered.announcement());
            }
            seconds.take(intervals).iter().filter(|_| show).for_each(|line| println!("{line}"));
        }
        event => global.console().notice(&event),
    };
    let nobody = Live::default();
    let files = (args.ledger.as_deref(), &served[..], &nobody);
    let Measured { campaign, study, summary } =
        conduct::drafted("serve", &draft, &ground, files, watch)?;
    // An interrupted trial has no figures, though its clients were served.
    let complete = matches!(conduct::exit_of(&summary), Ok(Exit::Done));
    let span = (Nanos::from_secs_f64(seconds_served), complete);
    let answer = served::document(&campaign, &study, &seconds, span);
    let text = linerate_report::text::whole(&answer);
    reports::measured((&answer, &text), &campaign, &study, &args.saved, global)?;
    reports::end(&campaign, &study, &summary, global)
}
