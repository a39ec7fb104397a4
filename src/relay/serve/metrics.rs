//! What is counted, as Prometheus reads it.
//!
//! Built anew for each scrape from the same snapshot as the status page. The label `server` holds
//! configured names and all others words of ours, so their number is bounded by the settings.

use std::{fmt, sync::Arc};

use axum::{
    body::Body,
    extract::State,
    http::{
        HeaderMap, HeaderValue,
        header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE},
    },
    response::Response,
};
use prometheus_client::{
    collector::Collector,
    encoding::{
        DescriptorEncoder, EncodeLabelSet, EncodeMetric, prometheus_text,
        text::{self as openmetrics},
    },
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::{Registry, Unit},
};

use super::Shared;
use crate::{
    limits::{ServerName, ThrottleMode},
    question::QuestionKind,
    throttle::{KindSnapshot, ServerSnapshot, Snapshot},
    usage::{ANSWER_TIMES, Endings, UsageCount},
};

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PREFIX: &str = "mcp_question_throttle";

/// `GET /metrics`: OpenMetrics for who asks for it, and the older text for all others.
pub(super) async fn scrape(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Scrape {
        snapshot: shared.snapshot(),
        relayed: shared.relayed(),
    }));
    let wants_openmetrics = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|accept| accept.to_str().ok())
        .any(|accept| accept.contains("application/openmetrics-text"));
    let mut text = String::new();
    // Writing to a string fails only where a metric of ours cannot be written at all.
    let (kind, written) = if wants_openmetrics {
        (OPENMETRICS, openmetrics::encode(&mut text, &registry))
    } else {
        let written = prometheus_text::encode(&mut text, &registry);
        (prometheus_text::CONTENT_TYPE, written)
    };
    if let Err(error) = written {
        let status = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
        return super::failure::answer(status, format_args!("cannot write the metrics: {error}"));
    }
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// What the relay counts of one server, apart from questions.
#[derive(Clone, Debug)]
pub(super) struct Relayed {
    pub(super) server: ServerName,
    pub(super) unreadable: u64,
    pub(super) undelivered: u64,
    pub(super) shortages: u64,
}

#[derive(Debug)]
struct Scrape {
    snapshot: Snapshot,
    relayed: Vec<Relayed>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfServer {
    server: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfKind {
    server: String,
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfVerdict {
    server: String,
    kind: &'static str,
    origin: &'static str,
    verdict: &'static str,
    cause: &'static str,
    limit: &'static str,
}

impl Scrape {
    /// Every server, with each kind of question.
    fn kinds(&self) -> impl Iterator<Item = (OfKind, &KindSnapshot, Option<&Endings>)> {
        self.snapshot.servers.iter().flat_map(|server| {
            QuestionKind::ALL.map(|kind| {
                let usage = server.usage.as_ref();
                let (counts, endings) = match kind {
                    QuestionKind::Sampling => (&server.sampling, usage.map(|it| &it.sampling)),
                    QuestionKind::Elicitation => {
                        (&server.elicitation, usage.map(|it| &it.elicitation))
                    }
                };
                let labels = OfKind {
                    server: server.server.as_str().to_owned(),
                    kind: kind.as_str(),
                };
                (labels, counts, endings)
            })
        })
    }

    fn verdicts(&self) -> impl Iterator<Item = (OfVerdict, u64)> {
        let counts = |server: &'_ ServerSnapshot| {
            let usage = server.usage.as_ref();
            usage
                .map(|usage| usage.counts.as_slice())
                .unwrap_or_default()
                .to_vec()
        };
        self.snapshot.servers.iter().flat_map(move |server| {
            counts(server).into_iter().map(|count: UsageCount| {
                let labels = OfVerdict {
                    server: server.server.as_str().to_owned(),
                    kind: count.kind.as_str(),
                    origin: count.origin.as_str(),
                    verdict: count.verdict.as_str(),
                    cause: count.cause.unwrap_or_default(),
                    limit: count.limit.map(|limit| limit.as_str()).unwrap_or_default(),
                };
                (labels, count.questions)
            })
        })
    }
}

impl Collector for Scrape {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        counters(
            &mut to,
            "questions",
            "Questions decided; cause and limit are empty for those admitted",
            self.verdicts(),
        )?;
        let ended = |ended: fn(&Endings) -> u64| {
            self.kinds()
                .filter_map(move |(labels, _, it)| Some((labels, ended(it?))))
        };
        counters(
            &mut to,
            "questions_expired",
            "Admitted questions that nobody answered within proto.askTTL",
            ended(|endings| endings.expired),
        )?;
        counters(
            &mut to,
            "questions_cancelled",
            "Admitted questions that were taken back, or whose session went",
            ended(|endings| endings.cancelled),
        )?;
        gauges(
            &mut to,
            "questions_open",
            "Admitted questions without an answer so far",
            ended(|endings| endings.open),
        )?;
        gauges(
            &mut to,
            "window_used",
            "Questions admitted in the server's open window",
            self.kinds()
                .map(|(labels, counts, _)| (labels, u64::from(counts.window.used))),
        )?;
        gauges(
            &mut to,
            "window_limit",
            "Questions that the server's window admits; absent while there is no limit",
            self.kinds()
                .filter_map(|(labels, counts, _)| Some((labels, u64::from(counts.window.limit?)))),
        )?;
        let of_servers = |value: fn(&ServerSnapshot) -> bool| {
            self.snapshot.servers.iter().map(move |server| {
                let labels = OfServer {
                    server: server.server.as_str().to_owned(),
                };
                (labels, u64::from(value(server)))
            })
        };
        gauges(
            &mut to,
            "server_muted",
            "Whether every question of the server is refused",
            of_servers(|server| server.muted),
        )?;
        gauges(
            &mut to,
            "server_observed",
            "Whether the server's limits refuse nothing",
            of_servers(|server| server.mode == ThrottleMode::Observe),
        )?;
        let relayed = |value: fn(&Relayed) -> u64| {
            self.relayed.iter().map(move |it| {
                let labels = OfServer {
                    server: it.server.as_str().to_owned(),
                };
                (labels, value(it))
            })
        };
        counters(
            &mut to,
            "unreadable_frames",
            "Frames withheld since nobody can read them for sure",
            relayed(|it| it.unreadable),
        )?;
        counters(
            &mut to,
            "undelivered_refusals",
            "Refusals that the server did not take",
            relayed(|it| it.undelivered),
        )?;
        counters(
            &mut to,
            "memory_shortages",
            "Messages that found no room: refused with 503, or passed on in parts",
            relayed(|it| it.shortages),
        )?;
        self.answer_times(&mut to)
    }
}

impl Scrape {
    fn answer_times(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "How long clients took to answer admitted questions";
        let (name, seconds) = ("time_to_answer", Some(&Unit::Seconds));
        let mut metric = to.encode_descriptor(name, help, seconds, MetricType::Histogram)?;
        for (labels, _, endings) in self.kinds() {
            let Some(endings) = endings else { continue };
            let bounds = ANSWER_TIMES.into_iter().chain([f64::INFINITY]);
            let buckets: Vec<_> = bounds.zip(endings.answer_times.iter().copied()).collect();
            metric
                .encode_family(&labels)?
                .encode_histogram::<NoLabels>(
                    endings.answer_seconds,
                    endings.answered,
                    &buckets,
                    None,
                )?;
        }
        Ok(())
    }
}

type NoLabels = [(&'static str, &'static str); 0];

fn counters<L: EncodeLabelSet>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl Iterator<Item = (L, u64)>,
) -> fmt::Result {
    let mut metric = to.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, value) in values {
        ConstCounter::new(value).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

fn gauges<L: EncodeLabelSet>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl Iterator<Item = (L, u64)>,
) -> fmt::Result {
    let mut metric = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in values {
        // A number of questions at once, or one of a window: far below the largest.
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        ConstGauge::new(value).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}
