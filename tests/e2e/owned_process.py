"""A process that ends with the `with` statement it was started for."""


class OwnedProcess:
    """`self.process` is a subprocess.Popen, set by whoever derives from this."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for file in (self.process.stdin, self.process.stdout, self.process.stderr):
            if file is not None and not file.closed:
                file.close()
