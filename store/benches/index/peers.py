#!/usr/bin/env python3
"""What usearch and faiss need for the queries of the index benchmark. Called by it:

    peers.py WORK N [usearch,faiss]

reads vectors.f32, queries.f32 and truth-N.f32 from WORK and prints JSON. Times are CPU times of one thread. Building an HNSW of
10^6 vectors takes a quarter of an hour, so it is kept in WORK; its insert rate is measured when it is built.
"""

import json
import os
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"

import faiss  # noqa: E402
import numpy as np  # noqa: E402
from usearch.index import Index  # noqa: E402

DIM = 256
K = 10
TIE = 1e-6
# What the recall of each peer must reach; the fastest setting that does is told.
USEARCH_RECALL = 0.97
FAISS_RECALL = 0.995


def anonymous_mib():
    for line in open("/proc/self/status"):
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return float("nan")


def timed(action, rounds=3):
    """The best CPU time of a few rounds, in seconds, and what the action gave."""
    best = float("inf")
    for _ in range(rounds):
        before = time.thread_time()
        out = action()
        best = min(best, time.thread_time() - before)
    return best, out


def main():
    work, n = sys.argv[1], int(sys.argv[2])
    wanted = (sys.argv[3] if len(sys.argv) > 3 else "usearch,faiss").split(",")
    vectors = np.memmap(f"{work}/vectors.f32", np.float32, "r").reshape(-1, DIM)[:n]
    queries = np.fromfile(f"{work}/queries.f32", np.float32).reshape(-1, DIM)
    truth = np.fromfile(f"{work}/truth-{n}.f32", np.float32)

    def recall(found):
        hits = 0
        for query, ids, bar in zip(queries, found, truth):
            ids = ids[ids >= 0]
            hits += min(K, int((vectors[ids] @ query >= bar - TIE).sum()))
        return hits / (K * len(queries))

    out = {}
    if "usearch" in wanted:
        out["usearch"] = usearch(work, n, vectors, queries, recall)
    if "faiss" in wanted:
        out["faiss"] = pq_fast_scan(n, vectors, queries, recall)
    json.dump(out, sys.stdout)


def usearch(work, n, vectors, queries, recall):
    """HNSW over 8-bit integers."""

    # A component of a unit vector is small, so 127 for 1 would leave a handful of levels; the cosine does not mind a scale.
    scale = 127 / np.quantile(np.abs(vectors[:: max(1, n // 1000)]), 0.9999)

    def integers(rows):
        return np.clip(np.round(rows * scale), -127, 127).astype(np.int8)

    path, note = f"{work}/usearch-{n}.index", f"{work}/usearch-{n}.json"
    before = anonymous_mib()
    index = Index(ndim=DIM, metric="cos", dtype="i8", connectivity=16, expansion_add=128)
    if os.path.exists(path) and os.path.exists(note):
        index.load(path)
        built = json.load(open(note))
    else:
        # The process's time, since usearch may add on a thread of its own.
        start = time.process_time()
        for at in range(0, n, 10_000):
            rows = vectors[at : at + 10_000]
            index.add(np.arange(at, at + len(rows)), integers(rows), threads=1)
        built = {"seconds": time.process_time() - start}
        json.dump(built, open(note, "w"))
        index.save(path)
    asked = integers(queries)
    for expansion in (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024):
        index.expansion_search = expansion
        # One query a call, as an agent asks; the call itself costs a few microseconds.
        seconds, found = timed(lambda: [index.search(q, K, threads=1).keys for q in asked])
        out = {
            "recall": recall([np.asarray(f, np.int64) for f in found]),
            "ms": seconds * 1e3 / len(queries),
            "expansion": expansion,
            "inserts_per_s": n / built["seconds"],
            "mib": anonymous_mib() - before,
        }
        print("usearch", n, out, file=sys.stderr)
        if out["recall"] >= USEARCH_RECALL:
            break
    return out


def pq_fast_scan(n, vectors, queries, recall):
    """4-bit product quantiser by SIMD look-ups, refined by the vectors themselves."""
    faiss.omp_set_num_threads(1)
    index = faiss.index_factory(DIM, "PQ64x4fs,RFlat", faiss.METRIC_INNER_PRODUCT)
    index.train(np.ascontiguousarray(vectors[:: max(1, n // 65_536)][:65_536]))
    for at in range(0, n, 50_000):
        index.add(np.ascontiguousarray(vectors[at : at + 50_000]))
    for factor in (2, 4, 8, 16, 32, 64, 100, 200):
        parameters = faiss.IndexRefineSearchParameters(k_factor=factor)
        seconds, found = timed(lambda: [index.search(q[None], K, params=parameters)[1][0] for q in queries])
        out = {"recall": recall(found), "ms": seconds * 1e3 / len(queries), "k_factor": factor}
        print("faiss", n, out, file=sys.stderr)
        if out["recall"] >= FAISS_RECALL:
            break
    return out


if __name__ == "__main__":
    main()
