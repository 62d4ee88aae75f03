"""The performance of inference services and training, from their own metrics: rows of service_levels.

Owns:      reading the metrics of inference servers (one profile, YAML, per server), quantiles from histograms with
           their uncertainty, progress of training as its client sends it.
Owns not:  devices (exporters, nvml), what slowed a service down, alerts.
Words:     a *service* has *targets*, each the metrics endpoint of one replica. What a counter *gained* is its increase
           within the interval, across restarts. A row without a quantile is the mean over the interval, or a plain
           value.
"""
