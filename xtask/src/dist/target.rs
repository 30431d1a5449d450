//! Processors that there are packages for.

/// A processor, and Debian's tools that link for it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Name of the target in Rust.
    pub(crate) triple: &'static str,
    /// Debian's name of the architecture.
    pub(crate) debian: &'static str,
    /// RPM's name of it.
    pub(crate) rpm: &'static str,
    /// Debian's package of the C library that is linked.
    pub(crate) library: &'static str,
    /// Prefix of the compiler and its tools.
    pub(crate) tools: &'static str,
    /// Features of the processor that the compiler may use.
    pub(crate) features: &'static str,
    /// Most bytes of the agent alone.
    pub(crate) most_of_agent: u64,
}

/// Most bytes of the full program.
pub(crate) const MOST_OF_PROGRAM: u64 = 30_000_000;

/// The targets.
pub(crate) const TARGETS: [Target; 3] = [
    Target {
        triple: "x86_64-unknown-linux-gnu",
        debian: "amd64",
        rpm: "x86_64",
        library: "libc6-dev",
        tools: "x86_64-linux-gnu",
        features: "+crt-static",
        most_of_agent: 8_000_000,
    },
    Target {
        triple: "aarch64-unknown-linux-gnu",
        debian: "arm64",
        rpm: "aarch64",
        library: "libc6-dev-arm64-cross",
        tools: "aarch64-linux-gnu",
        features: "+crt-static",
        most_of_agent: 8_000_000,
    },
    // Flash of a BMC has 32 to 128 MB for everything.
    Target {
        triple: "armv7-unknown-linux-gnueabihf",
        debian: "armhf",
        rpm: "armv7hl",
        library: "libc6-dev-armhf-cross",
        tools: "arm-linux-gnueabihf",
        // Every ARMv7 has Thumb-2, whose instructions are shorter.
        features: "+crt-static,+thumb-mode",
        most_of_agent: 4_000_000,
    },
];

/// The processor of a management controller.
pub(crate) const BMC: &Target = &TARGETS[2];

/// Returns the targets that `names` select by their names in Rust or Debian; all if it is empty.
pub(crate) fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static Target>> {
    if names.is_empty() {
        return Ok(TARGETS.iter().collect());
    }
    names.iter().map(|name| named(name)).collect()
}

fn named(name: &str) -> anyhow::Result<&'static Target> {
    let found = TARGETS.iter().find(|one| [one.triple, one.debian].contains(&name));
    found.ok_or_else(|| {
        let known: Vec<&str> = TARGETS.iter().map(|one| one.debian).collect();
        anyhow::anyhow!("no target `{name}` (there are {})", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_the_names_of_rust_and_debian() {
        let of = |name: &str| chosen(&[name.to_owned()]).map(|found| found[0].tools);
        assert_eq!(of("armhf").expect("it is there"), "arm-linux-gnueabihf");
        assert_eq!(of("aarch64-unknown-linux-gnu").expect("it is there"), "aarch64-linux-gnu");
        let refused = of("sparc").expect_err("it is not").to_string();
        assert_eq!(refused, "no target `sparc` (there are amd64, arm64, armhf)");
        assert_eq!(chosen(&[]).expect("all").len(), 3);
        assert_eq!(BMC.debian, "armhf");
    }
}
