//! Sizes, directions and places of transfers.

use super::super::{Class, Malformed};
use super::Reader;
use super::lines::Line;
use super::text::Setting;
use Class::{Approximate, Exact, Ignored, Refused};

/// Share in per cent; `None` if it is omitted.
fn share_of(text: &str) -> Result<Option<f64>, String> {
    match text.trim() {
        "" => Ok(None),
        text => match text.parse::<f64>() {
            Ok(share) if share >= 0.0 => Ok(Some(share)),
            _ => Err(format!("`{text}` is not a share")),
        },
    }
}

/// Returns shares that add up to 100: omitted ones divide the rest.
fn filled(shares: impl Iterator<Item = Option<f64>>) -> Result<Vec<f64>, String> {
    let shares: Vec<Option<f64>> = shares.collect();
    let given: f64 = shares.iter().flatten().sum();
    let open = shares.iter().filter(|share| share.is_none()).count();
    // fio fills up shares only if one is omitted; a sum below 100 would change the load.
    if given > 100.0 || (open == 0 && given < 100.0) {
        return Err(format!("the shares add up to {given} %"));
    }
    let rest = (100.0 - given) / open.max(1) as f64;
    Ok(shares.into_iter().map(|share| share.unwrap_or(rest)).collect())
}

impl Reader {
    /// Reads sizes, directions and places of transfers.
    pub(super) fn transfers(&mut self, name: &str) -> Result<(), Malformed> {
        let mode = self.take("rw").or_else(|| self.take("readwrite"));
        let mode = mode.unwrap_or(Setting { line: 0, key: "rw".into(), value: "read".into() });
        let (word, run) = mode.value.split_once(':').unwrap_or((&mode.value, ""));
        let shares = match word {
            "read" => Some((100.0, 0.0)),
            "write" => Some((0.0, 0.0)),
            "randread" => Some((100.0, 100.0)),
            "randwrite" => Some((0.0, 100.0)),
            "rw" | "readwrite" => Some((50.0, 0.0)),
            "randrw" => Some((50.0, 100.0)),
            // Discards only: the share of reads has no effect.
            "trim" => Some((100.0, 0.0)),
            "randtrim" => Some((100.0, 100.0)),
            _ => None,
        };
        let Some((mut read, mut random)) = shares else {
            self.class(
                &mode,
                Refused,
                "a write after each discard of the same place: reads, writes or discards only",
            );
            return Ok(());
        };
        // `rwmixread` counts only for mixed modes: a pure mode has its share by name.
        let is_mixed = read == 50.0;
        if word.ends_with("trim") {
            self.job.text("trim", "100 %");
        }
        let mut hole = None;
        match run {
            "" if mode.line > 0 => self.class(&mode, Exact, "read and random"),
            "" => {}
            // `rw=randread:8` draws a random place every 8 transfers, and goes on in sequence
            // between them.
            _ if random > 0.0 => match run.parse::<f64>() {
                Ok(run) if run >= 1.0 => {
                    random = 100.0 / run;
                    self.class(
                        &mode,
                        Approximate,
                        format!("random {random} %, drawn for each transfer"),
                    );
                }
                _ => self.class(
                    &mode,
                    Refused,
                    "a number of transfers between random places is 1 or more",
                ),
            },
            _ => hole = Some(run.to_owned()),
        }
        let mix = [("rwmixread", false), ("rwmixwrite", true)];
        for (key, is_writes) in mix {
            let Some(setting) = self.take(key) else { continue };
            let share: f64 = self.number(&setting)?;
            if !(0.0..=100.0).contains(&share) {
                return Err(Malformed::new(
                    setting.line,
                    format!("{key}={share}: not a share in per cent"),
                ));
            }
            if is_mixed {
                read = if is_writes { 100.0 - share } else { share };
            }
            self.class(&setting, if is_mixed { Exact } else { Ignored }, "share of reads");
        }
        if let Some(setting) = self.exact("percentage_random", "random") {
            random = self.number(&setting)?;
        }
        self.sizes(read, random)?;
        // Set after the sizes: they read it in per cent.
        self.job.read = read / 100.0;
        if let Some(hole) = hole {
            self.holes(&mode, &hole)?;
        }
        self.places(name, random)
    }

    /// Reads `rw=read:112k`: the bytes skipped after each transfer of a sequence; a negative number
    /// goes back.
    fn holes(&mut self, mode: &Setting, hole: &str) -> Result<(), Malformed> {
        let (is_back, text) = hole.strip_prefix('-').map_or((false, hole), |text| (true, text));
        let hole = i128::from(self.bytes(mode, text)?);
        let Some(block) = self.job.block else {
            self.class(mode, Refused, "holes between transfers of several sizes");
            return Ok(());
        };
        let step = i128::from(block) + if is_back { -hole } else { hole };
        if step == 0 || step.unsigned_abs() > 1 << 30 {
            self.class(
                mode,
                Refused,
                "a step of 512 B to 1 GiB from one transfer to the next, onwards or back",
            );
            return Ok(());
        }
        self.job.text("stride", &format!("{} B", step.unsigned_abs()));
        if step < 0 {
            self.job.value("backward", true);
        }
        self.class(mode, Exact, if step < 0 { "backward, stride" } else { "stride" });
        Ok(())
    }

    /// Reads `bs`, with one size for reads and one for writes, or `bssplit`.
    fn sizes(&mut self, read: f64, random: f64) -> Result<(), Malformed> {
        let align = match self.exact("blockalign", "align").or_else(|| self.exact("ba", "align")) {
            Some(setting) => Some(self.bytes(&setting, &setting.value)?),
            None => None,
        };
        if let Some(setting) = self.take("bssplit") {
            return self.split(&setting, read, random, align);
        }
        if let Some(setting) = self.take("bsrange").or_else(|| self.take("blocksize_range")) {
            return self.range(&setting, read, random, align);
        }
        let setting = self.take("bs").or_else(|| self.take("blocksize"));
        let text = setting.as_ref().map_or("4096", |setting| setting.value.as_str()).to_owned();
        let parts: Vec<&str> = text.split(',').map(str::trim).collect();
        let nowhere = Setting { line: 0, key: "bs".into(), value: text.clone() };
        let setting = setting.unwrap_or(nowhere);
        let reads = self.size_of(&setting, &parts, 0)?;
        let writes = self.size_of(&setting, &parts, 1)?;
        // A direction that never happens needs no line: its weight would be zero.
        let line = |bytes, weight, read| Line { bytes, weight, read, priority: None };
        let lines = match () {
            () if read <= 0.0 => vec![line(writes, 100.0, read)],
            () if reads == writes || read >= 100.0 => vec![line(reads, 100.0, read)],
            () => vec![line(reads, read, 100.0), line(writes, 100.0 - read, 0.0)],
        };
        self.lines(lines, random, align)?;
        if setting.line > 0 {
            self.class(&setting, Exact, "block_size");
        }
        Ok(())
    }

    /// Returns the size at `place` of the `parts` of `bs`, in bytes.
    fn size_of(&self, setting: &Setting, parts: &[&str], place: usize) -> Result<u64, Malformed> {
        match parts.get(place).copied() {
            // An omitted value has fio's default; values beyond the last equal the last.
            Some("") => Ok(4096),
            Some(part) => self.bytes(setting, part),
            None => self.bytes(setting, parts.last().copied().unwrap_or("4096")),
        }
    }

    /// Reads `LOW-HIGH`: multiples of the lowest size, each as often as every other.
    fn range(
        &mut self,
        setting: &Setting,
        read: f64,
        random: f64,
        align: Option<u64>,
    ) -> Result<(), Malformed> {
        /// Most lines of a readable access specification.
        const MOST_SIZES: u64 = 256;
        let ends = setting.value.split_once('-').filter(|_| !setting.value.contains(','));
        let Some((low, high)) = ends else {
            self.class(setting, Refused, "one range, LOW-HIGH, for reads and writes alike");
            return Ok(());
        };
        let (low, high) = (self.bytes(setting, low)?, self.bytes(setting, high)?);
        let n = high / low;
        if n == 0 || n > MOST_SIZES {
            self.class(
                setting,
                Refused,
                format!("{n} sizes from {low} to {high} B: 1 to {MOST_SIZES} can be listed"),
            );
            return Ok(());
        }
        let weight = 100.0 / n as f64;
        let line = |n| Line { bytes: n * low, weight, read, priority: None };
        self.lines((1..=n).map(line).collect(), random, align)?;
        self.class(
            setting,
            Exact,
            "lines of an access specification, multiples of the lowest size",
        );
        Ok(())
    }

    /// Reads `SIZE/PER CENT:...`, with writes behind a comma; omitted shares divide the rest.
    fn split(
        &mut self,
        setting: &Setting,
        read: f64,
        random: f64,
        align: Option<u64>,
    ) -> Result<(), Malformed> {
        let ways: Vec<&str> = setting.value.split(',').collect();
        let of_ways = match ways[..] {
            [both] => vec![(both, 100.0, read)],
            [reads, writes, ..] => vec![(reads, read, 100.0), (writes, 100.0 - read, 0.0)],
            [] => Vec::new(),
        };
        let mut lines = Vec::new();
        // A line of weight zero would be refused by the plan.
        for (text, weight, read) in of_ways.into_iter().filter(|(_, weight, _)| *weight > 0.0) {
            for (bytes, share) in self.shares(setting, text)? {
                lines.push(Line { bytes, weight: share * weight / 100.0, read, priority: None });
            }
        }
        self.lines(lines, random, align)?;
        self.class(setting, Exact, "lines of an access specification");
        Ok(())
    }

    /// Sizes and their shares in per cent, which add up to 100.
    fn shares(&self, setting: &Setting, text: &str) -> Result<Vec<(u64, f64)>, Malformed> {
        let wrong = |what: String| {
            Malformed::new(setting.line, format!("{}={}: {what}", setting.key, setting.value))
        };
        let mut parts = Vec::new();
        for part in text.split(':') {
            let (bytes, share) = part.split_once('/').unwrap_or((part, ""));
            parts.push((self.bytes(setting, bytes)?, share_of(share).map_err(&wrong)?));
        }
        let shares = filled(parts.iter().map(|(_, share)| *share)).map_err(wrong)?;
        Ok(parts.into_iter().map(|(bytes, _)| bytes).zip(shares).collect())
    }

    /// Reads the distribution of random transfers.
    fn places(&mut self, name: &str, random: f64) -> Result<(), Malformed> {
        let repeats = self.is_set("norandommap", "places may come again");
        if self.strided()? {
            return Ok(());
        }
        let law = self.take("random_distribution");
        let parts = law
            .as_ref()
            .map(|setting| setting.value.split_once(':').unwrap_or((&setting.value, "")));
        match (parts, &law) {
            (None | Some(("random", _)), _) => {
                // fio's default visits each block once before any again, which is a permutation.
                if random >= 100.0 && !repeats {
                    self.job.text("pattern", "permutation");
                    let note = "pattern permutation: each place once before any again";
                    self.imported.class(0, format!("[{name}] without norandommap"), Exact, note);
                }
                if let Some(law) = &law {
                    self.class(law, Exact, "pattern");
                }
            }
            (Some(("zipf", theta)), Some(law)) => {
                // A second number shifts the centre of the law; it changes places, not frequencies.
                let theta: f64 = match theta.split(':').next().unwrap_or("") {
                    "" => 1.1,
                    text => text.parse().map_err(|_| {
                        Malformed::new(law.line, format!("zipf:{text}: not a number"))
                    })?,
                };
                self.job.text("pattern", "zipf");
                self.job.text("skew", &format!("{} %", theta * 100.0));
                self.class(
                    law,
                    Approximate,
                    "pattern zipf; which places are the frequent ones differs",
                );
            }
            (Some(("zoned", zones)), Some(law)) => self.zones(&law.clone(), zones)?,
            (Some(_), Some(law)) => {
                self.class(
                    law,
                    Refused,
                    "random, zipf and zoned only: places of other laws are not drawn",
                );
            }
            (Some(_), None) => {}
        }
        Ok(())
    }

    /// Reads `zoned:PER CENT OF TRANSFERS/PER CENT OF THE RANGE:...`.
    fn zones(&mut self, law: &Setting, text: &str) -> Result<(), Malformed> {
        let wrong =
            |what: String| Malformed::new(law.line, format!("{}={}: {what}", law.key, law.value));
        if text.contains(',') {
            self.class(law, Refused, "zones of reads and of writes apart");
            return Ok(());
        }
        let parts: Vec<(&str, &str)> =
            text.split(':').map(|part| part.split_once('/').unwrap_or((part, ""))).collect();
        let transfers = shares_of(parts.iter().map(|(transfers, _)| *transfers)).map_err(&wrong)?;
        let ranges = shares_of(parts.iter().map(|(_, range)| *range)).map_err(&wrong)?;
        let zones = transfers
            .iter()
            .zip(&ranges)
            .map(|(transfers, range)| format!("{transfers} % to {range} %"));
        self.job.text("zones", &zones.collect::<Vec<_>>().join(", "));
        self.class(law, Exact, "zones");
        Ok(())
    }
}

/// Reads shares in per cent, which add up to 100.
fn shares_of<'t>(texts: impl Iterator<Item = &'t str>) -> Result<Vec<f64>, String> {
    filled(texts.map(share_of).collect::<Result<Vec<_>, _>>()?.into_iter())
}
