//! Integration tests of this crate as one program, because each program costs a link of
//! everything that the crate depends on.

mod bad_input;
mod common;
mod compare;
mod comparisons;
mod dashboard;
mod diagnose;
mod disk;
mod doctor;
mod flows;
#[path = "../../linerate-sys/tests/shared/host.rs"]
mod host;
mod iperf3;
mod json;
mod known_answers;
mod known_answers_files;
mod known_answers_frames;
mod known_answers_iperf3;
mod known_answers_latency;
mod launchers;
mod looks;
mod memory;
mod mesh;
mod ncsi;
mod netperf;
mod observer;
mod one_port;
mod output;
mod push;
mod reproduce;
mod resume;
mod searches;
mod serve;
mod stamp;
mod tune;
mod two_hosts;
mod unproven;
mod view;
