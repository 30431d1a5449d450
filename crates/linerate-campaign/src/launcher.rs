//! Launchers: commands that run another command on a host.

use std::path::Path;

use linerate_model::HostAddress;

use crate::{Failure, Result};

/// Placeholders for the name of the host in a launcher. The second reads better with `kubectl`.
const PLACEHOLDERS: [&str; 2] = ["{host}", "{pod}"];

/// Command that runs another command on a host, with the same standard input and output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Launcher {
    words: Vec<String>,
}

impl Launcher {
    /// Returns ssh to `target`, which is `[USER@]HOST`.
    ///
    /// A target that ssh could read as an option (`-oProxyCommand=...` runs a command here) is
    /// refused, and `--` ends the options in any case.
    ///
    /// # Errors
    /// If `target` is not `[USER@]HOST`.
    pub(crate) fn ssh(target: &str) -> Result<Self> {
        // The user and the host, or the host alone.
        let mut parts = target.split('@');
        if !parts.clone().all(is_name) || parts.nth(2).is_some() {
            return Err(Failure::wrong(format!(
                "reach a host through ssh: `{}` is not [USER@]HOST (letters, digits and . : _ - @ \
                    % [ ], not beginning with -)",
                target.escape_debug()
            )));
        }
        let words = ["ssh", "-o", "BatchMode=yes", "--", target].map(str::to_owned).to_vec();
        Ok(Self { words })
    }

    /// Returns the launcher `words` for the host `host`, whose name replaces `{host}` and `{pod}`.
    ///
    /// # Errors
    /// If there is no program, another placeholder, or a name that a program could read as an
    /// option.
    pub(crate) fn of_words(words: &[String], host: &str) -> Result<Self> {
        let wrong = |cause: String| Failure::wrong(format!("reach {host} by a command: {cause}"));
        if words.first().is_none_or(String::is_empty) {
            return Err(wrong("it names no program".to_owned()));
        }
        let is_used = |word: &String| PLACEHOLDERS.iter().any(|holder| word.contains(holder));
        if words.iter().any(is_used) && !is_name(host) {
            let escaped = host.escape_debug();
            return Err(wrong(format!(
                "`{escaped}` cannot replace {{host}} (letters, digits and . : _ - % [ ], not \
                    beginning with -)"
            )));
        }
        if let Some(other) = words.iter().find_map(|word| other_placeholder(word)) {
            return Err(wrong(format!(
                "there is no `{other}`; {{host}} or {{pod}} is the name of the host"
            )));
        }
        let named = |word: &String| {
            PLACEHOLDERS.iter().fold(word.clone(), |word, holder| word.replace(holder, host))
        };
        Ok(Self { words: words.iter().map(named).collect() })
    }

    /// Returns the launcher that a person typed as one command line, in the quotes of a shell.
    ///
    /// # Errors
    /// If a quote is not closed, and as [`Launcher::of_words`].
    pub(crate) fn of_line(line: &str, host: &str) -> Result<Self> {
        let words = shlex::split(line).ok_or_else(|| {
            Failure::wrong(format!("--reach '{}': a quote is not closed", line.escape_debug()))
        })?;
        Self::of_words(&words, host)
    }

    /// Returns the agent that `program` is on the host.
    pub(crate) fn agent(&self, program: &str) -> HostAddress {
        HostAddress::Command(self.with(&[program, "agent", "--stdio"]))
    }

    /// Returns the command that runs `script` on the host.
    pub(crate) fn script(&self, script: &str) -> Vec<String> {
        // ssh joins its words and gives them to a shell of the host; others start a program.
        match self.is_ssh() {
            true => self.with(&[script]),
            false => self.with(&["sh", "-c", script]),
        }
    }

    /// Returns its words.
    pub(crate) fn words(&self) -> Vec<String> {
        self.words.clone()
    }

    /// Returns the program of the launcher, for people.
    pub(crate) fn program(&self) -> &str {
        &self.words[0]
    }

    fn is_ssh(&self) -> bool {
        Path::new(self.program()).file_name().is_some_and(|name| name == "ssh")
    }

    fn with(&self, command: &[&str]) -> Vec<String> {
        self.words.iter().cloned().chain(command.iter().map(|word| (*word).to_owned())).collect()
    }
}

/// Returns whether a program reads `part` as a name, never as an option or as two words.
fn is_name(part: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".:_-%[]".contains(c);
    !part.is_empty() && !part.starts_with('-') && part.chars().all(is_plain)
}

/// Returns the first `{word}` of `text` that is not a known placeholder.
fn other_placeholder(text: &str) -> Option<&str> {
    let opened = text.match_indices('{').filter_map(|(at, _)| {
        let end = text[at..].find('}')?;
        Some(&text[at..=at + end])
    });
    opened.filter(|part| is_placeholder(part)).find(|holder| !PLACEHOLDERS.contains(holder))
}

/// Returns whether a part in braces is a word in braces.
fn is_placeholder(part: &str) -> bool {
    let inner = &part[1..part.len() - 1];
    !inner.is_empty() && inner.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn command(launcher: &Launcher) -> Vec<String> {
        match launcher.agent("linerate") {
            HostAddress::Command(words) => words,
            other => panic!("{other:?}"),
        }
    }

    proptest! {
        #[test]
        fn no_target_becomes_an_option_or_a_second_word_of_ssh(
            target in "(-o[A-Za-z]{0,8}=?)?\\PC{0,12}|[a-z.@-]{0,12}|[a-z]@\\PC{0,6}"
        ) {
            if let Ok(launcher) = Launcher::ssh(&target) {
                let words = command(&launcher);
                let end_of_options = words.iter().position(|word| word == "--");
                let after = &words[end_of_options.expect("options end") + 1..];
                prop_assert_eq!(after, [target.as_str(), "linerate", "agent", "--stdio"]);
                prop_assert!(!target.starts_with('-') && !target.contains("@-"), "{}", target);
                let is_special =
                    |c: char| c.is_whitespace() || c.is_control() || "$;`&|".contains(c);
                prop_assert!(!target.contains(is_special));
            }
        }

        #[test]
        fn a_name_fills_the_words_of_a_launcher_and_adds_none(name in "-?\\PC{0,12}") {
            let words = ["srun", "-w", "{host}", "--name={host}"].map(str::to_owned);
            if let Ok(launcher) = Launcher::of_words(&words, &name) {
                prop_assert_eq!(
                    &command(&launcher)[..4],
                    ["srun", "-w", name.as_str(), &format!("--name={name}")]
                );
                prop_assert!(!name.starts_with('-'), "{}", name);
            }
        }
    }

    #[test]
    fn users_hosts_and_addresses_are_targets_and_options_are_not() {
        for target in
            ["host", "user@host.example", "root@192.0.2.7", "user@2001:db8::1", "user@fe80::1%eth0"]
        {
            assert!(Launcher::ssh(target).is_ok(), "{target}");
        }
        for target in
            ["", "-oProxyCommand=id", "user@-oProxyCommand=id", "user@", "a b", "a\nb", "$(id)"]
        {
            assert!(Launcher::ssh(target).is_err(), "{target}");
        }
    }

    #[test]
    fn a_launcher_is_typed_in_the_quotes_of_a_shell() {
        for (line, words) in [
            ("podman exec -i web", &["podman", "exec", "-i", "web"][..]),
            ("srun -N1 -w {host}", &["srun", "-N1", "-w", "node7"]),
            ("kubectl exec -i {pod} --", &["kubectl", "exec", "-i", "node7", "--"]),
            ("'my launcher' --as=\"a b\"", &["my launcher", "--as=a b"]),
            ("awk '{ print }' {}", &["awk", "{ print }", "{}"]),
        ] {
            let launcher = Launcher::of_line(line, "node7").expect(line);
            assert_eq!(command(&launcher)[..words.len()], *words, "{line}");
        }
        for (line, part) in [
            ("", "no program"),
            ("''", "no program"),
            ("podman 'exec", "not closed"),
            ("srun -w {node}", "`{node}`"),
        ] {
            let refused = Launcher::of_line(line, "node7").expect_err(line).message();
            assert!(refused.contains(part), "{line}: {refused}");
        }
        let refused = Launcher::of_line("srun -w {host}", "-x").expect_err("an option").message();
        assert!(refused.contains("`-x` cannot replace"), "{refused}");
    }

    #[test]
    fn a_script_is_one_word_for_ssh_and_the_word_of_a_shell_for_others() {
        let ssh = Launcher::of_line("/usr/bin/ssh -p 2222 box", "box").expect("words");
        assert_eq!(ssh.script("a b")[4..], ["a b"]);
        let podman = Launcher::of_line("podman exec -i web", "web").expect("words");
        assert_eq!(podman.script("a b")[4..], ["sh", "-c", "a b"]);
    }
}
