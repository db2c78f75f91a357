#!/usr/bin/env python3
"""Makes the pictures of docs/view.md: page_pictures.py BUILD [FOLDER]

BUILD is a build folder (build/dev); the demo programs in it and its heapsnap are used. Needs chromium, and
playwright-core where node finds it (NODE_PATH). With FOLDER, every view is drawn there instead: light and dark, wide and
narrow, and as it is printed."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
DOCS = HERE.parent / "docs"
VIEWS = ("account", "owners", "flame", "leaks", "map", "sizes", "arenas", "growth", "timeline")
WIDE, NARROW = (1180, 800), (420, 900)


class Demos:
    """Pages of the demo programs."""

    def __init__(self, build, folder):
        self.heapsnap, self.demos, self.folder = build / "tools/heapsnap/heapsnap", build / "tools/demo", pathlib.Path(folder)

    def snapshots(self, name, *arguments, tracked=False, count=1):
        command = [self.demos / name, *arguments]
        if tracked:
            command = [self.heapsnap, "run", "--", *command]
        paths = []
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
            pid = program.stdout.readline().split()[-1]
            for i in range(count):
                paths.append(self.folder / f"{name}{i or ''}.hsnap")
                subprocess.run([self.heapsnap, "attach", "-q", "--references", "yes", "-o", paths[-1], pid], check=True)
            program.stdin.close()
        return paths

    def page(self, *paths):
        page = self.folder / f"{paths[-1].name}.html"
        subprocess.run([self.heapsnap, "view", *paths, "-o", page], check=True, stdout=subprocess.DEVNULL)
        return str(page)

    def report(self, path):
        return json.loads(subprocess.run([self.heapsnap, "report", "-j", path], check=True, capture_output=True).stdout)


def shot(page, fragment, picture, size=WIDE, theme="light"):
    return {"page": page, "fragment": fragment, "picture": str(picture), "width": size[0], "height": size[1], "theme": theme}


def of_docs(demos):
    fragmented = demos.snapshots("leaky_server", "100", tracked=True)
    page = demos.page(*fragmented)
    segment = next(segment for segment in demos.report(fragmented[0])["segments"] if segment["arena"] == 1)
    inside = (int(segment["begin"], 16) + int(segment["end"], 16)) // 2
    cached = demos.page(*demos.snapshots("cache_server", "60"))
    leaking = demos.page(*demos.snapshots("forgetful_server", "8000", tracked=True))
    return [shot(page, "account", DOCS / "view-account.png"), shot(cached, "owners", DOCS / "view-owners.png"),
            shot(page, "flame", DOCS / "view-flame.png"), shot(leaking, "leaks?open=0", DOCS / "view-leaks.png"),
            shot(page, f"map?at={inside:#x}&scale=64", DOCS / "view-map.png", theme="dark")]


def of_all(demos, folder):
    page = demos.page(*demos.snapshots("leaky_server", "60", tracked=True, count=3))
    return [shot(page, view, folder / f"{view}-{theme}-{name}.png", size, theme)
            for view in VIEWS for theme, name, size in (("light", "wide", WIDE), ("dark", "wide", WIDE), ("light", "narrow", NARROW))
            ] + [shot(page, view, folder / f"{view}.pdf") for view in VIEWS]


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    browser = shutil.which("chromium") or sys.exit("there is no chromium here")
    with tempfile.TemporaryDirectory() as folder:
        demos = Demos(pathlib.Path(sys.argv[1]).resolve(), folder)
        shots = of_docs(demos) if len(sys.argv) == 2 else of_all(demos, pathlib.Path(sys.argv[2]))
        subprocess.run(["node", HERE / "page_pictures.cjs", browser], input=json.dumps(shots), text=True, check=True)
    for each in shots:
        os.chmod(each["picture"], 0o644)


main()
