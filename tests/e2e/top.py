#!/usr/bin/env python3
"""heapsnap top, driven as a person does: in tmux, by keys, at sizes from 40 x 10 to 200 x 60.

    top.py CASE HEAPSNAP
"""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from watched_process import Target

SKIP = 77
MIB = 1 << 20
PATIENCE = 30
STOPS = 20
PROMPT = "prompt-of-the-test$ "
CHURN = """
import sys, threading
print('ready', flush=True)
def churn():
    while not end.is_set():
        [bytes(i % 3000 + 100) for i in range(2000)]
end = threading.Event()
threading.Thread(target=churn).start()
sys.stdin.read()
end.set()
"""


class Screen:
    """A shell in a terminal of tmux; each has a server of its own."""

    def __init__(self, folder, width=100, height=30, term="screen-256color"):
        self.socket = f"{folder}/tmux"
        self.environment = {**os.environ, "TERM": "xterm-256color", "PS1": PROMPT, "LC_ALL": "C.UTF-8"}
        self.environment.pop("TMUX", None)
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height), "-c", folder,
                  "env", f"PS1={PROMPT}", f"TERM={term}", "bash", "--norc", "--noprofile", "-i")
        self.tmux("set", "-g", "escape-time", "0")
        self.wait(re.escape(PROMPT.rstrip()))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(subprocess.CalledProcessError):
            self.tmux("kill-server")

    def tmux(self, *arguments):
        return subprocess.run(["tmux", "-S", self.socket, *arguments], stdout=subprocess.PIPE, text=True, check=True,
                              env=self.environment).stdout

    def text(self):
        return self.tmux("capture-pane", "-p")

    def wait(self, pattern, absent=False):
        """The screen, as soon as the pattern is on it, or no more."""
        return self.wait_for(lambda text: (re.search(pattern, text) is None) == absent, (pattern, absent))

    def wait_for(self, holds, what):
        """The screen, as soon as it is as wanted."""
        deadline = time.monotonic() + PATIENCE
        while True:
            text = self.text()
            if holds(text):
                return text
            assert time.monotonic() < deadline, (what, text)
            time.sleep(0.05)

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def type(self, text):
        self.tmux("send-keys", "-l", text)

    def command(self, *words):
        self.type(" ".join(str(word) for word in words))
        self.keys("Enter")

    def resize(self, width, height):
        self.tmux("resize-window", "-x", str(width), "-y", str(height))

    def ended(self, code):
        """The shell is back, with its prompt on the screen from before. Gives what is there."""
        text = self.wait_for(lambda text: text.rstrip().endswith(PROMPT.strip()), "prompt")
        assert "call stack" not in text and "q quit" not in text, text
        self.type("echo exit-code-$?")
        self.keys("Enter")
        self.wait(rf"(?m)^exit-code-{code}$")
        self.keys("C-l")
        # What the shell found when it took the terminal back.
        self.type("stty -a | tr ' ' '\\n' | grep -xE -- '-?(icanon|echo|isig|icrnl|onlcr);?' | sort | xargs echo modes:")
        self.keys("Enter")
        self.wait("(?m)^modes: echo icanon icrnl isig onlcr")
        return text

    def modes(self):
        """Of the terminal, by stty."""
        tty = self.tmux("display", "-p", "#{pane_tty}").strip()
        return subprocess.run(["stty", "-a", "-F", tty], stdout=subprocess.PIPE, text=True, check=True).stdout

    def pid_of(self, name):
        """Of the program that runs in the terminal's foreground."""
        shell = self.tmux("display", "-p", "#{pane_pid}").strip()
        children = pathlib.Path(f"/proc/{shell}/task/{shell}/children").read_text(encoding="ascii").split()
        found = [int(pid) for pid in children
                 if name in pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="ascii")]
        assert len(found) == 1, (name, children)
        return found[0]


@contextlib.contextmanager
def shown(heapsnap, folder, target, interval="100ms", width=100, height=30):
    with Screen(folder, width, height) as screen:
        screen.command(heapsnap, "top", target.pid, "--interval", interval)
        screen.wait(rf"{target.pid} .*look")
        yield screen


def size(text):
    number, unit = re.fullmatch(r"([\d.]+)([KMG]?)", text).groups()
    return float(number) * {"": 1, "K": 1 << 10, "M": MIB, "G": 1 << 30}[unit]


def resident(text):
    return size(re.search(r"rss ([\d.]+[KMG]?)", text)[1])


def keys(heapsnap, folder):
    """What is shown is the process's memory; keys pause, sort, filter, scroll, help and quit."""
    with Target() as target:
        target.do("thread", 3)
        with shown(heapsnap, folder, target) as screen:
            before = screen.wait(r"\d main")
            assert re.search(r"malloc [\d.]+M  \d arenas", before), before
            assert f"heapsnap inject {target.pid}" in before, before
            target.do("grow", 64 * MIB)
            wanted = resident(before) + 63 * MIB
            screen.wait_for(lambda text: resident(text) >= wanted, wanted)
            screen.keys("p")
            paused = screen.wait("PAUSED")
            target.do("grow", 64 * MIB)
            time.sleep(0.3)  # three looks
            assert resident(screen.text()) == resident(paused)
            screen.keys("Space")
            screen.wait("PAUSED", absent=True)
            # Order.
            screen.wait("system▼")
            screen.keys("s")
            screen.wait("system/s▼")
            screen.keys("F6")
            screen.wait("top▼")
            screen.keys("r")
            screen.wait("top▲")
            # A filter, kept, and removed.
            screen.keys("/")
            screen.type("MAIN")
            screen.wait("filter: MAIN_")
            screen.keys("Enter")
            text = screen.wait('arena with "MAIN"')
            assert "of threads" not in text and "0 main" in text, text
            screen.keys("Escape")
            screen.wait("of threads")
            screen.keys("/")
            screen.type("qqq")  # letters are no commands here
            screen.wait("Nothing has this in its name")
            screen.keys("BSpace", "BSpace", "BSpace")
            screen.wait("of threads")
            screen.keys("Enter")
            # Views.
            screen.keys("Tab")
            screen.wait("Not tracked")
            screen.keys("Tab")
            screen.wait("0 main")
            screen.keys("h")
            text = screen.wait("write a snapshot now")
            assert "A look stops nothing" in text, text
            screen.keys("q")  # closes the help
            screen.wait("0 main")
            screen.keys("Down", "Down", "PageDown", "PageUp", "End", "Home", "j", "k", "G", "g")
            screen.wait("0 main")
            screen.keys("q")
            screen.ended(0)
        assert target.is_well()


def tracked(heapsnap, folder):
    """Of a tracked process the stacks that grow or churn, with names, and all frames of one."""
    with subprocess.Popen([heapsnap, "run", "--", sys.executable, "-c", CHURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True, env=os.environ | {"PYTHONMALLOC": "malloc"}) as process:
        assert process.stdout.readline() == "ready\n"
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii")

        class Churning:
            pid = int(children)

        with shown(heapsnap, folder, Churning, width=140, height=40) as screen:
            text = screen.wait(r"live/s▼")
            screen.keys("s")
            screen.wait(r"churn/s▼")
            # It churns by hundreds of megabytes a second, in some function of Python's.
            text = screen.wait(r"\n *[-\d.]+[KMG]? +\S+ +[\d.]+[MG] +[\d,]+ +[\d,]+ +\S*Py\w+")
            assert re.search(r"churn [\d.]+[MG]/s", text) and re.search(r"allocs [\d,]+/s", text), text
            screen.wait("←")
            screen.wait("its name is looked for", absent=True)
            screen.keys("Home")
            screen.keys("p")
            screen.wait("PAUSED")
            screen.keys("Enter")
            text = screen.wait("innermost frame first")
            assert re.search(r"\n  \S*(start|clone)", screen.text()) or "_Py" in text, text
            screen.keys("Escape")
            screen.wait(r"churn/s▼")
            screen.keys("q")
            screen.ended(0)
        process.communicate("")


def sizes(heapsnap, folder):
    """From 40 x 10 to 200 x 60 and back while it runs; smaller ones are told so."""
    with Target() as target, shown(heapsnap, folder, target) as screen:
        for width, height in ((40, 10), (60, 15), (80, 24), (132, 43), (200, 60), (40, 60), (200, 10)):
            screen.resize(width, height)
            screen.wait(rf"(?m)^{target.pid} .*look.*\n(.*\n){{4}} *system")
            text = screen.wait_for(lambda text: "q quit" in text.splitlines()[-1] and text.count("\n") == height, (width, height))
            assert all(len(line) <= width for line in text.splitlines()), (width, height, text)
            for key, shows in (("h", "w  +(write a )?snapshot"), ("h", "0 main"), ("Tab", "Not tracked"), ("Tab", "0 main")):
                screen.keys(key)
                screen.wait(shows)
        for width, height in ((39, 10), (40, 9), (12, 4), (1, 1)):
            screen.resize(width, height)
            if width >= 12:
                screen.wait("too small")
        screen.resize(80, 24)
        screen.wait(r"(?m)^\d+ .*look")
        screen.keys("q")
        screen.ended(0)


def target_exits(heapsnap, folder):
    """Then it ends in words, with exit code 3."""
    with Target() as target, shown(heapsnap, folder, target) as screen:
        target.kill()
        screen.wait(rf"process {target.pid} \(.*\) has ended")
        screen.ended(3)


def target_executes(heapsnap, folder):
    """Another program is shown from then on; where it has no tracker, without stacks."""
    for kind in ("not tracked", "injected", "run"):
        prefix = (heapsnap, "run", "--") if kind == "run" else ()
        with tempfile.TemporaryDirectory(dir=folder) as own, Target(*prefix) as target, contextlib.ExitStack() as stack:
            if kind == "injected":
                subprocess.run([heapsnap, "inject", str(target.pid)], stdout=subprocess.DEVNULL, check=True)
            screen = stack.enter_context(shown(heapsnap, own, target))
            screen.wait("0 main" if kind == "not tracked" else "blocks  call stack")
            target.do("execute")
            screen.wait("it executed another program")
            screen.keys("Down")  # the message goes
            screen.wait("it executed another program", absent=True)
            # The environment of `run` brings the tracker into the new program as well.
            screen.wait("blocks  call stack" if kind == "run" else "0 main")
            screen.keys("q")
            screen.ended(0)


def not_permitted(heapsnap, folder):
    """Another user's process: what /proc says, and why there is no more. No process at all: in words."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        print("the test needs root and setpriv")
        sys.exit(SKIP)
    os.chmod(folder, 0o755)
    with Target() as target, Screen(folder) as screen:
        screen.command("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", heapsnap, "top", target.pid,
                       "--interval", "100ms")
        text = screen.wait(rf"{target.pid} .*look(.|\n)*no counters of malloc")
        assert resident(text) > MIB, text
        screen.keys("h")
        screen.wait("malloc's counters cannot be read")
        screen.keys("h", "w")
        screen.wait("no snapshot: ")
        screen.keys("q")
        screen.ended(0)
        screen.command(heapsnap, "top", "999999999")
        screen.wait("999999999")
        screen.ended(3)


def snapshot(heapsnap, folder):
    """w writes one, says its name and for how long the process was paused."""
    with Target() as target, shown(heapsnap, folder, target) as screen:
        screen.keys("w")
        said = screen.wait(r"\.1\.hsnap: [\d.]+ KiB, paused [\d.]+ (ms|µs)")
        name = re.search(r"(\S+\.1\.hsnap):", said)[1]
        subprocess.run([heapsnap, "report", f"{folder}/{name}", "-j"], stdout=subprocess.DEVNULL, check=True)
        screen.keys("q")
        screen.ended(0)
        assert target.is_well()


def signals(heapsnap, folder):
    """The terminal is as it was, however it ends; stopped and continued it draws again."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        with tempfile.TemporaryDirectory(dir=folder) as own, Target() as target, shown(heapsnap, own, target) as screen:
            assert "-icanon" in screen.modes()
            os.kill(screen.pid_of("heapsnap"), number)
            screen.ended(128 + number)
            assert target.is_well()
    with Target() as target, shown(heapsnap, folder, target) as screen:
        screen.keys("C-c")
        screen.ended(130)
        for stop in (lambda: screen.keys("C-z"), lambda: os.kill(screen.pid_of("heapsnap"), signal.SIGTSTP)):
            screen.keys("C-l")
            screen.command(heapsnap, "top", target.pid, "--interval", "100ms")
            screen.wait(rf"(?m)^{target.pid} .*look")
            stop()
            screen.wait("Stopped")
            assert "q quit" not in screen.text(), screen.text()
            screen.type("echo between-$((2+2))")
            screen.keys("Enter")
            screen.wait("between-4")
            screen.type("fg")
            screen.keys("Enter")
            screen.wait(rf"(?m)^{target.pid} .*look")
            assert "-icanon" in screen.modes()
            screen.keys("q")
            screen.ended(0)
        # Each stop is one, also while it draws. Under a shell without job control, which does not take the terminal away.
        screen.keys("C-l")
        screen.command("bash", "-c", f"'{heapsnap} top {target.pid} --interval 10ms; exit $?'")
        screen.wait(rf"(?m)^{target.pid} .*look")
        shell = screen.pid_of("bash")
        pid = int(pathlib.Path(f"/proc/{shell}/task/{shell}/children").read_text(encoding="ascii"))
        for _ in range(STOPS):
            os.kill(pid, signal.SIGTSTP)
            wait_for_state(pid, "T")
            os.kill(pid, signal.SIGCONT)
            wait_for_state(pid, "RS")
        os.kill(pid, signal.SIGTERM)
        screen.ended(128 + signal.SIGTERM)
        assert target.is_well()


def wait_for_state(pid, states):
    deadline = time.monotonic() + PATIENCE
    while pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0] not in states:
        assert time.monotonic() < deadline, states
        time.sleep(0.005)


def no_terminal(heapsnap, folder):
    """It prints lines as watch does; a terminal that it does not know is told so."""
    with Target() as target:
        done = subprocess.run([heapsnap, "top", str(target.pid), "--interval", "10ms", "--count", "2"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
        assert len(re.findall(r"(?m)^\d\d:\d\d:\d\d", done.stdout)) == 3, done
        with Screen(folder, term="no-such-terminal") as screen:
            screen.command(heapsnap, "top", target.pid)
            text = screen.wait("TERM is no-such-terminal")
            assert "heapsnap watch" in text, text
            screen.ended(5)


def hostile(heapsnap, folder):
    """Names with control characters do nothing to the terminal."""
    program = "import ctypes,sys; ctypes.CDLL(None).prctl(15, b'a\\x1b[2J\\x07\\xffz', 0, 0, 0); print('ready', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as target:
        assert target.stdout.readline() == "ready\n"
        with shown(heapsnap, folder, target) as screen:
            assert r"a\x1b[2J\x07\xffz" in screen.wait("0 main")
            screen.keys("q")
            screen.ended(0)
        target.communicate("")


def cost(heapsnap, folder):
    """It traces nothing, sends the process no signal, and a look takes less than 2 ms of processor time; of a tracked
    one, whose tables it reads whole, 20 ms."""
    if not shutil.which("strace"):
        print("no strace")
        sys.exit(SKIP)
    log = pathlib.Path(folder) / "calls"
    with Target() as target:
        target.do("thread", 20)
        switches = settled_switches(target.pid)
        with Screen(folder) as screen:
            screen.command("strace", "-f", "-q", "-o", log, "-e", "trace=ptrace,kill,tgkill,pidfd_send_signal,rt_sigaction", heapsnap, "top",
                           target.pid, "--interval", "20ms")
            screen.wait(rf"{target.pid} .*look")
            first = screen.text()
            screen.wait(re.escape(first.splitlines()[0]), absent=True)
            screen.keys("q")
            screen.ended(0)
        traced = log.read_text(encoding="ascii", errors="replace")
        # To ignore a signal is to discard one that is pending: a stop would be lost.
        assert "rt_sigaction(SIGTSTP" in traced and not re.search(r"rt_sigaction\(SIGTSTP, \{sa_handler=SIG_IGN", traced)
        calls = re.findall(rf"ptrace\(.*|kill\({target.pid}.*|pidfd_send_signal\(.*", traced)
        assert not calls, calls
        # It sleeps all the time: nothing takes a processor from it, nor wakes it.
        assert switches_of(target.pid) == switches, (switches_of(target.pid), switches)
    for prefix in ((), (heapsnap, "run", "--")):
        with tempfile.TemporaryDirectory(dir=folder) as own, Target(*prefix) as target, \
                shown(heapsnap, own, target, interval="20ms") as screen:
            screen.wait("0 main|←")  # its names are found
            pid = screen.pid_of("heapsnap")
            took, begin = cpu_seconds(pid), time.monotonic()
            time.sleep(2)
            looks = (time.monotonic() - begin) / 0.02
            each = (cpu_seconds(pid) - took) / looks
            said = re.search(r"look ([\d.]+ [mµ]s)", screen.text())[1]
            print(f"{'tracked' if prefix else 'not tracked'}: a look takes {said}, and {each * 1e6:.0f} us of processor time with "
                  "drawing; nothing is stopped")
            assert each < (20e-3 if prefix else 2e-3), each
            screen.keys("q")
            screen.ended(0)


def switches_of(pid):
    """How often each thread gave up a processor or lost one, and whether it sleeps."""
    return [re.findall(r"(?m)^(?:\w*ctxt_switches|State):\t(\w+)", path.read_text(encoding="ascii", errors="replace"))
            for path in sorted(pathlib.Path(f"/proc/{pid}/task").glob("*/status"))]


def settled_switches(pid):
    """Once all threads sleep and stay asleep."""
    deadline = time.monotonic() + PATIENCE
    while True:
        before = switches_of(pid)
        time.sleep(0.3)
        if switches_of(pid) == before and all(thread[0] == "S" for thread in before):
            return before
        assert time.monotonic() < deadline, before


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    case, heapsnap = sys.argv[1:]
    if not shutil.which("tmux"):
        print("there is no tmux")
        return SKIP
    with tempfile.TemporaryDirectory(prefix="heapsnap-top-") as folder:
        globals()[case](heapsnap, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
