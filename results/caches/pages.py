#!/usr/bin/env python3
"""How much of what the content cache holds the page cache holds as well, with `cache_pages = "keep"` and "release", as CSV.

    results/caches/pages.py LAMNA DIRECTORY > results/caches/pages.csv

2,000 files of 16 KiB on a disk, none of them in the page cache at first, all asked for twice; then what mincore(2) says of them,
and the resident memory of the server. DIRECTORY must not be on a file system that is in memory anyway.
"""
import ctypes, mmap, os, subprocess, sys, tempfile, time, urllib.request

FILES, BYTES, PORT = 2000, 16384, 18442
LIBC = ctypes.CDLL(None, use_errno=True)


def cool(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def resident_bytes(path):
    with open(path, "rb+") as file, mmap.mmap(file.fileno(), 0) as mapping:
        pages = -(-len(mapping) // mmap.PAGESIZE)
        vector = (ctypes.c_ubyte * pages)()
        first = ctypes.c_char.from_buffer(mapping)
        LIBC.mincore(ctypes.byref(first), ctypes.c_size_t(len(mapping)), vector)
        del first
        return sum(byte & 1 for byte in vector) * mmap.PAGESIZE


def measure(lamna, site, arch, pages):
    names = [f"{site}/{number}.bin" for number in range(FILES)]
    for name in names:
        cool(name)
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
        config.write(f'arch = "{arch}"\nworkers = 1\nlog = "off"\nlisten = ["127.0.0.1:{PORT}"]\ncache_bytes = "256MiB"\n'
                     f'cache_pages = "{pages}"\n[[site]]\nroot = "{site}"\n')
        config.flush()
        server = subprocess.Popen([lamna, "serve", "--config", config.name], stderr=subprocess.DEVNULL)
        time.sleep(0.5)
        for _ in range(2):
            for number in range(FILES):
                with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/{number}.bin") as answer:
                    assert len(answer.read()) == BYTES
        memory = next(line for line in open(f"/proc/{server.pid}/status") if line.startswith("VmRSS")).split()[1]
        print(f"{arch},{pages},{FILES * BYTES},{sum(map(resident_bytes, names))},{int(memory) * 1024}", flush=True)
        server.terminate()
        server.wait()


def main():
    lamna, directory = sys.argv[1:3]
    with tempfile.TemporaryDirectory(dir=directory) as site:
        for number in range(FILES):
            with open(f"{site}/{number}.bin", "wb") as file:
                file.write(os.urandom(BYTES))
        print("arch,cache_pages,content_bytes,page_cache_bytes,server_bytes")
        for arch in ["sped", "amped", "pipelined", "proactor", "thread-pool"]:
            for pages in ["keep", "release"]:
                measure(lamna, site, arch, pages)


main()
