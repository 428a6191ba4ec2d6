#!/usr/bin/env python3
"""What pictures in other sizes cost: to make one, to serve one that was made, and whoever asks for something else meanwhile.

    cargo build --release && bench/images.py [--photo FILE] [--pictures 100] [--rounds 12] [--engines amped,proactor]

A JPEG of 12 million pixels, made of noise at several scales unless a photograph is given, is scaled to 400 by 300 pixels: the CPU time of
the server for each of ten, beside that of `vipsthumbnail` for the same, whose start alone is measured, too. Both results are compared by SSIM (grey,
windows of 8 by 8). Then hot files are asked for 400 times a second while so many pictures are scaled over eight connections. At last a scaled picture from the cache and a
file of the same size are asked for in turns (wrk), and the CPU time for each request is compared.
"""
import argparse
import http.client
import multiprocessing
import os
import resource
import statistics
import subprocess
import tempfile
import time

import servers
from servers import PRIORITY, Server, parse_wrk, write

PORT = 18795
SIZES = "400"
HOT_RATE = 400


def make_photo(path):
    """Noise at several scales, which compresses about as photographs do."""
    with tempfile.TemporaryDirectory(prefix="lamna-photo-") as work:
        def vips(*arguments):
            subprocess.run(["vips", *[one.replace("@", f"{work}/") for one in arguments]], check=True)
        vips("gaussnoise", "@fine.v", "4000", "3000", "--mean", "128", "--sigma", "60")
        vips("gaussblur", "@fine.v", "@soft.v", "3")
        vips("gaussnoise", "@small.v", "500", "375", "--mean", "0", "--sigma", "60")
        vips("resize", "@small.v", "@coarse.v", "8")
        vips("add", "@soft.v", "@coarse.v", "@sum.v")
        vips("cast", "@sum.v", "@bytes.v", "uchar")
        vips("flip", "@bytes.v", "@second.v", "horizontal")
        vips("flip", "@bytes.v", "@third.v", "vertical")
        vips("bandjoin", "@bytes.v @second.v @third.v".replace("@", f"{work}/"), "@colours.v")
        vips("copy", "@colours.v", "@photo.v", "--interpretation", "srgb")
        vips("jpegsave", "@photo.v", path, "--Q", "90")


def cpu_of(command):
    """Seconds of a processor that a program takes, with all its threads."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def grey(path, work):
    """Width, height and rows of a picture."""
    subprocess.run(["vips", "colourspace", path, f"{work}/grey.v", "b-w"], check=True)
    subprocess.run(["vips", "rawsave", f"{work}/grey.v", f"{work}/grey.raw"], check=True)
    head = subprocess.run(["vipsheader", "-f", "width", f"{work}/grey.v"], check=True, stdout=subprocess.PIPE, text=True)
    width = int(head.stdout)
    with open(f"{work}/grey.raw", "rb") as file:
        content = file.read()
    return width, [content[at:at + width] for at in range(0, len(content), width)]


def ssim(one, other):
    """The mean of the structural similarity (Wang et al. 2004) over windows of 8 by 8, every four pixels."""
    c1, c2, found = (0.01 * 255) ** 2, (0.03 * 255) ** 2, []
    for top in range(0, len(one) - 8, 4):
        for left in range(0, len(one[0]) - 8, 4):
            x = b"".join(row[left:left + 8] for row in one[top:top + 8])
            y = b"".join(row[left:left + 8] for row in other[top:top + 8])
            mx, my = sum(x) / 64, sum(y) / 64
            vx = sum(a * a for a in x) / 64 - mx * mx
            vy = sum(a * a for a in y) / 64 - my * my
            both = sum(a * b for a, b in zip(x, y)) / 64 - mx * my
            found.append((2 * mx * my + c1) * (2 * both + c2) / ((mx * mx + my * my + c1) * (vx + vy + c2)))
    return statistics.mean(found)


def get(connection, path):
    connection.request("GET", path)
    answer = connection.getresponse()
    content = answer.read()
    assert answer.status == 200, (path, answer.status, content[:200])
    return content


def scale_all(paths, connections=8):
    """Processes that ask for all of these pictures: threads would take turns with whoever measures."""
    def work(mine):
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=120)
        for path in mine:
            get(connection, path)
    paths = list(paths)
    processes = [multiprocessing.Process(target=work, args=(paths[number::connections],)) for number in range(connections)]
    for process in processes:
        process.start()
    return processes


def hot_latencies(until):
    """Milliseconds of answers to a small file, asked for so many times a second, until that is so."""
    connection, found = http.client.HTTPConnection("127.0.0.1", PORT, timeout=30), []
    due = time.monotonic()
    while not until():
        due += 1 / HOT_RATE
        time.sleep(max(0, due - time.monotonic()))
        begun = time.monotonic()
        get(connection, "/f500.html")
        found.append(1000 * (time.monotonic() - begun))
    return sorted(found)


def percentiles(found):
    at = lambda share: found[min(len(found) - 1, int(share * len(found)))]
    return f"p50 {at(0.5):.2f} ms, p99 {at(0.99):.2f} ms, most {found[-1]:.2f} ms, of {len(found)}"


def wrk(path):
    command = [*PRIORITY, "wrk", "-t1", "-c8", "-d1s", "--latency", f"http://127.0.0.1:{PORT}{path}"]
    return parse_wrk(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def measure(engine, options, work):
    write(f"{work}/{engine}.toml", f'listen = ["127.0.0.1:{PORT}"]\narch = "{engine}"\nworkers = 1\nlog = "off"\nadmin = "off"\n'
          f'request_limit = "off"\n[[site]]\nroot = "{work}/site"\n[[site.route]]\nmatch = "*"\n'
          f'filters = [{{ name = "images", sizes = "{SIZES}" }}]\n')
    server = Server(engine, [os.path.join(servers.ROOT, "target/release/lamna"), "serve", "--config", f"{work}/{engine}.toml"], PORT)
    try:
        # On all processors, as a server runs that shares its machine with nobody: the load is small here.
        every = f"0-{os.cpu_count() - 1}"
        subprocess.run(["taskset", "-a", "-c", "-p", every, str(server.process.pid)], check=True, stdout=subprocess.DEVNULL)
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=120)
        made = get(connection, "/one/0.jpg?scale=400")
        before = server.cpu_us()
        for number in range(1, 11):
            get(connection, f"/one/{number}.jpg?scale=400")
        print(f"{engine}: {(server.cpu_us() - before) / 10_000:.0f} ms of a processor for each picture", flush=True)
        quiet_until = time.monotonic() + 5
        print(f"{engine}: hot files, nothing else: {percentiles(hot_latencies(lambda: time.monotonic() > quiet_until))}")
        askers = scale_all(f"/many/{number}.jpg?scale=400" for number in range(options.pictures))
        found = hot_latencies(lambda: not any(asker.is_alive() for asker in askers))
        print(f"{engine}: hot files while {options.pictures} pictures are scaled: {percentiles(found)}", flush=True)
        with open(f"{work}/site/same.bin", "wb") as file:
            file.write(made)
        costs = {"/one/0.jpg?scale=400": [], "/same.bin": []}
        for path in costs:
            wrk(path)
        for _ in range(options.rounds):
            for path, of_path in costs.items():
                before = server.cpu_us()
                told = wrk(path)
                of_path.append((server.cpu_us() - before) / told["requests"])
        variant, plain = costs.values()
        ratios = sorted(one / other for one, other in zip(variant, plain))
        quarter = len(ratios) // 4
        print(f"{engine}: from the cache, {len(made)} bytes: {statistics.median(variant):.2f} us a request scaled, "
              f"{statistics.median(plain):.2f} us as a file; ratio {statistics.median(ratios):.3f} "
              f"({ratios[quarter]:.3f} to {ratios[-1 - quarter]:.3f})", flush=True)
        return made
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photo")
    parser.add_argument("--pictures", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--engines", default="amped,proactor")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lamna-bench-") as work:
        for folder in ("site/one", "site/many"):
            os.makedirs(f"{work}/{folder}")
        write(f"{work}/site/f500.html", "x" * 500)
        photo = options.photo or f"{work}/photo.jpg"
        if not options.photo:
            make_photo(photo)
        with open(photo, "rb") as file:
            content = file.read()
        with open(f"{work}/site/photo.jpg", "wb") as file:
            file.write(content)
        for number in range(max(11, options.pictures)):
            for folder in ("one", "many"):
                os.link(f"{work}/site/photo.jpg", f"{work}/site/{folder}/{number}.jpg")
        command = ["vipsthumbnail", photo, "-s", "400x", "-o", f"{work}/vips.jpg[Q=80]"]
        whole = statistics.median(cpu_of(command) for _ in range(10))
        start = statistics.median(cpu_of(["vipsthumbnail", "--version"]) for _ in range(10))
        print(f"{len(content)} bytes; vipsthumbnail: {1000 * whole:.0f} ms of a processor, {1000 * start:.0f} of them to start", flush=True)
        for engine in options.engines.split(","):
            made = measure(engine, options, work)
        with open(f"{work}/made.jpg", "wb") as file:
            file.write(made)
        (width, ours), (other_width, theirs) = grey(f"{work}/made.jpg", work), grey(f"{work}/vips.jpg", work)
        assert (width, len(ours)) == (other_width, len(theirs)), "the same size"
        print(f"SSIM of both results: {ssim(ours, theirs):.4f}")


main()
