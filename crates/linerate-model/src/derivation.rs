//! Derivations of ceilings as data: equations of figures with units, and statements.
//!
//! A calculation writes its equation with the operators of Rust on [`Expression`], of which
//! `linerate-report` makes the text. Results are stored beside the expression, as they were
//! calculated.

use core::ops::{Add, Div, Mul, Sub};

use serde::{Deserialize, Serialize};

use crate::{BitRate, Bytes, Nanos};

/// Line of a derivation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// Expression and its value.
    Equation(Equation),
    /// Probability of each outcome; those that are negligible are left out.
    Distribution {
        /// The quantity whose outcomes are listed.
        of: Quantity,
        /// Outcome and probability.
        outcomes: Vec<(usize, f64)>,
    },
    /// Law that is used in the next equation.
    Law(Law),
    /// Condition, assumption or comparison.
    Statement(Statement),
    /// Text of a derivation that is not typed, as in ledgers before typed derivations.
    #[serde(untagged)]
    Text(String),
}

/// Expression and its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Equation {
    /// The quantity that is calculated, where its unit does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Quantity>,
    /// Left side.
    pub expression: Expression,
    /// The value, in one unit or in several.
    pub results: Vec<Figure>,
    /// Scope of the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<Remark>,
}

/// Value with its unit and, where the unit is not enough, its name.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Name of the figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Quantity>,
    /// Value, in `measure`.
    pub value: f64,
    /// Unit or counted object.
    pub measure: Measure,
}

/// Calculation from figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use]
pub enum Expression {
    /// A figure.
    Figure(Figure),
    /// Two operands.
    Operation(Box<(Expression, Operator, Expression)>),
    /// Function of one argument or more.
    Function(Function, Vec<Expression>),
    /// Law of probability that has no closed form of the operators here.
    Law(Law),
}

/// Operator between two expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are those of arithmetic")]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
}

/// Function in an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are those of arithmetic")]
pub enum Function {
    SquareRoot,
    Floor,
    Minimum,
}

/// Law of the distribution of flows over links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Law {
    /// Probability that no link has more than `m` flows.
    AtMost {
        /// Links.
        links: u32,
        /// Flows.
        flows: u32,
    },
    /// Mean of the fullest link: the sum of the probabilities that it has more than `m` flows.
    MeanOfFullest,
    /// Probability that every link has a flow, by inclusion and exclusion.
    EveryLinkUsed {
        /// Links.
        links: u32,
        /// Flows.
        flows: u32,
    },
}

/// Declares an enumeration of names: each variant with its text in a derivation.
macro_rules! names {
    ($(#[$about:meta])* $enumeration:ident { $($variant:ident $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $enumeration { $(#[doc = concat!("Written `", $name, "`.")] $variant,)* }

        impl $enumeration {
            /// Returns its text in a derivation.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

names! {
    /// Unit of a figure, or the objects it counts. Bit/s that are scaled have the decimal prefix
    /// that fits.
    Measure {
        One "",
        BitsPerSecond "bit/s",
        ScaledBitsPerSecond "bit/s",
        Bytes "B",
        Clocks "clocks",
        ClocksPerSecond "clocks/s",
        DataPhases "data phases",
        DatagramsPerSecond "datagrams/s",
        Flows "flows",
        FramesPerSecond "frames/s",
        GigatransfersPerSecond "GT/s",
        Lanes "lanes",
        Links "links",
        MegabytesPerSecond "MB/s",
        Nanoseconds "ns",
        Packets "packets",
        PacketsPerSecond "packets/s",
        Reads "reads",
        Requests "requests",
        Completions "completions",
        Seconds "s",
        Tags "tags",
        WritesPerSecond "writes/s",
    }
}

names! {
    /// Quantity that a figure or equation is about.
    Quantity {
        BandwidthDelayProduct "bandwidth-delay product",
        BothWays "both ways added",
        BusiestLink "flows on the fullest link",
        BusiestLinkMean "expected flows on the fullest link",
        Check "check",
        Completion "overhead of a completion",
        Crc "CRC",
        Descriptor "descriptor",
        DescriptorWrittenBack "descriptor written back",
        Descriptors "descriptors",
        DescriptorsWrittenBack "descriptors written back",
        Doorbell "doorbell",
        Down "down",
        EndDelimiter "EOF",
        EthernetHeader "Ethernet",
        EveryLinkUsed "probability that every link is used",
        FrameCheck "FCS",
        FilledLinks "flows that fill their link",
        FixedRateFlows "fixed-rate flows",
        Frame "frame",
        FrameWithCheck "frame with FCS",
        Framing "framing",
        FreeBuffers "doorbell of free buffers",
        Gap "gap",
        HeadPointer "head pointer",
        Header "header",
        Headers "headers",
        IdleWords "six idle words",
        Interrupt "interrupt",
        Ipv4 "IPv4",
        Ipv6 "IPv6",
        LineCode "line code",
        LinkLayer "link layer",
        LinkMissed "probability that all flows miss one link",
        LinksUsed "expected links used",
        LossRoot "root of the loss",
        MathisConstant "constant",
        OnWire "on the wire",
        Packet "packet",
        Peak "peak",
        Preamble "preamble",
        ReadDown "a read down",
        ReadUp "a read up",
        ReadsAndWrites "reads and writes added",
        Recovery "recovery",
        Request "overhead of a request",
        SegmentPayload "payload of a full segment",
        ShareOfPeak "share of the peak",
        StartDelimiter "SOF",
        Tcp "TCP",
        Timeouts "timeouts",
        Timestamps "timestamps",
        Udp "UDP",
        Up "up",
        UsedLinks "links used",
        WholeFrames "whole frames that fit",
        Window "window",
        WindowPerRoundTrip "one window each round trip",
        WriteUp "a write up",
    }
}

/// Scope of the value of an equation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Remark {
    /// For all devices of a bus and both directions.
    AllDevices,
    /// In each direction.
    EachWay,
    /// For a link of any rate.
    HoweverFast,
    /// As a share of the rate of the group.
    OfGroup,
    /// As a share of the wire that is payload.
    OfWire,
    /// Mean over hashes, in each direction.
    OnAverage,
    /// A frame is padded to this size.
    PaddedTo(Bytes),
    /// From values that are read once per interval.
    Sampled,
}

/// Condition, assumption or comparison in a derivation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "fields that are not explained are what they are called")]
pub enum Statement {
    /// The bound leaves out the acknowledgements of data the other way, of `each` bytes for
    /// `segments` packets of `data` bytes.
    AcknowledgementsLeftOut { each: Bytes, segments: u64, data: Bytes, share: f64 },
    /// A shared element crosses another one and is not used.
    Crosses { element: String },
    /// A datagram over `ip` is some packets, which the part `at` counts as `wire` bytes.
    Datagram { payload: Bytes, ip: Quantity, packets: usize, wire: Bytes, at: String },
    /// A flow uses one link.
    FlowKeepsItsLink,
    /// A datagram needs several packets.
    Fragments { payload: Bytes, mtu: Bytes, packets: usize },
    /// A shared element is full.
    Full { element: String, capacity: BitRate },
    /// The window fills the path without loss, or the path holds more.
    FullRate { is_possible: bool, path: Bytes },
    /// The bus is half duplex: all devices and both directions share it.
    HalfDuplex,
    /// The protocol above IP is not known, so only the header of IP is certain.
    IpHeaderOnly,
    /// Share of a PCI Express link that acknowledgements, credit updates and skip sets take.
    LinkLayer { symbol_times: u64, share: f64, left: Figure },
    /// The longest burst that passes, in whole frames.
    LongestBurst { frames: u64 },
    /// Comparison of the window with two segments of each sender.
    LossFree { exists: bool, least: Bytes },
    /// Bytes of one write and one read.
    OneOfEach { up: Bytes, down: Bytes },
    /// The law describes Reno-like congestion control under random loss.
    RenoOnly,
    /// Part of the window for each sender.
    Shared { flows: u32, each: Bytes, most: u64 },
    /// Function of a PCI tree.
    Slot(SlotLine),
    /// Transaction of a network card, shared by `frames` frames.
    Transaction { what: Quantity, size: Bytes, frames: u32, up: f64, down: f64 },
    /// Flows that no element bounds.
    Unbounded { flows: usize },
    /// Comparison of the window with the bandwidth-delay product.
    WindowFills { window: Bytes, fills: bool },
    /// Largest windows that the receivers of all flows advertised, and smallest round-trip time.
    WindowSeen { window: Bytes, rtt_seconds: f64 },
}

/// Function of a PCI tree, with its link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlotLine {
    /// Number of functions above it that are shown.
    pub depth: usize,
    /// Address, port type and devices.
    pub name: String,
    /// Its PCI Express link; `None` if it has none.
    pub link: Option<SlotLink>,
    /// True if it is full first.
    pub full: bool,
}

/// PCI Express link of a function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlotLink {
    /// Fastest generation.
    pub generation: u32,
    /// Lanes in use.
    pub lanes: u32,
    /// Present generation, where it is slower.
    pub now: Option<u32>,
    /// Lanes it could have, where these are more.
    pub most_lanes: Option<u64>,
    /// Maximum payload, where readable.
    pub max_payload: Option<Bytes>,
    /// Maximum read request, where readable.
    pub max_read_request: Option<Bytes>,
    /// Rate of memory writes.
    pub writes: BitRate,
    /// Rate of memory reads.
    pub reads: BitRate,
}

impl Line {
    /// Returns the equation of an unnamed quantity.
    #[must_use]
    pub fn equation(expression: impl Into<Expression>, result: impl Into<Figure>) -> Self {
        Self::Equation(Equation {
            of: None,
            expression: expression.into(),
            results: vec![result.into()],
            remark: None,
        })
    }

    /// Returns the equation of a quantity.
    #[must_use]
    pub fn of(
        quantity: Quantity,
        expression: impl Into<Expression>,
        result: impl Into<Figure>,
    ) -> Self {
        let mut line = Self::equation(expression, result);
        if let Self::Equation(equation) = &mut line {
            equation.of = Some(quantity);
        }
        line
    }

    /// The same equation, with its value in another unit as well.
    #[must_use]
    pub fn and(mut self, result: impl Into<Figure>) -> Self {
        if let Self::Equation(equation) = &mut self {
            equation.results.push(result.into());
        }
        self
    }

    /// The same equation, with the scope of its value.
    #[must_use]
    pub fn remark(mut self, remark: Remark) -> Self {
        if let Self::Equation(equation) = &mut self {
            equation.remark = Some(remark);
        }
        self
    }
}

impl From<Statement> for Line {
    fn from(statement: Statement) -> Self {
        Self::Statement(statement)
    }
}

impl From<String> for Line {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Line {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl Measure {
    /// Returns a figure of `value` in this unit.
    #[must_use]
    pub const fn figure(self, value: f64) -> Figure {
        Figure { name: None, value, measure: self }
    }

    /// Returns the expression of a count of these.
    pub const fn of(self, value: f64) -> Expression {
        Expression::Figure(self.figure(value))
    }
}

impl Quantity {
    /// Returns the figure with this name.
    pub fn is(self, figure: impl Into<Figure>) -> Expression {
        Expression::Figure(Figure { name: Some(self), ..figure.into() })
    }
}

macro_rules! figures {
    ($($type:ty: $measure:ident, $value:expr;)*) => {$(
        impl From<$type> for Figure {
            fn from(from: $type) -> Self {
                // The annotation gives the closure the type of its argument.
                let value: fn($type) -> f64 = $value;
                Measure::$measure.figure(value(from))
            }
        }

        impl From<$type> for Expression {
            fn from(from: $type) -> Self {
                Self::Figure(Figure::from(from))
            }
        }
    )*};
}

figures! {
    BitRate: BitsPerSecond, |rate| rate.0;
    Bytes: Bytes, |bytes| bytes.0 as f64;
    Nanos: Seconds, |time| time.as_secs_f64();
    f64: One, |number| number;
    u32: One, f64::from;
    u64: One, |number| number as f64;
}

impl From<Figure> for Expression {
    fn from(figure: Figure) -> Self {
        Self::Figure(figure)
    }
}

impl Expression {
    /// Returns this to the power of `exponent`.
    pub fn power(self, exponent: impl Into<Self>) -> Self {
        self.operation(Operator::Power, exponent)
    }

    /// Returns its square root.
    pub fn root(self) -> Self {
        Self::Function(Function::SquareRoot, vec![self])
    }

    /// Returns the largest whole number that is not above it.
    pub fn floor(self) -> Self {
        Self::Function(Function::Floor, vec![self])
    }

    /// Returns the smaller of both.
    pub fn smaller(self, other: impl Into<Self>) -> Self {
        Self::Function(Function::Minimum, vec![self, other.into()])
    }

    fn operation(self, operator: Operator, other: impl Into<Self>) -> Self {
        Self::Operation(Box::new((self, operator, other.into())))
    }
}

macro_rules! operators {
    ($($trait:ident, $method:ident, $operator:ident;)*) => {$(
        impl<T: Into<Expression>> $trait<T> for Expression {
            type Output = Self;

            fn $method(self, other: T) -> Self {
                self.operation(Operator::$operator, other)
            }
        }
    )*};
}

operators! {
    Add, add, Add;
    Sub, sub, Subtract;
    Mul, mul, Multiply;
    Div, div, Divide;
}
