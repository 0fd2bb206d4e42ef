#!/usr/bin/python3
"""What scripts/bench runs: measures celldfs next to what it is built from (libcurl,
an empty FUSE daemon, SQLite) and next to s3fs and rclone, on the gateway of the
tests. What is compared is measured by turns, and medians of the turns are compared.

    bench.py [--quick] [--only LETTERS] OUTPUT_DIRECTORY

Needs the environment that `test/s3/gateway env` prints, and CELLDFS_BUILD. Prints a
line for each figure that has a goal, `ratio NAME VALUE goal GOAL ok|short`, and writes
bench.md and bench.svg. Exit status 1: a goal was not reached.
"""
import argparse, contextlib, datetime, fcntl, hashlib, hmac, json, multiprocessing
import os, re, statistics, subprocess, sys, tempfile, time, urllib.parse
import http.client

BUILD = os.environ["CELLDFS_BUILD"]
HERE = os.path.dirname(os.path.abspath(__file__))
ENDPOINT = os.environ["AWS_ENDPOINT_URL"]
BUCKET = os.environ["GATEWAY_BUCKET"]
RECORD = b'{"node":"bench","epoch":1}\n'
now = time.monotonic

# ---- what is measured with -------------------------------------------------------


def presign(method, key, query=()):
    """The URL of a request that anybody may send for a day."""
    url = urllib.parse.urlsplit(f"{ENDPOINT}/{BUCKET}" + (f"/{key}" if key else ""))
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    scope = f"{stamp[:8]}/{os.environ['AWS_REGION']}/s3/aws4_request"
    query = urllib.parse.urlencode(sorted({
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{os.environ['AWS_ACCESS_KEY_ID']}/{scope}",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": "86400",
        "X-Amz-SignedHeaders": "host",
        **dict(query)}.items()), quote_via=urllib.parse.quote, safe="")
    request = f"{method}\n{url.path}\n{query}\nhost:{url.netloc}\n\nhost\nUNSIGNED-PAYLOAD"
    text = (f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n"
            + hashlib.sha256(request.encode()).hexdigest())
    sign = b"AWS4" + os.environ["AWS_SECRET_ACCESS_KEY"].encode()
    for part in (*scope.split("/"), text):
        sign = hmac.new(sign, part.encode(), hashlib.sha256).digest()
    return f"{url.geturl()}?{query}&X-Amz-Signature={sign.hex()}"


def load(operation, seconds, *what):
    """Operations per second and median microseconds, by test/bench/load.c."""
    out = subprocess.run([f"{BUILD}/test/load", operation, str(seconds), *what],
                         check=True, stdout=subprocess.PIPE, text=True).stdout
    return tuple(float(word) for word in out.split())


def by_turns(rounds, **thunks):
    """Calls each in turn, so many times; the median of each one's answers."""
    answers = {name: [] for name in thunks}
    for _ in range(rounds):
        for name, thunk in thunks.items():
            answers[name].append(thunk())
    return {name: statistics.median(each) for name, each in answers.items()}


class Place(contextlib.ExitStack):
    """A directory with mounts and proxies, which all end with it."""

    def __init__(self):
        super().__init__()
        self.dir = self.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
        self.count = 0

    def path(self, name):
        self.count += 1
        return f"{self.dir}/{self.count}-{name}"

    def mounted(self, *command, env=None, foreground=False):
        """Mounts at the directory for which DIR stands; answers it."""
        at = self.path("mount")
        os.mkdir(at)
        words = [at if word == "DIR" else word for word in command]
        if foreground:
            daemon = subprocess.Popen(words)
            self.callback(daemon.wait)
            wait_for(lambda: os.path.ismount(at))
        else:
            subprocess.run(words, check=True, env=env, stderr=subprocess.DEVNULL)
            wait_for(lambda: os.path.ismount(at))
        self.callback(subprocess.run, ["fusermount3", "-u", "-z", at])
        return at

    def celldfs(self, store, options="", endpoint=ENDPOINT):
        return self.mounted(f"{BUILD}/celldfs", store, "DIR",
                            *(["-o", options] if options else []),
                            env={**os.environ, "AWS_ENDPOINT_URL": endpoint})

    def floor(self):
        return self.mounted(f"{BUILD}/test/floor", "DIR", foreground=True) + "/record"

    def s3fs(self, endpoint=ENDPOINT):
        secret = self.path("s3fs")
        with open(secret, "w", opener=lambda p, f: os.open(p, f, 0o600)) as file:
            file.write(f"{os.environ['AWS_ACCESS_KEY_ID']}:"
                       f"{os.environ['AWS_SECRET_ACCESS_KEY']}\n")
        return self.mounted("s3fs", BUCKET, "DIR", "-o", f"url={endpoint},passwd_file="
                            f"{secret},use_path_request_style")

    def rclone(self, endpoint=ENDPOINT):
        env = {**os.environ, "RCLONE_CONFIG_B_TYPE": "s3", "RCLONE_CONFIG_B_PROVIDER": "Ceph",
               "RCLONE_CONFIG_B_ENV_AUTH": "true", "RCLONE_CONFIG_B_ENDPOINT": endpoint,
               "RCLONE_CONFIG": "/dev/null"}
        env.pop("AWS_CA_BUNDLE", None)  # rclone 1.60 refuses it for plain http
        return self.mounted("rclone", "mount", f"b:{BUCKET}", "DIR", "--daemon",
                            "--vfs-cache-mode", "writes", env=env)

    def proxy(self):
        """Its endpoint, and a function: the requests since it was last called."""
        log, port, rules = self.path("log"), self.path("port"), self.path("rules")
        for name in log, rules:
            open(name, "w").close()
        proxy = subprocess.Popen([f"{HERE}/../s3/proxy", "--port-file", port, "--log", log,
                                  "--rules", rules])
        self.callback(proxy.wait)
        self.callback(proxy.terminate)
        wait_for(lambda: os.path.exists(port) and os.path.getsize(port))
        lines = open(log)
        self.callback(lines.close)
        with open(port) as file:
            return f"http://127.0.0.1:{file.read().strip()}", lambda: lines.readlines()


def wait_for(condition, seconds=20):
    end = now() + seconds
    while not condition():
        if now() > end:
            sys.exit("bench: something did not start in time")
        time.sleep(0.01)


def status(mount, key):
    with open(f"{mount}/.celldfs/status") as file:
        return dict(line.rstrip("\n").split(" ", 1) for line in file)[key]


def memory_kib(mount, field):
    with open(f"/proc/{status(mount, 'pid')}/status") as file:
        return int(re.search(rf"^{field}:\s+(\d+)", file.read(), re.M)[1])


def create(mount, cell):
    os.makedirs(f"{mount}/cells/{cell}", exist_ok=True)
    fd = os.open(f"{mount}/cells/{cell}/own", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(fd, RECORD)
    os.close(fd)
    return f"{mount}/cells/{cell}/own"


# ---- what is measured ------------------------------------------------------------


class Report:
    def __init__(self):
        self.rows, self.short, self.plot = [], 0, {}

    def row(self, what, *cells):
        self.rows.append((what, *cells))
        print(f"  {what}:", ", ".join(str(cell) for cell in cells if cell), flush=True)

    def goal(self, name, value, goal, most=True, unit=""):
        """A ratio that is to be at most (else at least) the goal."""
        ok = value <= goal if most else value >= goal
        self.short += not ok
        print(f"ratio {name} {value:.2f}{unit} goal {'<=' if most else '>='}{goal}"
              f"{unit} {'ok' if ok else 'short'}", flush=True)
        return f"{value:.2f}{unit} ({'≤' if most else '≥'} {goal}{unit})" + \
            ("" if ok else ", short")


def reads(place, report, quick):
    """(a) and half of (d): what a read takes."""
    prefix = f"reads-{os.getpid()}"
    mount = place.celldfs(f"s3://{BUCKET}/{prefix}")
    path, url = create(mount, "x"), presign("GET", f"{prefix}/cells/x/own.json")
    floor, slice_s = place.floor(), 0.3 if quick else 1
    files = {"s3fs": place.s3fs(), "rclone": place.rclone()}
    files = {name: f"{at}/{prefix}/cells/x/own.json" for name, at in files.items()}
    for file in files.values():
        wait_for(lambda: os.path.exists(file))

    def command():
        began = now()
        subprocess.run(["curl", "-sfo", "/dev/null", url], check=True)
        return (now() - began) * 1e6

    took = by_turns(9, celldfs=lambda: load("read", slice_s, path)[1],
                    libcurl=lambda: load("get", slice_s, url)[1],
                    floor=lambda: load("read", slice_s / 3, floor)[1],
                    s3fs=lambda: load("read", slice_s / 3, files["s3fs"])[1],
                    rclone=lambda: load("read", slice_s / 3, files["rclone"])[1],
                    command=command)
    report.plot["latency"] = took
    best = took["libcurl"] + took["floor"]
    goal = report.goal("read-latency", took["celldfs"] / best, 1.10)
    report.row("open, read, close", f"{took['celldfs']:.0f} µs",
               f"libcurl {took['libcurl']:.0f} + empty FUSE daemon {took['floor']:.0f} µs", goal)
    report.row("", "", f"`curl` {took['command']:.0f} µs", f"{took['command'] / took['celldfs']:.1f} ×")
    for name in files:
        goal = report.goal(f"read-{name}", took[name] / took["celldfs"], 2, most=False)
        report.row("", "", f"{name} {took[name]:.0f} µs", goal)


def writes(place, report, quick):
    """(b): what a guarded write takes."""
    prefix = f"writes-{os.getpid()}"
    mount = place.celldfs(f"s3://{BUCKET}/{prefix}")
    path, url = create(mount, "x"), presign("PUT", f"{prefix}/bare")
    floor, slice_s = place.floor(), 0.4 if quick else 1.5
    took = by_turns(9, celldfs=lambda: load("write", slice_s, path)[1],
                    libcurl=lambda: load("put", slice_s, url)[1],
                    floor=lambda: load("write", slice_s / 4, floor)[1])
    goal = report.goal("write-latency", took["celldfs"] / (took["libcurl"] + took["floor"]), 1.10)
    report.row("guarded write", f"{took['celldfs']:.0f} µs",
               f"libcurl {took['libcurl']:.0f} + empty FUSE daemon {took['floor']:.0f} µs", goal)


def throughput(place, report, quick):
    """(c): reads per second of many clients."""
    prefix, slice_s = f"many-{os.getpid()}", 1 if quick else 3
    mount = place.celldfs(f"s3://{BUCKET}/{prefix}")
    paths = [create(mount, f"c{n}") for n in range(64)]
    urls = [presign("GET", f"{prefix}/cells/c{n}/own.json") for n in range(64)]
    report.plot["throughput"] = []
    for clients in [32] if quick else [1, 8, 32, 64]:
        rate = by_turns(3 if quick else 5,
                        celldfs=lambda: load("read", slice_s, *paths[:clients])[0],
                        libcurl=lambda: load("multi", slice_s, *urls[:clients])[0])
        ratio = rate["celldfs"] / rate["libcurl"]
        report.plot["throughput"].append((clients, rate["celldfs"], rate["libcurl"]))
        goal = f"{ratio:.2f}"
        if clients == 32:
            goal = report.goal("throughput-32", ratio, 0.8, most=False)
        report.row(f"reads of {clients} clients", f"{rate['celldfs']:.0f} /s",
                   f"libcurl multi {rate['libcurl']:.0f} /s", goal)


def requests(place, report, quick):
    """(d): requests for an operation, counted between mount and gateway."""
    prefix, times = f"requests-{os.getpid()}", 10
    endpoint, seen = place.proxy()
    celldfs = place.celldfs(f"s3://{BUCKET}/{prefix}", endpoint=endpoint)
    create(celldfs, "x")
    files = {"celldfs": f"{celldfs}/cells/x/own",
             "s3fs": f"{place.s3fs(endpoint)}/{prefix}/cells/x/own.json",
             "rclone": f"{place.rclone(endpoint)}/{prefix}/cells/x/own.json"}

    def count(name, operation):
        operation(files[name])  # what is cached after the first time is
        time.sleep(0.5)
        seen()
        for _ in range(times):
            operation(files[name])
        time.sleep(0 if name == "celldfs" else 6)  # rclone writes back after 5 s
        return len(seen()) / times

    def read(path):
        with open(path) as file:
            return file.read()

    def write(path):
        with open(path, "w") as file:
            file.write(RECORD.decode())

    for what, operation in ("read", read), ("write", write):
        found = {name: count(name, operation) for name in files}
        if what == "read":
            goal = report.goal("requests-read", max(
                found["celldfs"] / max(found[name], 0.1) for name in ("s3fs", "rclone")), 1)
        report.row(f"requests for a {what}", f"{found['celldfs']:g}", ", ".join(
            f"{name} {found[name]:g}" for name in ("s3fs", "rclone")),
            goal if what == "read" else "")


def put_one(host, urls):
    connection = http.client.HTTPConnection(host)
    for url in urls:
        connection.request("PUT", url, RECORD)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200, answer.status


def bare_list(prefix):
    """Seconds that all LIST calls of cells/ take, one after the other."""
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(ENDPOINT).netloc)
    query, took, found = {"list-type": "2", "delimiter": "/", "encoding-type": "url",
                          "prefix": f"{prefix}/cells/"}, 0, 0
    while True:
        url = urllib.parse.urlsplit(presign("GET", "", query))
        began = now()
        connection.request("GET", f"{url.path}?{url.query}")
        page = connection.getresponse().read()
        took += now() - began
        found += page.count(b"<CommonPrefixes>")
        token = re.search(rb"<NextContinuationToken>([^<]+)<", page)
        if not token:
            return took, found
        query["continuation-token"] = token[1].decode()


def listing(place, report, quick):
    """(e): ls of many cells."""
    prefix, made = f"list-{os.getpid()}", 0
    mount = place.celldfs(f"s3://{BUCKET}/{prefix}")
    pid = status(mount, "pid")
    for cells in [1000] if quick else [1000, 10000, 100000]:
        urls = [presign("PUT", f"{prefix}/cells/c{n:06}/own.json") for n in range(made, cells)]
        host, made = urllib.parse.urlsplit(ENDPOINT).netloc, cells
        makers = [multiprocessing.Process(target=put_one, args=(host, urls[n::8]))
                  for n in range(8)]
        for maker in makers:
            maker.start()
        for maker in makers:
            maker.join()
            assert maker.exitcode == 0
        idle = memory_kib(mount, "VmRSS")
        with open(f"/proc/{pid}/clear_refs", "w") as file:
            file.write("5")  # the peak begins anew

        def ls():
            began = now()
            found = len(os.listdir(f"{mount}/cells"))
            assert found == cells, found
            return now() - began

        def bare():
            took, found = bare_list(prefix)
            assert found == cells, found
            return took

        took = by_turns(3, celldfs=ls, libcurl=bare)
        more = (memory_kib(mount, "VmHWM") - idle) / 1024
        ratio, goals = took["celldfs"] / took["libcurl"], ""
        goals = f"{ratio:.2f}, {more:.1f} MiB"
        if cells == (1000 if quick else 100000):
            goals = report.goal(f"ls-{cells}", ratio, 1.1) + ", " + \
                report.goal(f"ls-{cells}-memory", more, 32, unit=" MiB")
        report.row(f"ls of {cells} cells", f"{took['celldfs']:.2f} s",
                   f"LIST calls {took['libcurl']:.2f} s", goals)


def waiter(path, rounds, pipe):
    for _ in range(rounds):
        fd = os.open(path, os.O_RDWR | os.O_CREAT)
        fcntl.flock(fd, fcntl.LOCK_EX)
        granted = now()
        let_go = now()
        fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)
        os.write(pipe, f"{granted!r} {let_go!r}\n".encode())


def hand_over(place, report, quick):
    """(f): from one holder's unlock to the next one's lock, with others waiting."""
    for waiters in [2] if quick else [2, 8, 64]:
        mount = place.celldfs(f"s3://{BUCKET}/hand-{os.getpid()}-{waiters}", "node=bench")
        os.makedirs(f"{mount}/cells/x", exist_ok=True)
        readable, writable = os.pipe()
        processes = [multiprocessing.Process(target=waiter, args=(
            f"{mount}/cells/x/own", 8, writable)) for _ in range(waiters)]
        for process in processes:
            process.start()
        os.close(writable)
        with open(readable) as file:
            turns = sorted([float(word) for word in line.split()] for line in file)
        for process in processes:
            process.join()
        assert len(turns) == 8 * waiters
        gaps = [next_one[0] - one[1] for one, next_one in zip(turns, turns[1:])]
        report.row(f"hand-over with {waiters} at it",
                   f"{statistics.median(gaps) * 1000:.1f} ms", "a release and a claim: 2 PUTs")


def idle(place, report, quick):
    """(g): what a node costs that does nothing."""
    seconds = 6 if quick else 60
    endpoint, seen = place.proxy()
    mount = place.celldfs(f"s3://{BUCKET}/idle-{os.getpid()}", "node=bench", endpoint)
    time.sleep(2)
    pid = status(mount, "pid")

    def cpu_s():
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    seen()
    before = cpu_s()
    time.sleep(seconds)
    cpu, lines = cpu_s() - before, [json.loads(line) for line in seen()]
    others = [line for line in lines if (line["op"], line["key"].split("/")[-1]) !=
              ("PUT", "bench.json")]
    rss = memory_kib(mount, "RssAnon") / 1024
    goal = report.goal("idle-memory", rss, 6, unit=" MiB")
    report.row("idle: RssAnon", f"{rss:.1f} MiB", "", goal)
    goal = report.goal("idle-requests-but-renewals", len(others), 0)
    report.row("idle: requests", f"{len(lines) * 3600 / seconds:.0f} an hour", "renewals", goal)
    report.row("idle: CPU", f"{cpu * 3600 / seconds:.1f} s an hour")


def embedded(place, report, quick):
    """(h): swaps on the embedded store."""
    slice_s = 0.3 if quick else 1
    for processes in 1, 16:
        store, bare = place.path("store.db"), place.path("bare.db")
        mount = place.celldfs(f"sqlite:{store}")
        paths = [create(mount, f"c{n}") for n in range(processes)]
        rate = by_turns(7, celldfs=lambda: load("write", slice_s, *paths)[0],
                        sqlite=lambda: load("sqlite", slice_s, *[bare] * processes)[0])
        ratio = rate["celldfs"] / rate["sqlite"]
        goal = report.goal(f"sqlite-{processes}", ratio, 0.8, most=False)
        report.row(f"embedded store, {processes} writing", f"{rate['celldfs']:.0f} /s",
                   f"bare SQLite transaction {rate['sqlite']:.0f} /s", goal)


# ---- how it is told --------------------------------------------------------------


def machine():
    with open("/proc/cpuinfo") as file:
        model = re.search(r"model name\s*:\s*(.*)", file.read())
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return f"{os.cpu_count()} × {model[1] if model else 'CPU'}, {memory:.0f} GiB"


def table(report):
    lines = [f"Measured {datetime.date.today()} on {machine()}; the gateway and its clients "
             "share the machine.", "",
             "| what | celldfs | next to it | ratio (goal) |", "|---|---|---|---|"]
    lines += ["| " + " | ".join((*row, "", "", "")[:4]) + " |" for row in report.rows]
    return "\n".join(lines) + "\n"


def plot(report, path):
    data = "$latency << E\n" + "".join(
        f'"{name}" {report.plot["latency"][key] / 1000:.3f}\n' for name, key in (
            ("libcurl", "libcurl"), ("celldfs", "celldfs"), ("rclone mount", "rclone"),
            ("s3fs", "s3fs"), ("curl(1)", "command"))) + "E\n"
    data += "$many << E\n" + "".join("%d %.0f %.0f\n" % row
                                     for row in report.plot["throughput"]) + "E\n"
    subprocess.run(["gnuplot"], check=True, text=True, input=data + f"""
set terminal svg size 900,340 font 'sans,12' background '#ffffff'
set output '{path}'
set multiplot layout 1,2
set grid ytics lc rgb '#dddddd'
set style fill solid 0.8 noborder
set boxwidth 0.6
set yrange [0:*]
set title 'One read, median (ms)'
unset key
plot $latency using 0:2:xtic(1) with boxes lc rgb '#3465a4', \\
     '' using 0:2:(sprintf('%.2f', $2)) with labels offset 0,0.7
set title 'Reads per second'
set xlabel 'clients'
set key bottom right
set logscale x 2
plot $many using 1:3 with linespoints pt 7 lc rgb '#888888' title 'libcurl multi', \\
     '' using 1:2 with linespoints pt 7 lc rgb '#3465a4' title 'celldfs'
""")


FIGURES = {"a": reads, "b": writes, "c": throughput, "d": requests, "e": listing,
           "f": hand_over, "g": idle, "h": embedded}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="".join(FIGURES))
    parser.add_argument("output")
    options = parser.parse_args()
    report = Report()
    for letter, figure in FIGURES.items():
        if letter not in options.only or (options.quick and letter == "d"):
            continue
        print(f"== {figure.__doc__}", flush=True)
        with Place() as place:
            figure(place, report, options.quick)
    with open(f"{options.output}/bench.md", "w") as file:
        file.write(table(report))
    if {"latency", "throughput"} <= report.plot.keys() and not options.quick:
        plot(report, f"{options.output}/bench.svg")
    sys.exit(report.short > 0)


main()
