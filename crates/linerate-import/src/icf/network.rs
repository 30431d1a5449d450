//! Jobs of network workers over TCP.
//!
//! Iometer's server sends its "writes" and receives its "reads", one message at a time on each
//! connection; a reply is the answer in the other direction. Shares of random places and alignments
//! have no meaning on a network.

use super::super::plan::{Job, Workload};
use super::{RawLine, Specification};

/// Returns the job of a worker with `connections`, each reopened after `each` transactions if the
/// test does so, and how it differs. Returns the reason if there is none.
pub(super) fn job(
    specification: &Specification,
    connections: usize,
    each: Option<u64>,
) -> Result<(Job, String), String> {
    let [line] = specification.raw[..] else {
        return Err(
            "a network worker with several access lines: give each a worker of its own".into()
        );
    };
    if line.delay > 0 {
        return Err(
            "pauses between the messages of a network worker: use tcp_rr with a rate".into()
        );
    }
    let is_read = match (line.read, connections) {
        (_, 0) => return Err("a network worker without a target has no other end".into()),
        (0, _) => false,
        (100, _) => true,
        (share, _) => {
            return Err(format!(
                "{share} % of reads: whole messages change direction at random; write two workers, \
                    of 0 % and 100 %"
            ));
        }
    };
    let mut job = Job::default();
    job.value("streams", connections);
    let note = if let Some(each) = each {
        if each > 1 || line.reply == 0 {
            let what = if each > 1 {
                format!("{each} transactions")
            } else {
                "a message without a reply".to_owned()
            };
            return Err(format!(
                "{what} on each connection: tcp_crr has one request and its response"
            ));
        }
        exchange(&mut job, Workload::TcpCrr, line, is_read);
        "tcp_crr: a connection for each request and its response"
    } else if line.reply > 0 {
        exchange(&mut job, Workload::TcpRr, line, is_read);
        "tcp_rr: a request and its response on each connection, one at a time"
    } else {
        job.workload = Workload::TcpStream;
        job.text("direction", if is_read { "rx" } else { "tx" });
        job.size("message_size", line.size);
        "tcp_stream: one message a send; Iometer counts bytes at both ends, linerate at the \
            receiver"
    };
    Ok((job, note.to_owned()))
}

/// Turns `job` into requests and responses of `workload`.
fn exchange(job: &mut Job, workload: Workload, line: RawLine, is_read: bool) {
    job.workload = workload;
    // The end that sends first sends requests: for reads that is the other end.
    job.is_reversed = is_read;
    job.size("request_size", line.size);
    job.size("response_size", line.reply);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(raw: &[(u64, u64, u64, u64)], connections: usize) -> Result<Job, String> {
        let raw = raw
            .iter()
            .map(|&(size, read, delay, reply)| RawLine { size, read, delay, reply })
            .collect();
        job(&Specification { raw, ..Specification::default() }, connections, None)
            .map(|(job, _)| job)
    }

    #[test]
    fn messages_become_a_stream_and_replies_make_requests() {
        let stream = of(&[(4096, 100, 0, 0)], 2).expect("a stream");
        assert_eq!(stream.workload, Workload::TcpStream);
        let meant =
            serde_json::json!({ "direction": "rx", "message_size": "4096 B", "streams": 2 });
        assert_eq!(serde_json::Value::Object(stream.params.0), meant);
        let requests = of(&[(512, 0, 0, 8192)], 1).expect("requests");
        assert_eq!((requests.workload, requests.is_reversed), (Workload::TcpRr, false));
        assert!(of(&[(512, 100, 0, 8192)], 1).expect("requests").is_reversed);
    }

    #[test]
    fn a_connection_for_each_request_is_tcp_crr_and_more_on_each_is_refused() {
        let of = |reply, each| {
            let raw = vec![RawLine { size: 512, read: 0, delay: 0, reply }];
            job(&Specification { raw, ..Specification::default() }, 3, Some(each))
                .map(|(job, _)| job.workload)
        };
        assert_eq!(of(1024, 1), Ok(Workload::TcpCrr));
        assert!(of(1024, 5).expect_err("five").contains("5 transactions"));
        assert!(of(0, 1).expect_err("no reply").contains("without a reply"));
    }

    #[test]
    fn an_unsupported_network_worker_is_refused() {
        for (lines, connections, why) in [
            (vec![(512, 50, 0, 0)], 1, "50 % of reads"),
            (vec![(512, 0, 5, 0)], 1, "pauses"),
            (vec![(512, 0, 0, 0), (512, 0, 0, 0)], 1, "several access lines"),
            (vec![(512, 0, 0, 0)], 0, "without a target"),
        ] {
            assert!(of(&lines, connections).expect_err(why).contains(why));
        }
    }
}
