//! Statistics: order-statistic intervals, warm-up detection, fairness, quantum detection (methodology 6).
