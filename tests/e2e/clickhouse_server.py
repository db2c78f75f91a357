"""A ClickHouse server of a test's own: on loopback, on ports that are free, in a folder that is gone afterwards."""

import contextlib
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

from owned_process import OwnedProcess

CONFIG = """<yandex>
<logger><level>warning</level><log>{folder}/log</log><errorlog>{folder}/errors</errorlog><size>100M</size><count>1</count></logger>
<listen_host>127.0.0.1</listen_host><http_port>{http}</http_port><tcp_port>{tcp}</tcp_port>
<path>{folder}/data/</path><tmp_path>{folder}/tmp/</tmp_path><user_files_path>{folder}/files/</user_files_path>
<mark_cache_size>268435456</mark_cache_size><timezone>UTC</timezone>
<users_config>{folder}/users.xml</users_config><default_profile>default</default_profile><default_database>default</default_database>
</yandex>
"""
USERS = """<yandex>
<profiles><default><max_memory_usage>8000000000</max_memory_usage></default></profiles>
<users><default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users>
<quotas><default></default></quotas>
</yandex>
"""


def program():
    """The command that starts a server; None where ClickHouse is not installed. (Its present packages have both.)"""
    for words in (["clickhouse-server"], ["clickhouse", "server"]):
        if shutil.which(words[0]):
            return [shutil.which(words[0]), *words[1:]]
    return None


def free_ports(count):
    with contextlib.ExitStack() as stack:
        return [stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(count)]


class ClickHouseServer(OwnedProcess):
    def __init__(self):
        self.owned = tempfile.TemporaryDirectory(prefix="heapsnap-clickhouse-")
        self.folder = pathlib.Path(self.owned.name)
        http, tcp = free_ports(2)
        self.url = f"http://127.0.0.1:{http}"
        (self.folder / "config.xml").write_text(CONFIG.format(folder=self.folder, http=http, tcp=tcp), encoding="ascii")
        (self.folder / "users.xml").write_text(USERS, encoding="ascii")
        self.output = open(self.folder / "output", "wb")
        self.process = subprocess.Popen([*program(), f"--config-file={self.folder}/config.xml"], stdout=self.output,
                                        stderr=subprocess.STDOUT, cwd=self.folder)
        end = time.monotonic() + 120
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > end:
                text = "".join(path.read_text(errors="replace")[-2000:] for path in
                               (self.folder / "output", self.folder / "errors") if path.exists())
                self.__exit__()
                raise RuntimeError(f"clickhouse-server does not start: {text}")
            time.sleep(0.1)

    def answers(self):
        with contextlib.suppress(OSError), urllib.request.urlopen(self.url + "/ping", timeout=5) as answer:
            return answer.status == 200
        return False

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(30)
        super().__exit__()
        self.output.close()
        self.owned.cleanup()
