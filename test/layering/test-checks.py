#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Do the checks of this folder find what they are there for? And does .pre-commit-config.yaml name what there is?

usage: test-checks.py SOURCE_ROOT
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
LONG = "word " * 30


def run(root, check, *args):
    """@return exit code and output."""
    p = subprocess.run([sys.executable, "-B", HERE / check, root, *args], capture_output=True, text=True, check=False)
    return p.returncode, p.stdout + p.stderr


class Tree:
    """A small tree, with one file more."""

    MAP = "# The map\n\n    base → wire\n\n## Which folder includes which\n\n| folder | includes |\n|---|---|\n" \
          "| `base` | |\n| `wire` | `base` |\n"

    def __init__(self, **files):
        self.files = {"src/README.md": self.MAP, "src/base/list.h": "int list;\n",
                      "src/wire/ip.c": '#include "base/list.h"\n', **files}

    def __enter__(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="rocemu-checks-"))
        for name, text in self.files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return self.root

    def __exit__(self, *_):
        shutil.rmtree(self.root)


def includes__to_the_right__found():
    for name, text, said in (
        ("src/base/list.h", '#include "wire/ip.h"\n', "base must not include wire/ip.h"),
        ("src/wire/more.c", '#include "transport/qp.h"\n', "wire must not include transport/qp.h"),
        ("src/wire/more.c", '#include "../base/list.h"\n', "instead of a way through the tree"),
        ("src/wire/more.c", '#include "nowhere.h"\n', '"nowhere.h" is not there'),
        ("src/wire/more.c", "#include <pthread.h>\n", "wire must not include <pthread.h>"),
        ("src/wire/ip.c", "\n", "wire may include base, and has no use for it"),
        ("src/new/more.c", "\n", "new has no row"),
    ):
        with Tree(**{"src/wire/ip.h": "\n", "src/transport/qp.h": "\n", name: text}) as root:
            code, out = run(root, "includes.py")
            assert code == 1 and said in out, (name, text, out)


def includes__of_the_lab__main_only():
    rules = Tree.MAP + "| `../tools` | `../lab/x` |\n"
    lab = "# The lab\n\n## Which folder includes which\n\n| folder | includes |\n|---|---|\n| `lab` | `tools` |\n| `lab/x` | |\n"
    for name, text, said in (
        ("tools/main.c", '#include "x/x.h"\n', None),
        ("tools/more.c", '#include "x/x.h"\n', "tools/more.c must not include x/x.h"),
        ("src/wire/more.c", '#include "x/x.h"\n', "wire must not include x/x.h"),
        ("lab/x/x.c", '#include "base/list.h"\n', "lab/x must not include base/list.h"),
        ("lab/more.c", '#include "more.h"\n', "lab reaches tools through tool.h only"),
        ("lab/y/y.c", "\n", "lab/README.md: lab/y has no row"),
    ):
        tree = {"src/README.md": rules, "lab/README.md": lab, "lab/x/x.h": "\n", "tools/tool.h": "\n", "tools/more.h": "\n",
                "lab/cmd.c": '#include "tool.h"\n', "tools/main.c": '#include "x/x.h"\n', name: text}
        with Tree(**tree) as root:
            out = run(root, "includes.py")[1]
            assert said in out if said else "must not include" not in out, (name, text, out)


def map__file_without_its_row__found():
    top = Tree.MAP.replace("\n\n##", "\n\n| folder | what |\n|---|---|\n| `base` | |\n| `wire` | |\n\n##", 1)
    head = "| file | owns |\n|---|---|\n"
    row = "| `ip.c` | |\n"
    tool = f"## Inside tools/x\n\n{head}| `x.c` | |\n"
    for text, said in (
        (f"## Inside wire\n\n{head}{row}\n{tool}", None),
        (f"## Inside wire\n\n{head}\n{tool}", "no table for src/wire"),
        (f"## Inside wire\n\n{head}{row}", "no table for tools/x"),
        (f"## Inside wire\n\n{head}{row}{row}\n{tool}", "src/wire/ip.c is listed 2 times"),
        (f"## Inside wire\n\n{head}{row}\n{tool}| `y.c` | |\n", "tools/x has no y.c"),
    ):
        with Tree(**{"src/README.md": f"{top}\n{text}", "tools/x/x.c": "\n"}) as root:
            code, out = run(root, "map.py")
            assert code == (said is not None) and (said or "") in out, (text, out)


def map__of_the_lab__on_its_page():
    top = Tree.MAP.replace("\n\n##", "\n\n| folder | what |\n|---|---|\n| `base` | |\n| `wire` | |\n\n##", 1)
    head = "| file | owns |\n|---|---|\n"
    rules = "# The lab\n\n## Which folder includes which\n\n| folder | includes |\n|---|---|\n| `lab/x` | |\n\n"
    for rows, said in (
        ("| `x.c` | |\n", None),
        ("", "lab/README.md: no table for lab/x"),
        ("| `x.c`, `y.c` | |\n", "lab/README.md: lab/x has no y.c"),
    ):
        with Tree(**{"src/README.md": f"{top}\n## Inside wire\n\n{head}| `ip.c` | |\n", "lab/x/x.c": "\n",
                     "lab/README.md": f"{rules}## Inside lab/x\n\n{head}{rows}"}) as root:
            code, out = run(root, "map.py")
            assert code == (said is not None) and (said or "") in out, (rows, out)


def columns__long_paragraph__found_and_wrapped():
    for name in ("docs/page.md", "man/page.1"):
        with Tree(**{name: f"First.\n{LONG}\nLast.\n"}) as root:
            assert run(root, "columns.py", name)[0] == 1
            assert run(root, "columns.py", "--fix")[0] == 0
            text = (root / name).read_text(encoding="utf-8")
            assert run(root, "columns.py", name)[0] == 0, text
            assert text.split() == f"First. {LONG} Last.".split(), text
            assert max(map(len, text.split("\n"))) <= 100, text


def columns__what_cannot_be_broken__left_alone():
    for text in (f"| {LONG} |\n", f"# {LONG}\n", f"```\n{LONG}\n```\n", f"\n    {LONG}\n", f"`{LONG}`\n", "x" * 200 + "\n"):
        with Tree(**{"docs/page.md": text}) as root:
            assert run(root, "columns.py", "docs/page.md") == (0, "1 files, 0 with lines that are too long\n"), text


def columns__no_git__what_was_built_left_out():
    with Tree(**{"docs/page.md": "Short.\n", "obj/build.ninja": "\n", "obj/docs/page.md": f"{LONG}\n"}) as root:
        code, out = run(root, "columns.py")
        assert code == 0, out


def columns__list_and_words_that_mean_something__kept():
    word = "x" * 96
    with Tree(**{"docs/page.md": f"- {word} - is no item\n- {LONG}\n  1. {word} 7. is no item\n"}) as root:
        assert run(root, "columns.py", "--fix")[0] == 0
        lines = (root / "docs/page.md").read_text(encoding="utf-8").split("\n")
        assert [line[:4] for line in lines if line.lstrip()[:1] in ("-", "1", "7")] == ["- xx", "- wo", "  1."], lines


def words__in_comments_and_pages__found():
    for name, text, said in (
        ("src/base/list.h", "/* Nobody\n * uses it. */\n", '"Nobody"'),
        ("src/base/list.h", "int a; // the kernel tells it\n", '"tells"'),
        ("src/base/more.c", "/*\n * It stays for\n * good.\n */\n", '"for good"'),
        ("test/a.py", '"""What it says."""\n', '"says"'),
        ("test/a.py", "a = 1  # whoever asks\n", '"asks"'),
        ("docs/a.md", "What becomes of it.\n", '"becomes of"'),
        ("man/a.1", ".SH NAME\nneither\n", '"neither"'),
    ):
        with Tree(**{name: text}) as root:
            code, out = run(root, "words.py")
            assert code == 1 and f"{name}:" in out and said in out, (name, text, out)


def words__outside_of_sentences__left_alone():
    for name, text in (
        ("src/base/list.h", 'const char *nobody = "nobody knows"; /* ask() and `asked`; "neither" */\n'),
        ("test/a.py", 'a = "says"\n'),
        ("docs/a.md", "`whoever`\n\n```\nIt says so.\n```\n\n    told\n\nWell known, and unknown.\n"),
        ("man/a.1", ".nf\nIt says so.\n.fi\n"),
    ):
        with Tree(**{name: text}) as root:
            code, out = run(root, "words.py")
            assert code == 0, (name, text, out)


def format__file__found():
    with Tree(**{"src/base/bad.c": "int  f( int a ){return a;}\n"}) as root:
        shutil.copy(HERE.parent.parent / ".clang-format", root)
        code, out = run(root, "format.py")
        if code == SKIPPED:
            return
        assert code == 1 and "clang-format" in out and "-i src/base/bad.c" in out, out


def pre_commit__each_hook__runs(root):
    try:
        import yaml  # pylint: disable=import-outside-toplevel
    except ImportError:
        print("skipped: .pre-commit-config.yaml: no python3-yaml")
        return
    config = yaml.safe_load((root / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
    assert {repo["repo"] for repo in config["repos"]} == {"local"} and len(hooks) > 3
    for hook in hooks:
        argv = hook["entry"].split()
        assert hook["language"] == "system" and os.access(root / argv[0], os.X_OK), hook
        files = ["src/base/list.h", "README.md"] if hook.get("pass_filenames", True) else []
        files = [name for name in files if name.endswith(".h" if "clang" in hook["id"] else ".md")]
        p = subprocess.run([*argv, *files], cwd=root, capture_output=True, text=True, check=False)
        assert p.returncode in (0, SKIPPED), (hook, p.stdout + p.stderr)


def main():
    for name, test in list(globals().items()):
        if "__" in name[1:-1] and callable(test) and not name.startswith("_"):
            test(*([pathlib.Path(sys.argv[1]).resolve()] if name.startswith("pre_commit") else []))
            print(f"ok {name}")


if __name__ == "__main__":
    main()
