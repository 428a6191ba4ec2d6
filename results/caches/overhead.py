#!/usr/bin/env python3
"""Memory that caches take for themselves, by architecture and number of processors: the formulas of PIPELINED's Table 1 with
the paper's figures and with Lamna's, as CSV.

    results/caches/overhead.py > results/caches/overhead.csv

Lamna's figures: 768 bytes for an entry with its translation (`cargo test -p lamna-server --test memory`, lru), one store for
all workers of a process; the processes of co-amped have equal parts of it; each of 32 processes of mp has at most 200
entries. The threads' and helpers' own memory is the paper's in both columns: it was not measured.
"""
DATA_CACHE_BYTES, FILE_BYTES = 1 << 30, 15 * 1024
ENTRIES = DATA_CACHE_BYTES // FILE_BYTES
PAPER, LAMNA, PROCESSES, MP_ENTRIES, THREADS = 850, 768, 32, 200, 64
print("architecture,processors,paper_bytes,lamna_bytes")
for n in range(1, 17):
    rows = {
        "mp": (ENTRIES * PAPER * n * PROCESSES, MP_ENTRIES * LAMNA * n * PROCESSES),
        "thread-pool": (ENTRIES * PAPER + THREADS * 25_000, ENTRIES * LAMNA + THREADS * 25_000),
        "sped": (ENTRIES * PAPER * n, ENTRIES * LAMNA),
        "amped": (ENTRIES * PAPER * n + 3_000_000 * n, ENTRIES * LAMNA + 3_000_000 * n),
    }
    for name, (paper, lamna) in rows.items():
        print(f"{name},{n},{paper},{lamna}")
