"""How many requests of the trace could be answered in 20 seconds with a third of its bytes as memory and 200 reads a second.

    python3 results/caches/memory_bound.py traces/nasa-19950801

The trace is asked for in its order and again from its beginning; nothing is in memory when it begins. A file that is not in
memory takes as many reads as it has pieces of `READ_BYTES`. Three caches: least recently used first, as a kernel's page cache
does in essence; GDSF, as Lamna's does, in all of the memory and in half of it; and, knowing the future, that which is not asked
for the longest, per byte (greedy, so no strict bound, but more than anybody gets who does not know the future).
"""
import csv, heapq, subprocess, sys
from collections import OrderedDict

SECONDS, READS_PER_SECOND, TURNS = 20, 200, 8
OWN_BYTES = 4 << 20   # of a server, beside what it caches
ENTRY_BYTES = 900     # of GDSF's cache, beside the content
PAGE_BYTES = 4096
BUDGET = SECONDS * READS_PER_SECOND


def trace(name):
    with open(f"{name}.files.csv") as file:
        size = {row["file"]: int(row["size"]) for row in csv.DictReader(file) if row["size"]}
    lines = subprocess.run(["zstdcat", f"{name}.csv.zst"], capture_output=True, text=True, check=True).stdout.splitlines()
    asked = [row["file"] for row in csv.DictReader(lines) if row["method"] in ("GET", "HEAD") and row["file"] in size]
    return size, asked


def reads(size, read_bytes):
    return -(-size // read_bytes)


def answered(asked, size, read_bytes, cache):
    """Requests answered until the reads are used up. `cache` says whether a file is there, and takes it in if not."""
    left = BUDGET
    for number, file in enumerate(asked * TURNS):
        if not cache(number, file):
            left -= reads(size[file], read_bytes)
            if left < 0:
                return number
    return len(asked) * TURNS


def lru(size, capacity):
    held, used = OrderedDict(), 0

    def cache(_, file):
        nonlocal used
        if file in held:
            held.move_to_end(file)
            return True
        held[file] = -(-size[file] // PAGE_BYTES) * PAGE_BYTES
        used += held[file]
        while used > capacity:
            used -= held.popitem(last=False)[1]
        return False
    return cache


def gdsf(size, capacity):
    held, heap, used, age = {}, [], 0, 0.0

    def cache(number, file):
        nonlocal used, age
        cost = size[file] + ENTRY_BYTES
        uses = held[file][1] + 1 if file in held else 1
        is_hit = file in held
        held[file] = (age + uses / cost, uses)
        heapq.heappush(heap, (held[file][0], number, file))
        used += 0 if is_hit else cost
        while used > capacity:
            value, _, victim = heapq.heappop(heap)
            if victim in held and held[victim][0] == value:
                age, used = value, used - size[victim] - ENTRY_BYTES
                del held[victim]
        return is_hit
    return cache


def knowing(size, asked, capacity):
    sequence, later, last = asked * TURNS, [], {}
    for number in range(len(sequence) - 1, -1, -1):
        later.append(last.get(sequence[number], 1 << 60))
        last[sequence[number]] = number
    later.reverse()
    held, used = {}, 0

    def cache(number, file):
        nonlocal used
        is_hit = file in held
        used += 0 if is_hit else size[file]
        held[file] = later[number]
        if used > capacity:
            for victim in sorted(held, key=lambda one: -(held[one] - number) * max(size[one], 1)):
                if used <= capacity:
                    break
                used -= size[victim]
                del held[victim]
        return is_hit
    return cache


size, asked = trace(sys.argv[1])
memory = sum(size[file] for file in set(asked)) // 3 - OWN_BYTES
limit = memory + OWN_BYTES
for read_bytes in (128 << 10, 256 << 10, 1 << 20):
    for name, cache in (
        ("lru", lru(size, memory)), ("gdsf, half of the limit", gdsf(size, limit // 2)), ("gdsf", gdsf(size, memory)),
        ("knowing the future", knowing(size, asked, memory)),
    ):
        print(f"{read_bytes >> 10:5} KiB a read  {name:24} {answered(asked, size, read_bytes, cache) / SECONDS:7.0f} requests/s")
