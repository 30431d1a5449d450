//! Groups of performance counters (`perf_event_open`).
