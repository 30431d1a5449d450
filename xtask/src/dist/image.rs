//! An image for containers: an archive in the layout of OCI image-spec 1.0, with one image a
//! target, of which the engine takes that of its processor.
//!
//! The image has the two static programs and nothing else: no shell, no package manager.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde_json::{Value, json};

use super::SUMMARY;
use super::content::{Programs, Tree, epoch};
use super::target::Target;
use crate::tools::printed;

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// A layout that is being written.
struct Layout<'a> {
    tree: Tree,
    out: &'a Path,
    /// Time of everything in it, in seconds since 1970.
    epoch: u64,
}

/// Packs the programs of each target into one archive; returns it, in `out`.
pub(super) fn package(
    root: &Path,
    out: &Path,
    all: &[(&Target, Programs)],
) -> anyhow::Result<PathBuf> {
    let version = env!("CARGO_PKG_VERSION");
    let layout = Layout { tree: Tree::new(out.join("oci"))?, out, epoch: epoch(root)? };
    let images: Vec<Value> = all
        .iter()
        .map(|(target, programs)| layout.image(target, programs))
        .collect::<Result<_, _>>()?;
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": images });
    let mut index = layout.blob(INDEX, index.to_string().as_bytes())?;
    // podman takes the whole name from here, other programs the tag alone.
    let name = format!("localhost/linerate:{version}");
    index["annotations"] = json!({ "org.opencontainers.image.ref.name": name });
    let list = json!({ "schemaVersion": 2, "manifests": [index] });
    layout.tree.put("index.json", list.to_string().as_bytes(), 0o644)?;
    layout.tree.put("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#, 0o644)?;
    let archive = out.join(format!("linerate_{version}.oci.tar"));
    layout.pack(layout.tree.path(), &archive)?;
    Ok(archive)
}

impl Layout<'_> {
    /// Adds the image of `target`; returns what the index says about it.
    fn image(&self, target: &Target, programs: &Programs) -> anyhow::Result<Value> {
        let files = Tree::new(self.out.join(format!("oci-{}", target.debian)))?;
        files.put_programs(programs)?;
        files.folder(Path::new("tmp"), 0o1777)?;
        let layer = self.out.join(format!("oci-{}.tar", target.debian));
        self.pack(files.path(), &layer)?;
        let content = format!("sha256:{}", digest(&layer)?);
        // Without name and time (-n), the same layer has the same bytes.
        printed(Command::new("gzip").args(["--force", "-9", "-n"]).arg(&layer))?;
        let packed = layer.with_extension("tar.gz");
        let layer = self.blob(LAYER, &fs::read(&packed)?)?;
        fs::remove_file(packed)?;
        let config = config(target, &content).to_string();
        let config = self.blob(CONFIG, config.as_bytes())?;
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer],
        });
        let mut image = self.blob(MANIFEST, manifest.to_string().as_bytes())?;
        image["platform"] = platform(target);
        Ok(image)
    }

    /// Writes a blob; returns its descriptor.
    fn blob(&self, media: &str, content: &[u8]) -> anyhow::Result<Value> {
        self.tree.put("blobs/sha256/new", content, 0o644)?;
        let file = self.tree.path().join("blobs/sha256/new");
        let digest = digest(&file)?;
        fs::rename(&file, file.with_file_name(&digest))?;
        let digest = format!("sha256:{digest}");
        Ok(json!({ "mediaType": media, "digest": digest, "size": content.len() }))
    }

    /// Packs the content of `folder` as root's, in order of names.
    fn pack(&self, folder: &Path, archive: &Path) -> anyhow::Result<()> {
        let time = format!("--mtime=@{}", self.epoch);
        let mut pack = Command::new("tar");
        pack.args(["--format=gnu", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
        pack.args([&time, "--create", "--file"]).arg(archive).arg("-C").arg(folder);
        let names = printed(Command::new("ls").arg(folder))?;
        printed(pack.args(names.lines())).map(drop)
    }
}

/// Returns the processor of `target` by its names in Go, as the image specification wants.
fn platform(target: &Target) -> Value {
    match target.debian {
        "armhf" => json!({ "os": "linux", "architecture": "arm", "variant": "v7" }),
        name => json!({ "os": "linux", "architecture": name }),
    }
}

/// Returns the configuration of an image whose only layer has the digest `content` unpacked.
fn config(target: &Target, content: &str) -> Value {
    let mut config = platform(target);
    config["config"] = json!({
        // `exec linerate agent --stdio` finds the program by name. Only /tmp is written to, so that
        // the rest may be read-only.
        "Env": ["PATH=/usr/bin", "HOME=/tmp", "LINERATE_KEYS=/tmp/keys"],
        "Entrypoint": ["linerate"],
        "Cmd": ["help"],
        "Labels": {
            "org.opencontainers.image.title": "linerate",
            "org.opencontainers.image.description": SUMMARY,
            "org.opencontainers.image.version": env!("CARGO_PKG_VERSION"),
            "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
        },
    });
    config["rootfs"] = json!({ "type": "layers", "diff_ids": [content] });
    config
}

/// Returns the SHA-256 of a file.
fn digest(file: &Path) -> anyhow::Result<String> {
    let sum = printed(Command::new("sha256sum").arg(file))?;
    let (digest, _) = sum.split_once(' ').context("sha256sum printed no digest")?;
    Ok(digest.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::target::TARGETS;

    /// Packs images of two targets, whose programs are short texts, and unpacks the archive.
    #[test]
    fn the_archive_leads_from_the_index_to_the_program() {
        let out = std::env::temp_dir().join(format!("linerate-image-{}", std::process::id()));
        let out = Tree::new(out).expect("a folder");
        let root = crate::repository_root();
        let all: Vec<(&Target, Programs)> = TARGETS[..2]
            .iter()
            .map(|target| {
                let file = |name: &str| {
                    let name = format!("{name}-{}", target.debian);
                    out.put(&name, name.as_bytes(), 0o755).expect("a file");
                    out.path().join(name)
                };
                let (linerate, agent) = (file("linerate"), file("agent"));
                (target, Programs { of_host: linerate.clone(), linerate, agent })
            })
            .collect();
        let archive = package(&root, out.path(), &all).expect("packed");
        let first = fs::read(&archive).expect("an archive");
        package(&root, out.path(), &all).expect("packed again");
        assert_eq!(first, fs::read(&archive).expect("an archive"), "the bytes depend on the time");
        out.folder(Path::new("seen"), 0o755).expect("a folder");
        let seen = out.path().join("seen");
        let unpack = |file: &Path, options: &str| {
            printed(Command::new("tar").args([options]).arg(file).arg("-C").arg(&seen))
        };
        unpack(&archive, "-xf").expect("unpacked");
        let json = |path: &str| -> Value {
            serde_json::from_slice(&fs::read(seen.join(path)).expect(path)).expect("JSON")
        };
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().expect("a digest");
            let path = format!("blobs/{}", digest.replace(':', "/"));
            let file = seen.join(&path);
            assert_eq!(super::digest(&file).expect("a sum"), digest.trim_start_matches("sha256:"));
            assert_eq!(file.metadata().expect("a blob").len(), descriptor["size"]);
            path
        };
        let index = json(&blob(&json("index.json")["manifests"][0]));
        assert_eq!(index["manifests"][0]["platform"]["architecture"], "amd64");
        assert_eq!(index["manifests"][1]["platform"]["architecture"], "arm64");
        let manifest = json(&blob(&index["manifests"][1]));
        assert_eq!(json(&blob(&manifest["config"]))["architecture"], "arm64");
        unpack(&seen.join(blob(&manifest["layers"][0])), "-xzf").expect("unpacked");
        let program = fs::read_to_string(seen.join("usr/bin/linerate")).expect("the program");
        assert_eq!(program, "linerate-arm64");
    }
}
