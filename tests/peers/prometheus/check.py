"""Reads metrics from standard input with Prometheus' own parser for Python, and prints them as JSON.

check.py classic|openmetrics: a list of [name, labels, value], in the order of the text.
"""

import json
import sys

from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics

READERS = {
    "classic": parser.text_string_to_metric_families,
    # Strict: it wants suffixes, units, the order of buckets and the end of the text.
    "openmetrics": openmetrics.text_string_to_metric_families,
}

samples = []
for family in READERS[sys.argv[1]](sys.stdin.read()):
    if family.type == "unknown" or not family.documentation:
        sys.exit(f"{family.name} has no type or no help")
    samples += [[s.name, s.labels, s.value] for s in family.samples]
json.dump(samples, sys.stdout)
