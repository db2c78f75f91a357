"""One run of heapsnap on hostile input, and what may be expected of it whatever the input is: it ends by itself, in
bounded time and memory, with an exit code that the manual names, and where it refuses it says why in words."""

import os
import pathlib
import resource
import signal
import subprocess
import threading

HANG_SECONDS = 120
PROCESSOR_SECONDS = 10
MEMORY = 384 << 20
MEMORY_PER_BYTE = 64  # of the input
SANITIZED_FACTOR = 4  # what ASan and UBSan cost, in time and memory
SANITIZER_EXIT = 99
DONE, FOUND, NO_PROCESS, NOT_PERMITTED, UNSUPPORTED, BAD_INPUT = 0, 1, 3, 4, 5, 6
SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": f"exitcode={SANITIZER_EXIT}:max_allocation_size_mb=2048:detect_leaks=0",
    "UBSAN_OPTIONS": f"exitcode={SANITIZER_EXIT}:print_stacktrace=1",
}
# What an exception of the library says of itself, and no sentence does.
RAW_TEXTS = ("internal error", "std::", "basic_string", "vector::", "bad_alloc", "_M_", "terminate called", "map::at",
             "what()", "out of memory")
SANITIZER_TEXTS = ("Sanitizer", "runtime error:")


class Verdict:
    """`fault` is empty, or says which expectation did not hold. `written`: bytes of output, where that was a pipe."""

    def __init__(self, words, code, seconds, memory, written, errors, fault):
        self.words, self.code, self.seconds, self.memory = words, code, seconds, memory
        self.written, self.errors, self.fault = written, errors, fault


def size_of_rest(pipe):
    size = 0
    while data := pipe.read(1 << 20):
        size += len(data)
    return size


class BoundedRun:
    """Runs one heapsnap binary; remembers what the runs took at most."""

    def __init__(self, heapsnap, folder):
        self.heapsnap = str(heapsnap)
        self.errors_path = pathlib.Path(folder) / "errors"
        self.factor = SANITIZED_FACTOR if b"__asan_init" in pathlib.Path(heapsnap).read_bytes() else 1
        self.runs = 0
        self.codes = {}
        self.slowest = (0.0, "")
        self.largest = (0, "")

    def __call__(self, *words, codes=(DONE, BAD_INPUT), input_size=0, name="", output=subprocess.DEVNULL):
        argv = [self.heapsnap, *(str(word) for word in words)]
        cpu = PROCESSOR_SECONDS * self.factor

        def limit():
            resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        with open(self.errors_path, "wb") as errors:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                                       env=os.environ | SANITIZER_OPTIONS, preexec_fn=limit)
            hang = threading.Timer(HANG_SECONDS, process.kill)
            hang.start()
            written = 0
            if process.stdout:
                with process.stdout:
                    written = size_of_rest(process.stdout)
            _, status, usage = os.wait4(process.pid, 0)
            hang.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        text = self.errors_path.read_bytes().decode(errors="replace")
        seconds = usage.ru_utime + usage.ru_stime
        memory = usage.ru_maxrss << 10
        self.runs += 1
        self.codes[process.returncode] = self.codes.get(process.returncode, 0) + 1
        self.slowest = max(self.slowest, (seconds, f"{words[0]} {name}"))
        self.largest = max(self.largest, (memory, f"{words[0]} {name}"))
        fault = self.fault_of(process.returncode, text, memory, input_size, codes)
        return Verdict(words, process.returncode, seconds, memory, written, text, fault)

    def fault_of(self, code, text, memory, input_size, codes):
        if any(word in text for word in SANITIZER_TEXTS) or code == SANITIZER_EXIT:
            return "a sanitizer's report"
        if code < 0:
            name = signal.Signals(-code).name
            return f"death by {name}" + (": too slow" if name in ("SIGXCPU", "SIGKILL") else "")
        if code not in codes:
            return f"exit code {code}"
        most = (MEMORY + MEMORY_PER_BYTE * input_size) * self.factor
        if memory > most:
            return f"{memory >> 20} MiB of memory, for an input of {input_size} bytes"
        if any(raw in text for raw in RAW_TEXTS):
            return "an exception's own text"
        if code not in (DONE, FOUND) and not (text.startswith("heapsnap: ") and "\n  why: " in text):
            return f"exit code {code} without an explanation"
        return ""

    def summary(self):
        codes = ", ".join(f"{count} x {code}" for code, count in sorted(self.codes.items()))
        return (f"{self.runs} runs; exit codes {codes}; slowest {self.slowest[0]:.2f} s ({self.slowest[1]}); "
                f"most memory {self.largest[0] >> 20} MiB ({self.largest[1]})")
